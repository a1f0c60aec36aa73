"""Define workspaces with a wrong number of rows, in one way each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from math import prod
from typing import Any

from conformance.faults.defect import Defect
from conformance.targets.base import PLAN_WORKSPACE
from conformance.targets.models import NumpyTarget
from conformance.workspaces import WorkspaceCase, golden

Rows = Callable[[WorkspaceCase], int]

CAP = 65_536


class FaultyRows(NumpyTarget):
    """Answer determine_chunked_prefill_workspace_size with a function of the case."""

    capabilities = frozenset({PLAN_WORKSPACE})

    def __init__(self, rows: Rows) -> None:
        """Set `rows`, which returns the rows for either builder, dense or sparse."""
        super().__init__()
        self.rows = rows

    def determine_chunked_prefill_workspace_size(self, *arguments: Any) -> int:
        """Return the faulty number of rows."""
        return self.rows(WorkspaceCase(*arguments))


def rows_with(**fields: Callable[[WorkspaceCase], Any]) -> Rows:
    """Return a function: the right rows of a case with some arguments replaced."""
    return lambda case: golden(replace(case, **{name: get(case) for name, get in fields.items()}))


def in_32_bits(*factors: str, times: int = 1) -> Rows:
    """Return a function that raises OverflowError if `times` times the product of `factors` exceeds 31 bits."""

    def rows(case: WorkspaceCase) -> int:
        numbers = asdict(case)
        if times * prod(numbers[factor] for factor in factors) >= 1 << 31:
            raise OverflowError(" * ".join(factors))
        return golden(case)

    return rows


def wanted(case: WorkspaceCase) -> int:
    """Return the wanted rows before block rounding: min(max(8 * max_model_len, 4 * max_num_seqs * block_size), CAP)."""
    return min(max(8 * case.max_model_len, 4 * case.max_num_seqs * case.block_size), CAP)


def _before_rounding(case: WorkspaceCase) -> int:
    if case.builder == "dense":
        return wanted(case)
    return max(min(wanted(case), case.max_num_seqs * case.index_topk), case.block_size)


def _to_multiple(rows: int, of: int) -> int:
    return -(-rows // of) * of


def _dense(rows: Rows) -> Rows:
    """Return a function that is wrong in the dense builder on one rank only."""
    return lambda case: rows(case) if case.clause == "PLAN-20" else golden(case)


def _sparse(rows: Rows) -> Rows:
    return lambda case: rows(case) if case.clause == "PLAN-21" else golden(case)


def _rounded_in_turn(case: WorkspaceCase) -> int:
    if case.dcp_world_size == 1:
        return golden(case)
    return _to_multiple(_to_multiple(_before_rounding(case), case.block_size), case.dcp_world_size * case.interleave)


def _defect(name: str, clause: str, rows: Rows, sentence: str, source: str = "") -> Defect:
    return Defect(name, sentence, clause, "plan", partial(FaultyRows, rows), source)


DEFECTS = (
    _defect("workspace-not-rounded", "PLAN-20", _dense(wanted), "the dense workspace is not rounded to blocks"),
    _defect(
        "workspace-rounded-down",
        "PLAN-20",
        _dense(lambda case: max(wanted(case) // case.block_size, 1) * case.block_size),
        "the dense workspace is rounded down to whole blocks",
    ),
    _defect(
        "workspace-below-a-block",
        "PLAN-20",
        _dense(lambda case: min(golden(case), wanted(case))),
        "the dense workspace has fewer rows than a block where less is wanted",
    ),
    _defect(
        "workspace-without-cap",
        "PLAN-20",
        _dense(lambda case: _to_multiple(max(8 * case.max_model_len, wanted(case)), case.block_size)),
        "8 * max_model_len is not capped at 65,536 rows",
        "vllm 25290",
    ),
    _defect(
        "workspace-capped-after-rounding",
        "PLAN-20",
        _dense(lambda case: max(min(golden(case), CAP), case.block_size)),
        "the dense workspace is capped after it is rounded, to what is no multiple of the block",
    ),
    _defect(
        "sparse-workspace-without-topk",
        "PLAN-21",
        rows_with(index_topk=lambda case: 1 << 30),
        "the sparse workspace is not capped at max_num_seqs * index_topk",
        "vllm 25290",
    ),
    _defect(
        "sparse-workspace-rounded",
        "PLAN-21",
        _sparse(lambda case: _to_multiple(golden(case), case.block_size)),
        "the sparse workspace is rounded to blocks",
    ),
    _defect(
        "sparse-workspace-below-a-block",
        "PLAN-21",
        _sparse(lambda case: min(wanted(case), case.max_num_seqs * case.index_topk)),
        "the sparse workspace has fewer rows than a block where index_topk is small",
    ),
    _defect(
        "topk-in-32-bits",
        "PLAN-21",
        in_32_bits("max_num_seqs", "index_topk"),
        "max_num_seqs * index_topk is counted in 32 bits",
    ),
    _defect(
        "workspace-of-ranks-rounded-to-blocks",
        "SHARD-13",
        lambda case: (
            golden(case) if case.dcp_world_size == 1 else _to_multiple(_before_rounding(case), case.block_size)
        ),
        "the workspace of several ranks is rounded to blocks alone, and no multiple of their stripe",
        "vllm 41229",
    ),
    _defect(
        "workspace-of-ranks-rounded-in-turn",
        "SHARD-13",
        _rounded_in_turn,
        "the workspace of several ranks is rounded to blocks, then to stripes, and is no multiple of the block",
    ),
)
