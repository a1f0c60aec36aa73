"""Cases of the generic gather, and any case over the records of another layout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from conformance.cases import with_records
from conformance.extremes import EXTREMES, many_packed_rows, many_rows
from conformance.generation import Geometry, Random, realize
from conformance.twins import SPECIAL_SCALES, as_twin
from fixtures.cases import GatherCase
from fixtures.placement import is_huge
from reference.records import FP8_DS_MLA, NVFP4_DS_MLA, RecordLayout

SPARE_ROWS = 3
"""Rows of dst, and entries of token_to_seq, after those that count."""

# As bits, since NumPy may quieten a NaN that it copies as a number.
_ORDINARY = np.array(
    [
        *(0x3F800000, 0x3F000000, 0x3EAAAAAB, 0x3DCCCCCD),  # 1, 1/2, 1/3, 1/10
        *(0x3F7EDB6E, 0x3B03126F, 0x38D1B717, 0x42F6E979),  # 447/448, 0.002, 1e-4, 123.456
        *(0x3F810000, 0x3F80C000, 0x3F814000),  # products on a tie of bf16, and beside one
        *(0x3F815555, 0x3FE471C8),  # 1.125 times these is rounded twice to another bf16 than once
        *(0xBF400000, 0x00800001, 0x7E7FFFFF),  # -3/4, close to the smallest and to the largest normal number
    ],
    "<u4",
)
SCALES: npt.NDArray[np.float32] = np.concatenate([_ORDINARY, SPECIAL_SCALES.view("<u4")]).view("<f4")
"""Scales of a tensor: ordinary ones first, then zeros, subnormals, infinities and NaN."""


def over(case: GatherCase, layout: RecordLayout, seed: int = 1) -> GatherCase:
    """The same call over a cache of other records."""
    if layout in (NVFP4_DS_MLA, FP8_DS_MLA):
        return case if layout == NVFP4_DS_MLA else as_twin(case, seed)
    item = np.dtype(layout.cache_dtype).itemsize
    arrangement = replace(
        case.arrangement,
        cache_block_slack=case.arrangement.cache_block_slack // item,
        cache_record_slack=case.arrangement.cache_record_slack // item,
        scale_is_scalar=seed % 2 == 0,
    )
    records = Random(seed).bytes((*case.records.shape[:2], layout.nbytes))
    scale = _ORDINARY.view("<f4")[seed % len(_ORDINARY)]
    generic = replace(case, records=records, layout=layout, arrangement=arrangement, scale=scale)
    # Spare rows far apart would double what there is to scan.
    return generic if is_huge(generic) else with_spare_rows(generic, SPARE_ROWS)


def with_spare_rows(case: GatherCase, count: int) -> GatherCase:
    """The case with that many rows of dst, and entries of token_to_seq, after those that count."""
    return replace(case, arrangement=replace(case.arrangement, spare_rows=count))


def every_bf16(layout: RecordLayout) -> GatherCase:
    """Each element meets every bf16, for records that hold bf16, in a few rows more than 2^16."""
    row, element = np.arange(65_603)[:, None], np.arange(layout.row)
    return _rows_of(((row + 1021 * element) % 65_536).astype("<u2").view(np.uint8), layout, "every bf16")


def every_byte(layout: RecordLayout) -> Iterator[GatherCase]:
    """Each element meets every byte, for records that hold bytes, under each scale of the table."""
    records = (np.arange(256)[:, None] + np.arange(layout.row)).astype(np.uint8)
    case = _rows_of(records, layout, "every byte")
    for scale in SCALES:
        yield replace(case, scale=scale, origin=f"every byte, scale 0x{scale.view('<u4'):08X}")


def every_number(layout: RecordLayout) -> list[GatherCase]:
    """Whichever of the two is about such records."""
    return list(every_byte(layout)) if layout.converted else [every_bf16(layout)]


def one_hot(layout: RecordLayout) -> GatherCase:
    """Record p is all ones but for byte p: each byte alone lands where the layout says."""
    ones = np.full(layout.row, 0x38, "|u1") if layout.converted else np.full(layout.row, 0x3F80, "<u2")
    records = np.tile(ones.view(np.uint8), (layout.nbytes, 1))
    records[np.arange(layout.nbytes), np.arange(layout.nbytes)] ^= 0x40
    return _rows_of(records, layout, "one byte differs")


def uneven_requests(layout: RecordLayout, seed: int) -> GatherCase:
    """Many requests, of no row, of one and of many, in no order, so that no rule but token_to_seq is soon right."""
    drawn = Random(seed).bytes((3, 40)).astype(np.int64)
    lengths = np.where(drawn[0] % 3 == 0, 0, np.where(drawn[0] % 3 == 1, 1, drawn[1] % 23))
    geometry = Geometry(4, tuple(lengths.tolist()), tuple((drawn[2] % 30).tolist()), extra_blocks=1)
    return over(realize(geometry, seed, origin=f"uneven requests, seed {seed}"), layout, seed)


def rows_beyond_uint16() -> GatherCase:
    """T beyond 2^16, all packed; no multiple of a tile."""
    return many_packed_rows()[0]


GENERIC_EXTREMES = (*(named for named in EXTREMES if named not in (many_rows, many_packed_rows)), rows_beyond_uint16)
"""Of the magnitudes, all but T beyond 2^18, which takes as long as all others together, and T of 2^16 once."""


def _rows_of(records: npt.NDArray[np.uint8], layout: RecordLayout, origin: str) -> GatherCase:
    """Return a case whose row t reads records[t], over three requests without seq_starts."""
    count = len(records)
    lengths = (count - count // 2 - count // 5, count // 2, count // 5)
    return with_records(over(realize(Geometry(64, lengths), 0, origin=origin), layout), records)
