"""Plans of chunks: what is asked of a planner, and the verdict on its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from operator import index
from typing import Any

from conformance.answers import Question, judge_answers, members, truth
from conformance.judge import Judge
from conformance.plan_rules import Call, violations
from conformance.targets.base import PLAN
from reference.chunks import Chunk, plan_mla_context_chunks


@dataclass(frozen=True)
class PlanCase:
    """One call of a planner; n tokens take ceil(n / padding) * padding rows, a share of them on each of several ranks.

    For N ranks that take turns of I tokens, padding is N * I (SHARD-2).
    """

    context_lens: tuple[int, ...]
    row_budget: int
    max_context_chunk: int
    split_alignment: int = 1
    padding: int = 1
    ranks: int = 1

    def padded_rows(self, tokens: int) -> int:
        """Rows that a piece takes."""
        return -(-tokens // self.padding) * self.padding // self.ranks

    @property
    def asked(self) -> Call:
        """The call as the clauses look at it."""
        return Call(*self.arguments)

    @property
    def arguments(self) -> tuple[Sequence[int], int, int, int, Callable[[int], int]]:
        """In the order of the call."""
        return (
            list(self.context_lens),
            self.row_budget,
            self.max_context_chunk,
            self.split_alignment,
            self.padded_rows,
        )


def judge_plan(judge: Judge, case: PlanCase) -> None:
    """Raise Differs or Crashed unless the target's plan is the one that SPEC.md leaves."""
    judge_kept_plans(judge, [case])


def judge_kept_plans(judge: Judge, cases: Sequence[PlanCase]) -> None:
    """Raise as judge_plan does, reading each plan when all of them are there (PLAN-22)."""
    judge.need(PLAN)
    judge_answers(judge, PLANS, *cases)


Told = tuple[Chunk, bool]
"""A chunk, and whether it says that it is a continuation."""


def _read(case: PlanCase, plan: Any) -> list[Told]:
    return [_chunk(chunk) for chunk in members(plan)]


def _golden(case: PlanCase) -> list[Told]:
    return [(chunk, chunk.is_continuation) for chunk in plan_mla_context_chunks(*case.arguments)]


def _chunk(chunk: Any) -> Told:
    starts, seq_lens = (tuple(map(index, numbers)) for numbers in (chunk.starts, chunk.seq_lens))
    return Chunk(index(chunk.request_start), index(chunk.request_end), starts, seq_lens), truth(chunk.is_continuation)


def _told(case: PlanCase, expected: Sequence[Told], found: Sequence[Told]) -> list[str]:
    return [*violations(case.asked, [chunk for chunk, _ in found]), *_difference(expected, found)]


def _difference(expected: Sequence[Told], found: Sequence[Told]) -> list[str]:
    for number, ((want, continues), got) in enumerate(zip(expected, found, strict=False)):
        if got != (want, continues):
            says = f", is_continuation {got[1]}"
            return [f"chunk {number}: expected {want}, is_continuation {continues}", f"  got {got[0]}{says}"]
    return [f"expected {len(expected)} chunks, got {len(found)}; those there are agree"]


PLANS = Question("plan_mla_context_chunks", PLAN, "plan", _read, _golden, _told)


def small_scope(requests: int, longest: int) -> Iterator[PlanCase]:
    """Every plan of `requests` requests of up to `longest` tokens, alignments and paddings up to 4, 1 or 2 ranks."""
    for lengths in product(range(longest + 1), repeat=requests):
        for alignment, *padding in ((1, 1), (2, 1), (3, 1), (4, 1), (2, 2), (4, 2), (3, 3), (2, 2, 2), (4, 4, 2)):
            ranks = padding[-1] if padding[1:] else 1
            for budget in range(alignment // ranks, longest + 6):
                yield PlanCase(lengths, budget, budget * ranks // alignment * alignment, alignment, *padding)
