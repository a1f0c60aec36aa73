"""The planner: every plan of a small scope against the clauses themselves, and planners that are wrong in one way."""

import pytest

from conformance.faults.defects import DEFECTS
from conformance.faults.planners import FaultyPlanner, a_plan
from conformance.judge import Judge
from conformance.plan_rules import violations
from conformance.plans import PlanCase, judge_plan, small_scope
from conformance.verdict import Differs
from reference.chunks import plan_mla_context_chunks

REDUCED = {1: 12, 2: 9, 3: 5, 4: 3}
WHOLE = {1: 30, 2: 20, 3: 11, 4: 9}
"""Requests -> the longest context; the whole scope has more than a million plans."""


@pytest.mark.parametrize("requests", REDUCED)
def test_every_plan_of_a_small_scope_keeps_every_clause(requests: int, pytestconfig: pytest.Config) -> None:
    scope = WHOLE if pytestconfig.getoption("--profile") == "nightly" else REDUCED
    plans = 0
    for case in small_scope(requests, scope[requests]):
        broken = violations(case.asked, plan_mla_context_chunks(*case.arguments))
        assert not broken, (broken, case)
        plans += 1
    assert plans > 1000


def test_the_scopes_have_as_many_plans_as_readme_says() -> None:
    assert plans_of(WHOLE) == 1_459_222 and plans_of(REDUCED) == 44_856


def plans_of(scope: dict[int, int]) -> int:
    return sum(settings(longest) * (longest + 1) ** requests for requests, longest in scope.items())


def settings(longest: int) -> int:
    """How many budgets, alignments and paddings there are for each batch."""
    return sum(1 for _ in small_scope(0, longest))


FAULTY = [
    ("last-token-not-planned", PlanCase((3, 3), 8, 8)),
    ("budget-a-row-more", PlanCase((5, 4), 8, 8)),
    ("padding-not-counted", PlanCase((5, 1), 8, 8, 4, 4)),
    ("cut-unaligned", PlanCase((9, 9), 8, 8, 4)),
    ("cut-short-of-a-full-chunk", PlanCase((9,), 8, 8, 4)),
    ("empty-piece-without-room", PlanCase((6, 9), 8, 8, 4)),
    ("every-request-a-share", PlanCase((9, 9), 16, 16, 4)),
    ("empty-piece-without-context", PlanCase((3, 0, 3), 8, 8)),
    ("budget-a-row-less", PlanCase((4, 4), 8, 8)),
    ("one-request-a-chunk", PlanCase((3, 3), 8, 8)),
    ("rest-of-a-chunk-unused", PlanCase((5, 9), 8, 8)),
]


@pytest.mark.parametrize(("name", "case"), FAULTY, ids=[row[0] for row in FAULTY])
def test_a_faulty_planner_is_caught_by_the_clause_it_breaks(name: str, case: PlanCase) -> None:
    defect = DEFECTS[name]
    with pytest.raises(Differs, match=rf"  {defect.clause}: "):
        judge_plan(Judge(defect.target(), ["PLAN"]), case)


def test_a_planner_that_is_right_passes() -> None:
    for _, case in FAULTY:
        judge_plan(Judge(FaultyPlanner(a_plan), ["PLAN"]), case)


def test_a_wrong_is_continuation_is_seen() -> None:
    target = DEFECTS["plan-never-continues"].target()
    with pytest.raises(Differs, match="is_continuation False"):
        judge_plan(Judge(target, ["PLAN-5"]), PlanCase((9,), 8, 8))


@pytest.mark.parametrize(
    ("says", "case"),
    [
        (r"context_lens\[1\] is -1; allowed is at least 0", PlanCase((3, -1), 64, 64)),
        ("row_budget is 15; 16 tokens", PlanCase((100,), 15, 16, 16)),
        ("row_budget is 0; 1 tokens", PlanCase((100,), 0, 1)),
        ("max_context_chunk is 15", PlanCase((100,), 64, 15, 16)),
        ("max_context_chunk is 0", PlanCase((100,), 64, 0)),
        ("max_context_chunk is 3; allowed is at least split_alignment 4", PlanCase((2,), 64, 3, 4)),
        ("split_alignment is 0", PlanCase((3,), 64, 64, 0)),
        ("row_budget is 20; 24 tokens", PlanCase((100,), 20, 24, 24, 24)),
    ],
)
def test_what_cannot_be_planned_is_refused_with_the_figures(says: str, case: PlanCase) -> None:
    with pytest.raises(ValueError, match=says):
        a_plan(case.asked)
