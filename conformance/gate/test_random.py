"""Random legal gathers: geometries that shrink, Philox bytes, unaligned starts."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed

from conformance.judge import Judge
from conformance.profiles import Profile
from conformance.strategies import gather_cases
from conformance.targets.base import GATHER, GATHER_STARTS
from fixtures.cases import GatherCase

ALWAYS = ("GATHER-1", "GATHER-5", "GATHER-6", "GATHER-7", "GATHER-8", "PAGE-1", "PAGE-2", "READ-1", "READ-2")
SHARES = 8  # so that workers can divide the cases among them
WITHOUT_STARTS = 5  # one case in five


@pytest.mark.clause("GATHER-2", *ALWAYS)
@pytest.mark.parametrize("share", range(SHARES))
def test_random_cases_with_starts(judge: Judge, profile: Profile, seed: int, share: int) -> None:
    count = profile.random_cases * (WITHOUT_STARTS - 1) // WITHOUT_STARTS
    _judge_random(judge, count // SHARES, seed, with_starts=True)


@pytest.mark.clause("GATHER-3", *ALWAYS)
@pytest.mark.parametrize("share", range(SHARES))
def test_random_cases_without_starts(judge: Judge, profile: Profile, seed: int, share: int) -> None:
    _judge_random(judge, profile.random_cases // WITHOUT_STARTS // SHARES, seed, with_starts=False)


def _judge_random(judge: Judge, count: int, seed: int, with_starts: bool) -> None:
    judge.need(GATHER_STARTS if with_starts else GATHER)

    @hypothesis_seed(seed)
    @settings(
        max_examples=count,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        database=None,  # the seed alone says which cases are drawn
        phases=(Phase.generate, Phase.shrink),
    )
    @given(gather_cases(with_starts))
    def conforms(case: GatherCase) -> None:
        judge(case)

    conforms()
