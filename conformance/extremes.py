"""Magnitudes at which an index, a count or an offset outgrows the type or the tile it was given.

Each case stands just beyond such a bound. The data stay small: what is large is a table, a stride or a count.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conformance.cases import STRIDED, Named, without_starts
from conformance.generation import Geometry, realize
from fixtures.cases import Arrangement, GatherCase, packed_starts

LARGEST_INT32 = (1 << 31) - 1
APART = STRIDED["everything apart"]


def far_tokens(block_size: int, start: int, count: int) -> GatherCase:
    """Two rows of a first request, then tokens [start, start + count) of a second, at the end of a very wide table."""
    first, last = start // block_size, (start + count - 1) // block_size
    near = realize(Geometry(block_size, (2, count), (0, start % block_size)), 1, origin=f"tokens from {start:,} on")
    table = np.zeros((2, last + 1), np.int32)
    table[0, :2] = near.block_table[0, :2]
    table[1, first:] = near.block_table[1, : last - first + 1]
    return replace(near, block_table=table, seq_starts=np.array([0, start], np.int32))


def tokens_beyond_16_and_20_bits() -> list[GatherCase]:
    """Starts just below 2^14, 2^15, 2^16 and 2^20."""
    return [far_tokens(16, (1 << bits) - 5, 40) for bits in (14, 15, 16, 20)]


def tokens_beyond_float32() -> list[GatherCase]:
    """Odd numbers above 2^24 are no float32, and an inexact reciprocal of a block size shows by then."""
    return [far_tokens(size, (1 << 24) - 3, size + 9) for size in (7, 48, 64, 100, 1000)]


def tokens_beyond_int32() -> list[GatherCase]:
    """The largest start there is, and rows that pass 2^31, over a whole block."""
    return [far_tokens(size, LARGEST_INT32 - 5, size + 20) for size in (1000, 1023, 1024, 1536, 4096)]


def blocks_beyond_uint16() -> GatherCase:
    """Physical block numbers above 2^15 and 2^16."""
    return realize(Geometry(1, (30_000, 41_000), (3, 1)), 2, origin="block numbers beyond 2^16")


def many_requests() -> list[GatherCase]:
    """More requests than a thread block has threads, some without rows: R of 9, 17, 65, 300, 1,025 and 5,000."""
    cases = []
    for count in (9, 17, 65, 300, 1025, 5000):
        lengths, starts = tuple((7 * i) % 5 for i in range(count)), tuple(i % 11 for i in range(count))
        for arrangement in (Arrangement(), APART):
            geometry = Geometry(8, lengths, starts, extra_columns=2, table="shared", arrangement=arrangement)
            cases.append(realize(geometry, 3, origin=f"{count:,} requests"))
    return cases + without_starts(cases)


def requests_beyond_uint16() -> GatherCase:
    """R of 70,001, of which a few have rows: the first, the last, and those around 2^15 and 2^16."""
    lengths, starts = np.zeros(70_001, np.int64), np.zeros(70_001, np.int64)
    those = [0, 32_767, 32_768, 65_534, 65_535, 65_536, 70_000]
    lengths[those], starts[those] = range(2, 9), range(7)
    geometry = Geometry(4, tuple(map(int, lengths)), tuple(map(int, starts)), table="shared")
    case = realize(geometry, 4, origin="70,001 requests")
    table = (case.block_table + np.arange(70_001, dtype=np.int32)[:, None]) % case.num_blocks
    return replace(case, block_table=table.astype(np.int32))


def runs_of_requests_without_rows() -> GatherCase:
    """Two hundred requests without rows before, between and after those that have some."""
    none = (0,) * 200
    geometry = Geometry(4, (*none, 5, *none, 6, *none), (*none, 3, *none, 2, *none), table="shared")
    return realize(geometry, 5, origin="runs of 200 requests without rows")


def many_rows() -> GatherCase:
    """T beyond 2^18 with everything apart; no multiple of a tile, over few blocks."""
    return _over_few_blocks((65_533, 1, 2, 131_076, 65_539), APART)


def many_packed_rows() -> list[GatherCase]:
    """T beyond 2^16 with all packed; no multiple of a tile, over few blocks."""
    case = _over_few_blocks((33, 2, 65_538), Arrangement())
    return [case, *without_starts([case])]


def _over_few_blocks(lengths: tuple[int, ...], arrangement: Arrangement) -> GatherCase:
    some = realize(Geometry(64, (67 * 64,)), 6)  # no power of two, so that no wrapped token meets its own block again
    return replace(
        some,
        block_table=np.resize(some.block_table[0], (len(lengths), max(lengths) // 64 + 3)).astype(np.int32),
        workspace_starts=packed_starts(lengths),
        num_rows=sum(lengths),
        seq_starts=np.array([1, 62, 63, 65, 0][: len(lengths)], np.int32),
        arrangement=arrangement,
        origin=f"{sum(lengths):,} rows",
    )


def large_and_odd_blocks() -> list[GatherCase]:
    """Block sizes beyond those that kernels are tried with: large, odd, and no powers of two."""
    sizes = (20, 32, 48, 80, 96, 100, 112, 128, 192, 255, 256, 257, 1000, 1024, 1536, 4096)
    geometries = [Geometry(size, (size + 3, 5), (size - 1, 2 * size + 1), table="shared") for size in sizes]
    cases = [realize(geometry, 7, origin=f"B = {geometry.block_size:,}") for geometry in geometries]
    return cases + without_starts(cases)


def wide_tables() -> list[GatherCase]:
    """Rows of the table of 1,500 and of 40,000 columns, the last of which are needed; one request and several."""
    cases = [
        realize(Geometry(1, (1500, 700), (0, 800)), 8, origin="1,500 columns"),
        realize(Geometry(2, (600, 3, 2, 1), (0, 500, 598, 1), table="shared"), 8, origin="302 columns of 4 requests"),
    ]
    return [*cases, *without_starts(cases), far_tokens(1, 40_000, 30)]


EXTREMES: tuple[Named, ...] = (
    tokens_beyond_16_and_20_bits,
    tokens_beyond_float32,
    tokens_beyond_int32,
    blocks_beyond_uint16,
    many_requests,
    requests_beyond_uint16,
    runs_of_requests_without_rows,
    many_rows,
    many_packed_rows,
    large_and_odd_blocks,
    wide_tables,
)

FAR_TOKENS: tuple[Named, ...] = (tokens_beyond_16_and_20_bits, tokens_beyond_float32, tokens_beyond_int32)
"""Those of them that are nothing unusual without starts."""

OF_ROWS: tuple[Named, ...] = (many_rows,)
"""Those of them that starts change nothing about, and that take long."""
