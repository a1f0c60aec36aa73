"""GatherCase: fewer requests, rows and table columns, lower starts, and nothing apart in memory."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from conformance.shrinking.steps import Steps, contiguous, lowered, removed, tried
from fixtures.cases import CONTIGUOUS, ONE, Arrangement, GatherCase, Int32s, packed_starts

Ints = npt.NDArray[np.int64]
LARGEST_START = 2**31 - 1


def requests(case: GatherCase) -> Steps[GatherCase]:
    """Leave out requests with their rows."""
    return (yield from removed(case, case.batch_size, _without_requests))


def rows(case: GatherCase) -> Steps[GatherCase]:
    """Of each request's rows keep a window."""
    if not case.batch_size:
        return (yield from lowered(case, case.num_rows, lambda case, n: replace(case, num_rows=n)))
    for request in range(case.batch_size):
        size = int(_owned(case)[request])
        while size:
            for without in (_without_last_rows, _without_first_rows):
                while (shorter := without(case, request, size)) and (yield shorter):
                    case = shorter
            size //= 2
    return case


def starts(case: GatherCase) -> Steps[GatherCase]:
    """No starts, or starts in the first block of the table, or in as low a one as can be, and near its beginning."""
    if case.seq_starts is None:
        return case
    case = yield from tried(case, [replace(case, seq_starts=None)])
    if case.seq_starts is None:
        return case
    if _blocks_before(case).any():
        case = yield from tried(case, [in_first_block(case)])
    for request, blocks in enumerate(_blocks_before(case)):
        if not _shares_entries(case):
            case = yield from lowered(case, int(blocks), partial(_with_blocks_before, request))
    for request, start in enumerate(np.where(case.owners, _starts(case), 0)):
        case = yield from lowered(case, int(start), partial(_with_start, request))
    return case


def columns(case: GatherCase) -> Steps[GatherCase]:
    """A table of the columns that some row needs."""
    needed = max(1, int(case.sources.column.max(initial=0)) + 1)
    if needed < case.block_table.shape[1]:
        case = yield from tried(case, [replace(case, block_table=case.block_table[:, :needed])])
    return case


def ends(case: GatherCase) -> Steps[GatherCase]:
    """workspace_starts that are packed and do not go beyond T."""
    packed = np.minimum(case.workspace_starts, np.int32(case.num_rows))
    if (packed != case.workspace_starts).any():
        case = yield from tried(case, [replace(case, workspace_starts=packed)])
    return case


def arrangement(case: GatherCase) -> Steps[GatherCase]:
    """Nothing apart in memory."""
    return (yield from contiguous(case, attrgetter("arrangement"), _with_arrangement, CONTIGUOUS))


def scale(case: GatherCase) -> Steps[GatherCase]:
    """A tensor's scale of 1."""
    if case.scale != ONE:
        case = yield from tried(case, [replace(case, scale=ONE)])
    return case


def in_first_block(case: GatherCase) -> GatherCase:
    """Starts moved down by whole blocks, and the table's columns with them; those of requests without rows are 0."""
    if case.seq_starts is None or not case.batch_size:
        return case
    blocks = _blocks_before(case)
    return _moved_down(
        case, np.full_like(blocks, blocks[case.owners].min(initial=0)) if _shares_entries(case) else blocks
    )


def _with_arrangement(case: GatherCase, how: Arrangement) -> GatherCase:
    return replace(case, arrangement=how)


def _shares_entries(case: GatherCase) -> bool:
    """Whether a request's table row cannot be moved alone."""
    return case.arrangement.table_is_broadcast and case.batch_size > 1


def _starts(case: GatherCase) -> Ints:
    return np.zeros(case.batch_size, np.int64) if case.seq_starts is None else case.seq_starts.astype(np.int64)


def _spans(case: GatherCase) -> Ints:
    """Rows from each request's first to the next one's, wherever T is."""
    end = max(case.num_rows, int(case.workspace_starts[-1]))
    return np.diff(np.append(case.workspace_starts.astype(np.int64), end))


def _owned(case: GatherCase) -> Ints:
    return np.diff(np.append(case.workspace_starts.astype(np.int64), case.num_rows).clip(max=case.num_rows))


def _without_requests(case: GatherCase, first: int, end: int) -> GatherCase:
    kept = np.delete(np.arange(case.batch_size), slice(first, end))
    return replace(
        case,
        block_table=case.block_table[kept],
        workspace_starts=packed_starts(_spans(case)[kept].tolist()),
        num_rows=case.num_rows - int(_owned(case)[first:end].sum()),
        seq_starts=None if case.seq_starts is None else case.seq_starts[kept],
    )


def _without_last_rows(case: GatherCase, request: int, count: int) -> GatherCase | None:
    if not 0 < count <= _owned(case)[request]:
        return None
    spans = _spans(case)
    spans[request] -= count
    return replace(case, workspace_starts=packed_starts(spans.tolist()), num_rows=case.num_rows - count)


def _without_first_rows(case: GatherCase, request: int, count: int) -> GatherCase | None:
    """Fewer of them without seq_starts: whole blocks of the table."""
    if case.seq_starts is not None:
        starts = _starts(case)
        starts[request] += count
        fewer = _without_last_rows(case, request, count)
        return (
            replace(fewer, seq_starts=starts.astype(np.int32)) if fewer and starts[request] <= LARGEST_START else None
        )
    blocks = count // case.block_size
    fewer = _without_last_rows(case, request, blocks * case.block_size)
    if not fewer or _shares_entries(case):
        return None
    return replace(fewer, block_table=_rolled(case, np.where(np.arange(case.batch_size) == request, blocks, 0)))


def _rolled(case: GatherCase, blocks: Ints) -> Int32s:
    """Each row of the table from that column on; the last entry stands for what was behind it."""
    last = case.block_table.shape[1] - 1
    at = np.minimum(np.arange(last + 1) + blocks[:, None], last)
    return np.take_along_axis(case.block_table, at, axis=1)


def _moved_down(case: GatherCase, blocks: Ints) -> GatherCase:
    starts = np.where(case.owners, _starts(case) - blocks * case.block_size, 0).astype(np.int32)
    return replace(case, block_table=_rolled(case, blocks), seq_starts=starts)


def _blocks_before(case: GatherCase) -> Ints:
    return np.where(case.owners, _starts(case) // case.block_size, 0)


def _with_blocks_before(request: int, case: GatherCase, blocks: int) -> GatherCase:
    fewer = np.zeros(case.batch_size, np.int64)
    fewer[request] = _blocks_before(case)[request] - blocks
    return _moved_down(case, fewer)


def _with_start(request: int, case: GatherCase, start: int) -> GatherCase:
    starts = _starts(case).astype(np.int32)
    starts[request] = start
    return replace(case, seq_starts=starts)
