"""Magnitudes at which an index, a count or an offset outgrows the type or the tile it was given.

Each case stands just beyond such a bound. The data stay small: what is large is a table, a stride or a count.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conformance.cases import Named
from conformance.generation import Geometry, realize
from fixtures.cases import Arrangement, GatherCase, packed_starts

LARGEST_INT32 = (1 << 31) - 1


def far_tokens(block_size: int, start: int, count: int, origin: str) -> GatherCase:
    """One request whose tokens [start, start + count) lie in the last few blocks of a very wide table."""
    first, last = start // block_size, (start + count - 1) // block_size
    near = realize(Geometry(block_size, (count,), (start % block_size,)), seed=start % 1000, origin=origin)
    table = np.zeros((1, last + 1), np.int32)
    table[0, first:] = near.block_table[0, : last - first + 1]
    return replace(near, block_table=table, seq_starts=np.array([start], np.int32))


def tokens_beyond_int16_and_uint16() -> list[GatherCase]:
    """Starts just below 2^15 and 2^16."""
    return [far_tokens(16, (1 << bits) - 5, 40, f"tokens beyond 2^{bits}") for bits in (15, 16)]


def tokens_beyond_float32() -> GatherCase:
    """Odd numbers above 2^24 are no float32."""
    return far_tokens(64, (1 << 24) - 3, 130, "tokens beyond 2^24")


def tokens_beyond_int32() -> GatherCase:
    """The largest start there is, and rows that pass 2^31."""
    return far_tokens(1024, LARGEST_INT32 - 5, 20, "tokens beyond 2^31")


def blocks_beyond_uint16() -> GatherCase:
    """Physical block numbers above 2^15 and 2^16."""
    return realize(Geometry(1, (30_000, 41_000), (3, 1)), 1, origin="block numbers beyond 2^16")


def many_requests() -> list[GatherCase]:
    """More requests than a thread block has threads, some without rows: R of 300, 1,025 and 5,000."""
    cases = []
    for count in (300, 1025, 5000):
        lengths = tuple((7 * i) % 5 for i in range(count))
        starts = tuple(i % 11 for i in range(count))
        cases.append(realize(Geometry(8, lengths, starts, table="shared"), count, origin=f"{count} requests"))
    return cases


def many_requests_without_rows() -> GatherCase:
    """Two hundred requests without rows on each side of those that have some."""
    none = (0,) * 200
    return realize(Geometry(4, (*none, 5, *none, 6, *none), (*none, 3, *none, 2, *none)), 2, origin="runs of no rows")


def many_rows() -> GatherCase:
    """T of 131,075: above 65,535 blocks of one row, above 2^17, and no multiple of a tile."""
    case = realize(Geometry(64, (4096,), (5,)), 3, origin="131,075 rows")
    lengths = (65_533, 1, 2, 65_539)
    table = np.resize(case.block_table[0], (4, 65_539 // 64 + 2)).astype(np.int32)
    return replace(
        case,
        block_table=table,
        workspace_starts=packed_starts(lengths),
        num_rows=sum(lengths),
        seq_starts=np.array([1, 62, 63, 65], np.int32),
    )


def large_and_odd_blocks() -> list[GatherCase]:
    """Blocks of other sizes than kernels are tried with: large, odd, and no powers of two."""
    sizes = (128, 192, 256, 1000, 1024, 1536, 4096)
    return [
        realize(Geometry(size, (size + 3, 5), (size - 1, 2 * size + 1)), size, origin=f"B = {size}") for size in sizes
    ]


def wide_tables() -> GatherCase:
    """Rows of the table of 1,500 columns, the last of which are needed."""
    return realize(Geometry(1, (1500, 700), (0, 800)), 4, origin="1,500 columns")


def any_multiple_of_the_alignment() -> list[GatherCase]:
    """Strides and addresses that are multiples of 16 bytes and of nothing larger."""
    how = (
        Arrangement(cache_block_slack=16, cache_shift=16),
        Arrangement(cache_record_slack=16, cache_shift=48),
        Arrangement(cache_block_slack=48, cache_record_slack=80, cache_shift=112),
        Arrangement(dst_row_slack=8, dst_shift=16),
        Arrangement(dst_row_slack=24, dst_shift=240, table_row_slack=1),
    )
    geometry = Geometry(4, (9, 6, 70), (3, 1, 2))
    return [realize(replace(geometry, arrangement=arrangement), 5, origin=f"{arrangement}") for arrangement in how]


EXTREMES: tuple[Named, ...] = (
    tokens_beyond_int16_and_uint16,
    tokens_beyond_float32,
    tokens_beyond_int32,
    blocks_beyond_uint16,
    many_requests,
    many_requests_without_rows,
    many_rows,
    large_and_odd_blocks,
    wide_tables,
    any_multiple_of_the_alignment,
)
