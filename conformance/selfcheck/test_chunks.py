"""The planner: every plan of a small scope against the clauses themselves, and planners that are wrong in one way."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from conformance.judge import Differs, Judge
from conformance.plan_rules import violations
from conformance.plans import PlanCase, judge_plan, small_scope
from conformance.targets.models import NumpyTarget
from reference.chunks import Chunk, plan_mla_context_chunks

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


def a_plan(case: PlanCase) -> list[Chunk]:
    return plan_mla_context_chunks(*case.arguments)


def with_an_alignment_of_one(case: PlanCase) -> list[Chunk]:
    return a_plan(replace(case, split_alignment=1))


def with_a_row_more(case: PlanCase) -> list[Chunk]:
    return a_plan(replace(case, row_budget=case.row_budget + 1))


def with_a_row_less(case: PlanCase) -> list[Chunk]:
    return a_plan(replace(case, row_budget=case.row_budget - 1))


def reaching_over_requests_without_context(case: PlanCase) -> list[Chunk]:
    kept = [request for request, length in enumerate(case.context_lens) if length]
    dense = a_plan(replace(case, context_lens=tuple(case.context_lens[request] for request in kept)))
    return [replace(c, request_start=kept[c.request_start], request_end=kept[c.request_end - 1] + 1) for c in dense]


def every_request_a_share(case: PlanCase) -> list[Chunk]:
    """Gives each request the same share of every chunk, as planners did before: all of them continue."""
    requests = len(case.context_lens)
    share = case.row_budget // requests // case.split_alignment * case.split_alignment
    plan = []
    for start in range(0, max(case.context_lens), share):
        lengths = tuple(min(share, length - start) for length in case.context_lens)
        plan.append(Chunk(0, requests, (start,) * requests, lengths))
    return plan


def one_request_a_chunk(case: PlanCase) -> list[Chunk]:
    return [
        Chunk(c.request_start + i, c.request_start + i + 1, (c.starts[i],), (c.seq_lens[i],))
        for c in a_plan(case)
        for i in range(len(c.starts))
    ]


def without_the_last_token(case: PlanCase) -> list[Chunk]:
    plan = a_plan(case)
    last = plan[-1]
    return [*plan[:-1], replace(last, seq_lens=(*last.seq_lens[:-1], last.seq_lens[-1] - 1))]


FAULTY = [
    (with_an_alignment_of_one, PlanCase((9, 9), 8, 8, 4), "PLAN-3"),
    (with_a_row_more, PlanCase((5, 4), 8, 8), "PLAN-2"),
    (with_a_row_less, PlanCase((4, 4), 8, 8), "PLAN-7"),
    (reaching_over_requests_without_context, PlanCase((3, 0, 3), 8, 8), "PLAN-4"),
    (every_request_a_share, PlanCase((9, 9), 16, 16, 4), "PLAN-5"),
    (one_request_a_chunk, PlanCase((3, 3), 8, 8), "PLAN-7"),
    (without_the_last_token, PlanCase((3, 3), 8, 8), "PLAN-1"),
]

Planner = Callable[[PlanCase], list[Chunk]]


class Faulty(NumpyTarget):
    def __init__(self, planner: Planner) -> None:
        super().__init__()
        self.planner = planner

    def plan_mla_context_chunks(
        self, context_lens: Sequence[int], row_budget: int, most: int, alignment: int, padded_rows: Any
    ) -> list[Chunk]:
        return self.planner(PlanCase(tuple(context_lens), row_budget, most, alignment, padded_rows(1)))


@pytest.mark.parametrize(("planner", "case", "clause"), FAULTY, ids=[row[0].__name__ for row in FAULTY])
def test_a_faulty_planner_is_caught_by_the_clause_it_breaks(planner: Planner, case: PlanCase, clause: str) -> None:
    judge = Judge(Faulty(planner), ["PLAN"])
    with pytest.raises(Differs, match=clause):
        judge_plan(judge, case)


def test_a_planner_that_is_right_passes() -> None:
    for _, case, _ in FAULTY:
        judge_plan(Judge(Faulty(a_plan), ["PLAN"]), case)


def test_a_wrong_is_continuation_is_seen() -> None:
    class Says:
        def __init__(self, chunk: Chunk) -> None:
            vars(self).update(vars(chunk), is_continuation=False)

    target = Faulty(lambda case: [Says(chunk) for chunk in a_plan(case)])  # type: ignore[misc]
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
        a_plan(case)
