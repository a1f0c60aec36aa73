"""Plans of chunks: what is asked of a planner, and the verdict on its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from conformance.judge import Differs, Judge
from conformance.observe import TargetError
from conformance.plan_rules import Call, violations
from conformance.targets.base import PLAN
from reference.chunks import Chunk, plan_mla_context_chunks


@dataclass(frozen=True)
class PlanCase:
    """One call of a planner; n tokens take ceil(n / padding) * padding rows."""

    context_lens: tuple[int, ...]
    row_budget: int
    max_context_chunk: int
    split_alignment: int = 1
    padding: int = 1

    def padded_rows(self, tokens: int) -> int:
        """Rows that a piece takes."""
        return -(-tokens // self.padding) * self.padding

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
    judge.need(PLAN)
    expected = plan_mla_context_chunks(*case.arguments)
    try:
        found = [_chunk(chunk) for chunk in judge.target.plan_mla_context_chunks(*case.arguments)]
    except Exception as error:
        raise judge.crashed(case, TargetError(f"{type(error).__name__}: {error}")) from error
    judge.count.add(0, 0)
    if found != [(chunk, chunk.is_continuation) for chunk in expected]:
        broken = violations(case.asked, [chunk for chunk, _ in found])
        raise Differs(judge.text("differs", [*broken, *_difference(expected, found), repr(case)]))


def _chunk(chunk: Any) -> tuple[Chunk, bool]:
    starts, seq_lens = (tuple(int(n) for n in numbers) for numbers in (chunk.starts, chunk.seq_lens))
    return Chunk(int(chunk.request_start), int(chunk.request_end), starts, seq_lens), bool(chunk.is_continuation)


def _difference(expected: Sequence[Chunk], found: Sequence[tuple[Chunk, bool]]) -> list[str]:
    for number, (want, got) in enumerate(zip(expected, found, strict=False)):
        if got != (want, want.is_continuation):
            says = f", is_continuation {got[1]}"
            return [f"chunk {number}: expected {want}, is_continuation {want.is_continuation}", f"  got {got[0]}{says}"]
    return [f"expected {len(expected)} chunks, got {len(found)}; those there are agree"]


def small_scope(requests: int, longest: int) -> Iterator[PlanCase]:
    """Every plan of `requests` requests of up to `longest` tokens, with alignments up to 4 and paddings up to 3."""
    for lengths in product(range(longest + 1), repeat=requests):
        for alignment, padding in ((1, 1), (2, 1), (3, 1), (4, 1), (2, 2), (4, 2), (3, 3)):
            for budget in range(alignment, longest + 6):
                yield PlanCase(lengths, budget, budget // alignment * alignment, alignment, padding)
