"""Rows of workspaces: what is asked of the builders, the verdict on an answer, and the clauses as predicates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from itertools import product
from math import lcm
from operator import index
from typing import Any, Literal

from conformance.answers import Question, judge_answers
from conformance.judge import Judge
from conformance.targets.base import PLAN_WORKSPACE
from conformance.verdict import Crashed, Unsupported
from reference.shards import Sharding
from reference.workspace import determine_chunked_prefill_workspace_size


@dataclass(frozen=True)
class WorkspaceCase:
    """One call, with the arguments in their order."""

    builder: Literal["dense", "sparse"]
    max_model_len: int
    max_num_seqs: int
    block_size: int
    index_topk: int
    dcp_world_size: int = 1
    interleave: int = 1

    @property
    def arguments(self) -> tuple[Any, ...]:
        """In the order of the call."""
        return astuple(self)

    @property
    def clause(self) -> str:
        """The one that says how many rows there are."""
        if self.dcp_world_size > 1:
            return "SHARD-13"
        return "PLAN-20" if self.builder == "dense" else "PLAN-21"


def golden(case: WorkspaceCase) -> int:
    """The golden model's answer."""
    return determine_chunked_prefill_workspace_size(
        case.builder,
        case.max_model_len,
        case.max_num_seqs,
        case.block_size,
        case.index_topk,
        Sharding(case.dcp_world_size, case.interleave),
    )


ROWS = Question(
    "determine_chunked_prefill_workspace_size",
    PLAN_WORKSPACE,
    "number of rows",
    lambda case, answer: index(answer),
    golden,
    lambda case, expected, found: [f"{case.clause}: expected {expected:,} rows, got {found:,}"],
)


def judge_workspace(judge: Judge, case: WorkspaceCase) -> None:
    """Raise Differs or Crashed unless a builder of the target has the rows that SPEC.md says."""
    judge.need(PLAN_WORKSPACE)
    try:
        judge_answers(judge, ROWS, case)
    except Crashed as crash:
        if isinstance(crash.__cause__, NotImplementedError):
            raise Unsupported(f"target {judge.target.name}: {crash.__cause__}") from crash
        raise


def violation(case: WorkspaceCase, rows: int) -> str | None:
    """The clause that a number of rows breaks, by its sentence; None if it keeps it."""
    limits = [65_536, max(8 * case.max_model_len, 4 * case.max_num_seqs * case.block_size)]
    if case.builder == "sparse":
        limits.append(case.max_num_seqs * case.index_topk)
    wanted = min(limits)
    if case.builder == "sparse" and case.dcp_world_size == 1:
        right = rows >= case.block_size and (rows == wanted or (wanted < case.block_size == rows))
    else:
        turns = case.dcp_world_size * case.interleave if case.dcp_world_size > 1 else 1
        step = lcm(case.block_size, turns)
        right = rows > 0 and rows % step == 0 and rows >= wanted and (rows == step or rows - step < wanted)
    return None if right else f"{case.clause}: {rows:,} rows, for {case}"


MODEL_LENS = (1, 7, 100, 2_048, 8_191, 8_192, 131_072, 1 << 20)
SEQUENCES = (1, 3, 8, 256, 1_024)
BLOCKS = (1, 16, 48, 64, 1_000, 1_024)
TOPKS = (1, 64, 2_048)


def every_configuration(builder: Literal["dense", "sparse"]) -> Iterator[WorkspaceCase]:
    """Configurations of all sizes that matter, the smallest first, on one rank and on several."""
    shardings = ((1, 1), (1, 3), (2, 1), (2, 16), (3, 1), (8, 1), (8, 5))
    for shape in product(MODEL_LENS, SEQUENCES, BLOCKS, TOPKS if builder == "sparse" else (2_048,)):
        for ranks, turn in shardings:
            yield WorkspaceCase(builder, *shape, ranks, turn)
