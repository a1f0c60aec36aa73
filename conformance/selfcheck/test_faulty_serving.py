"""Scenarios catch what goes wrong between a scheduler and a cache, and say in which of them."""

import re

import pytest

from conformance.drawing import for_each
from conformance.faults.defects import DEFECTS, find_defect
from conformance.faults.serving import DEFECTS as OF_TARGETS
from conformance.judge import Judge
from conformance.scenarios.catalogue import SCENARIOS
from conformance.scenarios.engine import serve
from conformance.scenarios.scenario import Scenario
from conformance.scenarios.scheduler import Scheduler
from conformance.scenarios.workloads import workloads
from conformance.selfcheck import faulty_serving
from conformance.selfcheck.running import gate
from conformance.targets.models import NumpyTarget
from conformance.verdict import Differs

SHARED = "a system prompt shared, users diverge within its third block"
COMPOSED = "a prompt of 9 tokens, every composition"
EVICTED = "hits after the end of the chain was evicted"
REUSED = "blocks reused by shorter and longer prompts"
PREEMPTED = "preempted, and computed again"
PREEMPTED_SHARED = "preempted with a shared prefix"

CAUGHT = {
    "SharesAPartialBlock": (SHARED, "step 2, chunk 1: request user 0 token 40"),
    "HashesHalfABlock": (SHARED, "request user 1 token 40"),
    "HashesABlockAlone": ("a known block of tokens at another position is no hit", "request first token 0 "),
    "FreesEarly": (PREEMPTED, "request long answer 0 token 16"),
    "CountsOneUser": (PREEMPTED_SHARED, "request user 0 token 0 "),
    "ForgetsToEvict": (EVICTED, "request second user token 64"),
    "TakesUsedBlocks": (EVICTED, "request second user token 32"),
    "serving-padding-wraps": (
        "a dummy batch before one prompt",
        r"1 records or rows of kv_cache .* nobody's: \(39, 15\)",
    ),
    "serving-padding-into-slot-0": ("a full cache", "request full 2 token 16 = block 1 slot 0 -> physical block 0"),
    "serving-amax-of-the-batch": (
        "12 prompts of 1.7 K tokens, budget 1,000: splits within blocks",
        "request prompt 0 token 4 ",
    ),
    "serving-odd-token-dropped": ("a prompt of 40 tokens in two parts, every split", "request split .* token "),
    "serving-blocks-cleared": (COMPOSED, r"request split 8\+1 token 8 |request split .* token 0 "),
    "serving-other-scale-of-zeros": (SHARED, r"element 3\d\d of the record: expected 0x01, got 0x38"),
    "serving-slots-overwritten": (SHARED, r"changed its inputs, .*'slot_mapping': \[\(0,\)"),
    "serving-between-blocks": ("24 users of a system prompt", "memory around kv_cache had changed"),
    "serving-starts-ignored": (COMPOSED, "gathered from token 6 on"),
    "serving-starts-rounded-down": (COMPOSED, "gathered from token 6 on"),
    "serving-last-row-stale": (REUSED, "step 1, chunk 0: request 90 tokens token 31"),
    "serving-next-table-row": (PREEMPTED, "request long answer 0 token 0 "),
    "serving-table-overwritten": (SHARED, "changed its inputs, or what lies around them: block_table"),
    "serving-records-kept": (REUSED, "request 61 tokens token 0 "),
    "serving-table-remembered": (REUSED, "request 33 tokens token 0 "),
    "merge-suffix-alone": (PREEMPTED, "elements are beyond their bounds"),
}
"""In which scenario, among others, and with what words."""


def serving(name: str) -> NumpyTarget:
    """A defect's target that has all operators judged."""
    target = find_defect(name).target()
    assert isinstance(target, NumpyTarget)
    target.capabilities = NumpyTarget.capabilities  # type: ignore[misc]
    return target


@pytest.mark.clause("ATTEND-8", "ATTEND-9", "ATTEND-10")
@pytest.mark.parametrize("name", CAUGHT)
def test_a_fault_is_caught_in_the_scenario_that_is_about_it(name: str) -> None:
    scenario, says = CAUGHT[name]
    changed, target = {}, NumpyTarget()
    if name in DEFECTS:
        target = serving(name)
    else:
        fault = getattr(faulty_serving, name)
        changed = {"scheduler" if issubclass(fault, Scheduler) else "pool": fault}
    with pytest.raises(Differs, match=says) as caught:
        serve(Judge(target, ("ATTEND-8",)), SCENARIOS[scenario], **changed)
    assert f"scenario {scenario}, nvfp4_ds_mla" in str(caught.value)


@pytest.mark.parametrize("name", ["serving-padding-into-slot-0", "serving-starts-ignored", "serving-blocks-cleared"])
def test_random_workloads_find_a_fault_and_make_it_small(name: str) -> None:
    judge = Judge(serving(name), ("ATTEND-8",))
    smallest: list[Scenario] = []

    def check(scenario: Scenario) -> None:
        try:
            serve(judge, scenario)
        except Differs:
            smallest.append(scenario)
            raise

    with pytest.raises(Differs, match="scenario a random workload"):
        for_each(workloads(), 25, 1, check)
    assert sum(len(request.tokens) for request in smallest[-1].requests) < 20


def test_every_fault_is_listed() -> None:
    kinds = {name: kind for name, kind in vars(faulty_serving).items() if isinstance(kind, type)}
    here = {name for name, kind in kinds.items() if kind.__module__ == faulty_serving.__name__}
    of_targets = {defect.name for defect in OF_TARGETS}
    assert here | of_targets | {"merge-suffix-alone"} == set(CAUGHT)


def test_the_gate_names_the_scenario_in_which_starts_are_ignored() -> None:
    fault = "fault:serving-starts-ignored"
    done = gate("conformance/gate/test_scenarios.py", "--target", fault, "-k", "composition")
    assert done.returncode == 1, done.stdout[-2000:]
    assert re.search(rf"^FAILED .*{re.escape(COMPOSED)}", done.stdout, re.MULTILINE), done.stdout[-2000:]
