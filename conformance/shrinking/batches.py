"""Cases of nothing but numbers: fewer requests, and each number as low as it goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from conformance.metadata import MetadataCase
from conformance.plans import PlanCase
from conformance.shrinking.steps import Steps, lowered, lowered_fields, removed
from fixtures.context_cases import ContextCase
from fixtures.serve_cases import DispatchCase

Column = tuple[Any, ...]


@dataclass(frozen=True)
class Batch:
    """How cases of one type hold their requests: `columns` of as many entries each, and the case with other ones."""

    columns: Callable[[Any], tuple[Column, ...]]
    having: Callable[..., Any]


def _metadata_having(case: MetadataCase, context_lens: Column, query_lens: Column) -> MetadataCase:
    return replace(case, context_lens=context_lens, query_start_loc=tuple(accumulate(query_lens, initial=0)))


def _dispatch_having(case: DispatchCase, context_lens: Column, query_lens: Column, table: Column) -> DispatchCase:
    batch = replace(case.context, context_lens=context_lens, query_lens=query_lens, block_table=table)
    return replace(case, context=batch)


PLAN = Batch(lambda case: (case.context_lens,), lambda case, lens: replace(case, context_lens=lens))
METADATA = Batch(
    lambda case: (case.context_lens, tuple(end - first for first, end in pairwise(case.query_start_loc))),
    _metadata_having,
)
CONTEXT = Batch(
    lambda case: (case.context_lens, case.query_lens),
    lambda case, context_lens, query_lens: replace(case, context_lens=context_lens, query_lens=query_lens),
)
DISPATCH = Batch(
    lambda case: (case.context.context_lens, case.context.query_lens, case.context.block_table), _dispatch_having
)
BATCHES = {PlanCase: PLAN, MetadataCase: METADATA, ContextCase: CONTEXT, DispatchCase: DISPATCH}


def requests(case: Any) -> Steps[Any]:
    """Leave out requests."""
    batch = BATCHES[type(case)]

    def without(case: Any, first: int, end: int) -> Any:
        return batch.having(case, *(column[:first] + column[end:] for column in batch.columns(case)))

    return (yield from removed(case, len(batch.columns(case)[0]), without))


def lengths(case: Any) -> Steps[Any]:
    """Halve the lengths of all requests, then lower each."""
    batch = BATCHES[type(case)]
    for place in range(2 if len(batch.columns(case)) > 1 else 1):
        while any(batch.columns(case)[place]):
            shorter = _with_column(batch, place, case, tuple(n // 2 for n in batch.columns(case)[place]))
            if not (yield shorter):
                break
            case = shorter
        for request, length in enumerate(batch.columns(case)[place]):
            case = yield from lowered(case, length, partial(_with_entry, batch, place, request))
    return case


def integers(case: Any) -> Steps[Any]:
    """Lower every other integer, one after the other."""
    return (yield from lowered_fields(case, lambda case: case, lambda case, other: other))


def _with_column(batch: Batch, place: int, case: Any, column: Column) -> Any:
    columns = list(batch.columns(case))
    columns[place] = column
    return batch.having(case, *columns)


def _with_entry(batch: Batch, place: int, request: int, case: Any, length: int) -> Any:
    column = batch.columns(case)[place]
    return _with_column(batch, place, case, (*column[:request], length, *column[request + 1 :]))
