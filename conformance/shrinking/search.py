"""Shrinking: the smallest case on which the same thing fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import conformance.stored_cases  # noqa: F401  lets them be stored, and so be checked
from conformance.metadata import MetadataCase
from conformance.plans import PlanCase
from conformance.shrinking import batches, gather_caches, gathers, merges, writes
from conformance.shrinking.steps import Case, Reducer, Steps
from conformance.workspaces import WorkspaceCase
from fixtures.cases import GatherCase
from fixtures.context_cases import ContextCase
from fixtures.merge_cases import MergeCase
from fixtures.serve_cases import DispatchCase
from fixtures.store import KINDS, operator_of
from fixtures.write_cases import WriteCase

OF_BATCHES: tuple[Reducer[Any], ...] = (batches.requests, batches.lengths, batches.integers)

REDUCERS: dict[type, tuple[Reducer[Any], ...]] = {
    GatherCase: (
        gather_caches.blocks,
        gathers.requests,
        gathers.rows,
        gathers.starts,
        gathers.columns,
        gathers.ends,
        gathers.arrangement,
        gathers.scale,
        gather_caches.blocks,
        gather_caches.one_block,
        gather_caches.small_blocks,
        gather_caches.records,
    ),
    WriteCase: (
        writes.blocks,
        writes.tokens,
        writes.skipped,
        writes.arrangement,
        writes.blocks,
        writes.slots,
        writes.scale,
        writes.numbers,
    ),
    MergeCase: (merges.sizes, merges.places, merges.arrangement, merges.numbers),
    ContextCase: OF_BATCHES,
    PlanCase: OF_BATCHES,
    MetadataCase: OF_BATCHES,
    DispatchCase: OF_BATCHES,
    WorkspaceCase: (batches.integers,),
}
"""By type of case what makes it smaller, that which makes judging it cheap first."""

CHECKS: dict[type, Callable[[Any], None]] = {WriteCase: writes.check, MergeCase: merges.check}
"""What a legal call is not asked for, but a case whose arrays are to lie in memory as it says."""

ANY_SIZE = 1 << 40
"""Stands for a file's size where only legality counts."""
PATIENCE = 128
"""Refused candidates in a row after which a reducer's turn is over, until the others have no more to do either."""


def shrink(case: Case, fails: Callable[[Case], bool], seconds: float) -> Case:
    """The smallest case found within so many seconds, and one more verdict, for which `fails` is true.

    It is the case itself if nothing smaller fails, or not even itself, or for a type that REDUCERS does not have. Only
    legal cases are tried, and one on which `fails` raises does not fail. The same case and predicate give the same
    result, if there is time for it.
    """
    deadline, patience = time.monotonic() + seconds, PATIENCE
    if not _still(fails, case):
        return case
    while True:
        before, gave_up = case, False
        for reducer in REDUCERS.get(type(case), ()):
            steps, refused = reducer(case), 0
            candidate = next(steps, None)
            while candidate is not None:
                if time.monotonic() >= deadline:
                    return case
                taken = _still(fails, candidate)
                case, refused = (candidate, 0) if taken else (case, refused + 1)
                if refused > patience:
                    gave_up = True
                    break
                candidate = _next(steps, taken)
        if case is before and not gave_up:
            return case
        if case is before:
            patience *= 16


def _next(steps: Steps[Case], taken: bool) -> Case | None:
    try:
        return steps.send(taken)
    except StopIteration:
        return None


def _still(fails: Callable[[Case], bool], case: Case) -> bool:
    try:
        check(case)
        return bool(fails(case))
    except Exception:
        return False


def check(case: Any) -> None:
    """Raise ValueError unless a case is legal, as one that is loaded from a file has to be."""
    kind = KINDS[operator_of(case)]
    kind.unpack(*kind.pack(case), ANY_SIZE)
    CHECKS.get(type(case), lambda case: None)(case)
