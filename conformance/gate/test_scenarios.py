"""ATTEND-8 to ATTEND-10: whole workloads on one cache, from the scheduler's first step to its last."""

import pytest

from conformance.drawing import for_each
from conformance.judge import Judge
from conformance.profiles import Profile
from conformance.scenarios.catalogue import DUMMIES, FEW, ORIGINAL, PREFIXES, PRESSURE, SPLITS
from conformance.scenarios.engine import serve
from conformance.scenarios.scenario import Scenario
from conformance.scenarios.workloads import workloads

OTHERS = ("fp8_ds_mla", "auto", "fp8")


def named(*scenarios: Scenario) -> pytest.MarkDecorator:
    """One test for each scenario, with its name."""
    return pytest.mark.parametrize("scenario", scenarios, ids=[scenario.name for scenario in scenarios])


@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.unsanitized
@pytest.mark.clause("ATTEND-8")
@named(*ORIGINAL, *SPLITS)
def test_however_a_prompt_is_split_the_same_is_read_back(judge: Judge, scenario: Scenario) -> None:
    serve(judge, scenario)


@pytest.mark.clause("ATTEND-8", "ATTEND-9")
@named(*PREFIXES)
def test_a_prefix_hit_reads_what_its_first_user_wrote(judge: Judge, scenario: Scenario) -> None:
    serve(judge, scenario)


@pytest.mark.clause("ATTEND-8", "ATTEND-9")
@named(*PRESSURE)
def test_blocks_change_hands_without_a_trace(judge: Judge, scenario: Scenario) -> None:
    serve(judge, scenario)


@pytest.mark.clause("ATTEND-8", "ATTEND-10")
@named(*DUMMIES)
def test_a_dummy_batch_changes_nothing(judge: Judge, scenario: Scenario) -> None:
    serve(judge, scenario)


@pytest.mark.unsanitized
@pytest.mark.clause("ATTEND-8", "ATTEND-9", "ATTEND-10")
def test_random_workloads(judge: Judge, profile: Profile, seed: int) -> None:
    def check(scenario: Scenario) -> None:
        serve(judge, scenario)

    for_each(workloads(), profile.random_cases // 8, seed, check)


@pytest.mark.long
@pytest.mark.unsanitized
@pytest.mark.clause("ATTEND-8", "ATTEND-9", "ATTEND-10")
@pytest.mark.parametrize("gathered", OTHERS)
@named(*FEW)
def test_caches_of_other_records_serve_alike(judge: Judge, scenario: Scenario, gathered: str) -> None:
    serve(judge, scenario, gathered)
