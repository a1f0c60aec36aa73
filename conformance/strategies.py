"""hypothesis strategies: geometries that shrink, and cases whose bytes come from a drawn seed."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from hypothesis import strategies as st

from conformance.features import (
    NAN,
    OTHER_T,
    REQUESTS_WITHOUT_ROWS,
    SKIPPED,
    SPARE_ENTRIES,
    SPARE_TOKENS,
    STRIDES,
)
from conformance.generation import Bytes, Geometry, realize, without_nan
from conformance.generics import SCALES, over, with_spare_rows
from conformance.write_generation import Slots
from conformance.write_generation import realize as realize_write
from fixtures.cases import Arrangement, GatherCase
from fixtures.placement import signature
from fixtures.write_cases import WriteArrangement, WriteCase
from reference.records import RecordLayout

Rows = Literal["any", "some", "none"]
"""Whether a drawn call has something to do: either, always, or never."""

BLOCK_SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 48, 64)
_UNIT = 16  # bytes: the alignment of SPEC.md's contract


def counts(block_size: int) -> st.SearchStrategy[int]:
    """Lengths and starts: anything up to three blocks, and more often the neighbours of block boundaries."""
    near = [max(0, blocks * block_size + by) for blocks in range(4) for by in (-1, 0, 1)]
    return st.integers(0, 3 * block_size + 2) | st.sampled_from(sorted(set(near)))


def arrangements() -> st.SearchStrategy[Arrangement]:
    """Strides and alignments that the contract allows."""
    return st.builds(
        Arrangement,
        cache_block_slack=st.sampled_from((0, _UNIT, 352, 1024, 16 * 352)),
        cache_record_slack=st.sampled_from((0, _UNIT, 160)),
        table_row_slack=st.integers(0, 5),
        dst_row_slack=st.sampled_from((0, _UNIT // 2, 64, 576)),
        cache_shift=st.sampled_from((0, _UNIT, 3 * _UNIT, 240)),
        dst_shift=st.sampled_from((0, _UNIT, 5 * _UNIT, 240)),
        int_shift=st.sampled_from((0, 4, 8, 12, 68)),
        spare_requests=st.sampled_from((0, 1, 3)),
        slots_outermost=st.booleans(),
    )


def gather_arrangements(leave_out: frozenset[str]) -> st.SearchStrategy[Arrangement]:
    """Draw arrangements without the features that are left out."""
    if STRIDES in leave_out:
        spare = st.sampled_from((0, 1, 3))
        drawn = st.builds(Arrangement, spare_requests=spare)
    else:
        drawn = st.just(Arrangement()) | arrangements()
    return drawn.map(lambda how: replace(how, spare_requests=0)) if SPARE_ENTRIES in leave_out else drawn


@st.composite
def geometries(
    draw: st.DrawFn, with_starts: bool, rows: Rows = "any", leave_out: frozenset[str] = frozenset()
) -> Geometry:
    """Draw up to eight requests, with and without rows, in every order."""
    block_size = draw(st.sampled_from(BLOCK_SIZES))
    length = st.just(0) if rows == "none" else counts(block_size)
    if REQUESTS_WITHOUT_ROWS in leave_out:
        length = length.map(lambda drawn: max(1, drawn))
    lengths = draw(st.lists(length, min_size=0 if rows == "none" else 1, max_size=8))
    starts = draw(st.lists(counts(block_size), min_size=len(lengths), max_size=len(lengths))) if with_starts else None
    more = (0, -1) if rows == "none" else (0,) if OTHER_T in leave_out else (0, 0, 0, 1, 5, -1, -3)
    geometry = Geometry(
        block_size=block_size,
        lengths=tuple(lengths),
        starts=None if starts is None else tuple(starts),
        extra_rows=draw(st.sampled_from(more)),
        extra_columns=draw(st.integers(0, 2)),
        extra_blocks=draw(st.integers(0, 3)),
        table=draw(st.sampled_from(("scattered", "ascending", "shared"))),
        arrangement=draw(gather_arrangements(leave_out)),
    )
    if rows == "some" and not geometry.num_rows:
        return replace(geometry, lengths=(*lengths[:-1], max(1, lengths[-1])), extra_rows=0)
    if REQUESTS_WITHOUT_ROWS in leave_out and -geometry.extra_rows >= lengths[-1]:  # the last one would lose all
        return replace(geometry, extra_rows=0)
    return geometry


@st.composite
def gather_cases(
    draw: st.DrawFn, with_starts: bool, rows: Rows = "any", leave_out: frozenset[str] = frozenset()
) -> GatherCase:
    """Draw legal cases, with some row, without any or either, and without the features that are left out.

    The seed of their bytes is drawn too.
    """
    geometry = draw(geometries(with_starts, rows, leave_out))
    kind: Bytes = draw(st.sampled_from(("uniform", "uniform", "special")))
    case = realize(geometry, draw(st.integers(0, 2**32 - 1)), kind)
    return without_nan(case) if NAN in leave_out else case


def scales() -> st.SearchStrategy[np.float32]:
    """Scales of a tensor: those of the table, and any bits."""
    return st.sampled_from(list(SCALES)) | st.integers(0, 2**32 - 1).map(lambda bits: np.uint32(bits).view(np.float32))


@st.composite
def twin_cases(
    draw: st.DrawFn,
    layout: RecordLayout,
    with_starts: bool,
    rows: Rows = "any",
    leave_out: frozenset[str] = frozenset(),
) -> GatherCase:
    """Draw the same over records of another layout."""
    case = over(draw(gather_cases(with_starts, rows, leave_out)), layout, draw(st.integers(0, 2**32 - 1)))
    if not signature(layout).spare_rows:
        return case
    return with_spare_rows(replace(case, scale=draw(scales())), draw(st.sampled_from((0, 1, 7))))


def write_arrangements() -> st.SearchStrategy[WriteArrangement]:
    """Strides and alignments of a writer's arguments that the contract allows."""
    return st.builds(
        WriteArrangement,
        kv_c_row_slack=st.sampled_from((0, 2, 64, 512)),
        k_pe_row_slack=st.sampled_from((0, 2, 6, 512)),
        cache_block_slack=st.sampled_from((0, _UNIT, 352, 1024)),
        cache_record_slack=st.sampled_from((0, _UNIT, 160)),
        cache_shift=st.sampled_from((0, _UNIT, 3 * _UNIT, 240)),
        input_shift=st.sampled_from((0, 4, _UNIT, 100)),
        spare_tokens=st.sampled_from((0, 1, 3)),
        slots_outermost=st.booleans(),
    )


@st.composite
def write_cases(
    draw: st.DrawFn, kv_cache_dtype: str, rows: Rows = "any", leave_out: frozenset[str] = frozenset()
) -> WriteCase:
    """Draw legal writes of up to some dozen tokens, or of none; the seed of their numbers is drawn too."""
    tokens = draw(st.integers(1 if rows == "some" else 0, 0 if rows == "none" else 40))
    slots = Slots(
        tokens,
        block_size=draw(st.sampled_from(BLOCK_SIZES)),
        skipped=0 if SKIPPED in leave_out else draw(st.integers(0, tokens)),
        extra_blocks=draw(st.integers(0 if tokens else 1, 3)),
    )
    arrangement = draw(st.just(WriteArrangement()) | write_arrangements())
    if STRIDES in leave_out:
        arrangement = WriteArrangement(spare_tokens=arrangement.spare_tokens)
    if SPARE_TOKENS in leave_out:
        arrangement = replace(arrangement, spare_tokens=0)
    return realize_write(slots, draw(st.integers(0, 2**32 - 1)), kv_cache_dtype, arrangement)
