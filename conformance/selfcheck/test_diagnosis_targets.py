"""Faults of merges, planners, servers and loops, and around gathers, are named by what their targets did alone."""

from collections.abc import Callable
from dataclasses import replace
from math import inf
from random import Random
from typing import Any

import numpy as np
import pytest

from conformance import cases as gather_cases
from conformance import context_cases as contexts
from conformance.attend_calls import LoopSighting, judge_attend
from conformance.attending import gather_of, must_attend_to_its_context, sighting_of
from conformance.context_generation import realize
from conformance.diagnosis import budget, candidates
from conformance.diagnosis import merge as merge_search
from conformance.diagnosis.engine import diagnose, in_full
from conformance.diagnosis.loop import explain_loop
from conformance.diagnosis.merge import explain_merge
from conformance.faults import loop_steps
from conformance.faults.around import Arguments, Around, Proceed, allocation
from conformance.faults.builders import FaultyBuilder, setting
from conformance.faults.defects import find_defect
from conformance.faults.loop import Loop
from conformance.faults.loops import of_steps
from conformance.faults.planners import FaultyPlanner, at_most
from conformance.faults.servers import Changed
from conformance.faults.startups import Starting, never, saying, wherever
from conformance.faults.stepwise import Array, Stepwise
from conformance.faults.workspaces import FaultyRows
from conformance.gate import test_attend as attend_gate
from conformance.gate import test_plan as plan_gate
from conformance.judge import Judge
from conformance.merge_calls import must_merge_anew
from conformance.merge_generation import EVERY, mixed
from conformance.merges import MergeSighting, judge_merge, observe_merge
from conformance.one_softmax import Arithmetic, attend_whole, error_bounds
from conformance.selfcheck.bf16_loops import BF16
from conformance.selfcheck.diagnosing import (
    ELSEWHERE,
    FAMILIES,
    Ask,
    asks,
    attending,
    differences,
    merging,
    planning,
    serving,
)
from conformance.selfcheck.merging_targets import OfBase2, WithTheWorstExponential
from conformance.targets.base import (
    GATHER,
    GATHER_STARTS,
    Target,
)
from conformance.targets.models import NumpyTarget
from conformance.workspaces import golden
from fixtures.cases import Arrangement
from fixtures.placement import POISONS
from reference import context
from reference.merging import Partial
from reference.profiles import DEFAULT


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found must not depend on what else a machine does."""
    monkeypatch.setattr(budget, "SECONDS", 60.0)
    monkeypatch.setattr(budget.SEARCHES, "most", inf)


@pytest.mark.parametrize("family", FAMILIES)
def test_faults_chosen_at_random_are_named_from_what_they_did_alone(family: str) -> None:
    count, asked, defects = FAMILIES[family]
    asks, left = asked(), count
    for defect in Random(7).sample(defects, len(defects)):
        found = [] if ELSEWHERE.search(defect.name) else differences(defect.target(), asks, 4)
        if found:
            named = set.intersection(*(set(diagnose(error).explained_by) for error in found))
            assert defect.name in named and len(named) <= 3, defect.name
            left -= 1
        if not left:
            break
    assert left == 0


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("merge-remembers-weights", lambda judge: must_merge_anew(judge, "bf16")),
        ("attend-scale-of-the-first-call", attending()[-1]),
        ("plans-in-one-list", planning()[len(plan_gate.NAMED)]),
    ],
)
def test_what_a_target_remembers_is_named_from_the_calls_that_show_it(name: str, ask: Ask) -> None:
    assert [diagnose(error).explained_by for error in differences(find_defect(name).target(), [ask])] == [(name,)]


class WithLargerWeights(Stepwise):
    """Has a hundredth too much of everything."""

    def _combine(self, P: Array, a: Array, S: Array, b: Array) -> Array:
        return super()._combine(P, a, S, b) * np.float32(1.01)


class BarelyTooFar(Stepwise):
    """Is a bound off, and rounded away from it."""

    off = 1


def with_larger_scores(chunk: Any, q: Any, k: Any, v: Any, scale: float) -> Any:
    return context.attend(chunk, q, k, v, 1.01 * scale)


def column_577_written(proceed: Proceed, call: Arguments) -> None:
    proceed(call)
    dst = call["dst"]
    allocation(dst, np.arange(len(dst)) * (dst.strides[0] // 2) + 577, 0x1234)


def a_message() -> list[Ask]:
    return serving()[-1:]


UNKNOWN: dict[str, tuple[Callable[[], Target], Callable[[], list[Ask]]]] = {
    "a merge with larger weights": (WithLargerWeights, merging),
    "a merge barely beyond its bounds": (BarelyTooFar, merging),
    "a planner with two requests a chunk": (lambda: FaultyPlanner(at_most(2)), planning),
    "metadata with a longest piece too long": (
        lambda: FaultyBuilder(setting(max_seq_len=lambda case, chunk: chunk.max_seq_len + 1)),
        planning,
    ),
    "a workspace of a row more": (lambda: FaultyRows(lambda case: golden(case) + 1), planning),
    "a server that gathers a row less": (lambda: Changed(lambda call, _: replace(call, rows=call.rows - 1)), serving),
    "a server that refuses 10.1": (
        lambda: Starting(wherever(lambda config: config.compute_capability == (10, 1), never)),
        serving,
    ),
    "a server that refuses in words of its own": (
        lambda: Starting(saying("head_size is not supported")),
        a_message,
    ),
    "a loop with larger scores": (lambda: of_steps(attend=with_larger_scores), attending),
    "a gather that writes column 577": (
        lambda: Around(column_577_written, frozenset({GATHER, GATHER_STARTS})),
        lambda: asks(lambda judge, case: judge(case), [gather_cases.strided_gather(Arrangement(dst_row_slack=8))]),
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_no_known_fault_does_is_explained_by_none(name: str) -> None:
    target, asked = UNKNOWN[name]
    (error,) = differences(target(), asked())
    assert diagnose(error).explained_by == () and "no known fault explains it" in in_full(error)


def test_two_faults_of_a_merge_at_a_time_are_named_as_a_pair() -> None:
    first, second = find_defect("merge-weights-swapped"), find_defect("merge-last-element-left")
    both = type("Both", (type(first.target()), type(second.target())), {})
    (error,) = differences(both(), asks(judge_merge, [mixed(5, 3, 64)]))
    assert diagnose(error).explained_by == (f"{first.name} + {second.name}",)


@pytest.mark.parametrize("name", ["last-element-left", "plus-infinity-in-the-lse", "weights-of-head-0"])
@pytest.mark.parametrize("right", [OfBase2, WithTheWorstExponential], ids=lambda kind: kind.__name__)
def test_a_fault_of_a_merge_that_computes_in_another_way_is_named(right: type[Stepwise], name: str) -> None:
    fault = find_defect(f"merge-{name}")
    other = type("Other", (type(fault.target()), right), {})
    (error,) = differences(other(), asks(judge_merge, [mixed(9, 4, 64, "binary32", pairs=EVERY, stale=True)]))
    assert fault.name in diagnose(error).explained_by


def test_a_write_elsewhere_is_not_taken_for_a_fault_of_a_merge_that_makes_none() -> None:
    case, fault = mixed(5, 3, 64), find_defect("merge-weights-swapped")
    seen = observe_merge(Judge(fault.target()), case, POISONS[0])
    assert seen is not None
    assert [each.name for each in explain_merge(MergeSighting((case,), seen))] == [fault.name]
    spoilt = replace(seen, around=replace(seen.around, strays={"output": [-1]}))
    assert explain_merge(MergeSighting((case,), spoilt)) == []


def test_a_loop_barely_beyond_its_bounds_is_not_taken_for_a_fault_that_does_nothing_here() -> None:
    batch = realize(attend_gate.OWN_LOOPS["a continuation beside two others"], DEFAULT)
    whole = attend_whole(batch)
    output, lse = error_bounds(whole, batch.case.chunked_context, Arithmetic(8))
    found = Partial(whole.output + 1.5 * output, whole.lse + 1.5 * lse)
    asked = ((batch, whole.softmax_scale),)
    assert explain_loop(LoopSighting(asked, whole, found, (output, lse))) == []


def test_a_faulty_loop_that_computes_in_bf16_is_named() -> None:
    loop = Loop(**{**BF16, "merge": loop_steps.average})
    loop.attends_in = "bf16"
    (error,) = differences(loop, asks(judge_attend, [attend_gate.OWN_LOOPS["a continuation beside two others"]]))
    assert diagnose(error).explained_by == ("attend-average",)


@pytest.mark.parametrize("name", ["serving-table-overwritten", "serving-next-table-row", "serving-last-row-stale"])
def test_a_faulty_gather_is_named_from_the_workspaces_of_a_batch(name: str) -> None:
    (error,) = differences(find_defect(name).target(), asks(must_attend_to_its_context, [*contexts.SHARDED.values()]))
    assert name in diagnose(error).explained_by


def test_what_right_workspaces_lead_to_is_no_fault_of_the_gather() -> None:
    batch, log = realize(contexts.NAMED["one token"], DEFAULT), list[Any]()
    gather = gather_of(Judge(NumpyTarget()), batch, POISONS[0], log)
    gather(batch.case.chunked_context.chunks[0])
    assert candidates.explain_alike(sighting_of(batch, POISONS[0], log)) == []


@pytest.mark.parametrize(
    ("module", "name", "least", "says"),
    [
        (budget, "SECONDS", -1.0, "of the 0 that"),
        (merge_search, "MOST", 100, "known faults are not looked for in calls of this size"),
    ],
)
def test_what_takes_too_long_or_is_too_large_is_not_looked_into(
    module: Any, name: str, least: float, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, least)
    (error,) = differences(find_defect("merge-weights-swapped").target(), asks(judge_merge, [mixed(5, 3, 64)]))
    assert diagnose(error).explained_by == () and says in in_full(error)


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_is_looked_for_before_somebody_asks(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, asked, defects = FAMILIES[family]
    monkeypatch.setattr(candidates, "fitting", lambda *given: pytest.fail("looked for"))
    monkeypatch.setattr(merge_search, "fitting", candidates.fitting)
    assert any(differences(defect.target(), asked()) for defect in defects[:3])
