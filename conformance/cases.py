"""The inputs that broke real kernels, each with the report it comes from, as cases of a gather."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from conformance.generation import SPECIAL_BYTES, Geometry, realize
from conformance.records import every_triple, magnitudes, one_hot, token_unique, uniform_fields
from fixtures.cases import Arrangement, GatherCase

Named = Callable[[], GatherCase | list[GatherCase]]

HALF_GIB = 1 << 29

STRIDED = {
    "blocks apart": Arrangement(cache_block_slack=352),
    "blocks apart by less than a record": Arrangement(cache_block_slack=16),
    "records apart": Arrangement(cache_record_slack=160),
    "blocks and records apart": Arrangement(cache_block_slack=1024, cache_record_slack=16),
    "table rows apart": Arrangement(table_row_slack=3),
    "dst rows apart": Arrangement(dst_row_slack=8),
    "dst a slice of a workspace of twice the width": Arrangement(dst_row_slack=576),
    "dst a slice of a workspace of sixteen times the width": Arrangement(dst_row_slack=15 * 576),
    "cache and dst off the boundary of a cache line": Arrangement(cache_shift=16, dst_shift=48),
    "int32 arrays off the boundary of 16 bytes": Arrangement(int_shift=4),
    "slots outermost": Arrangement(slots_outermost=True),
    "slots outermost and apart": Arrangement(slots_outermost=True, cache_block_slack=48, cache_record_slack=16),
    "more entries than requests, as cu_seq_lens has": Arrangement(spare_requests=1),
    "everything apart": Arrangement(48, 16, 3, 8, cache_shift=112, dst_shift=240, int_shift=12, spare_requests=3),
}


def with_records(case: GatherCase, records_by_row: np.ndarray) -> GatherCase:
    """The case with row t's record replaced by `records_by_row[t]`; rows must not share records."""
    records = case.records.copy()
    source = case.sources
    records[case.block_table[source.request, source.column], source.slot] = records_by_row
    return replace(case, records=records)


UNALIGNED = (3, 70, 0)
"""Starts of three requests, two of them within a block of 64."""


def rows_of(records: np.ndarray, origin: str, starts: tuple[int, ...] | None = None) -> GatherCase:
    """Return a case whose row t reads records[t], over up to three requests, without seq_starts by default."""
    count = len(records)
    lengths = (count - count // 2 - count // 5, count // 2, count // 5)
    return with_records(realize(Geometry(64, lengths, starts), seed=0, origin=origin), records)


def without_starts(cases: Sequence[GatherCase]) -> list[GatherCase]:
    """Return the cases without seq_starts, for which any table is wide enough that was so before."""
    return [
        case if case.seq_starts is None else replace(case, seq_starts=None, origin=f"{case.origin}, no seq_starts")
        for case in cases
    ]


def starts_end_at_the_last_column() -> GatherCase:
    """vllm 27909: start + length ends exactly with the table row, and what stands beyond it is poison."""
    return realize(
        Geometry(4, (9, 3, 6), (3, 9, 6), arrangement=Arrangement(table_row_slack=1)), 1, origin="vllm 27909"
    )


def many_short_requests_beside_a_far_start() -> GatherCase:
    """vllm 45462: one start of 15,967 among many requests of a few tokens."""
    lengths = (*(1 + i % 5 for i in range(63)), 40)
    return realize(Geometry(64, lengths, (*(i % 3 for i in range(63)), 15_967), table="shared"), 2, origin="vllm 45462")


def second_chunk_of_an_unaligned_budget() -> list[GatherCase]:
    """vllm 46114: a context of 1,000 read through chunks of 300 rows, no multiple of the block of 64."""
    whole = realize(Geometry(64, (1000,)), 3, origin="vllm 46114")
    return [
        replace(whole, num_rows=min(300, 1000 - start), seq_starts=np.array([start], np.int32))
        for start in range(0, 1000, 300)
    ]


def rows_past_the_lengths() -> GatherCase:
    """sglang 34455: T above the sum of the lengths; the last request owns the rest, and has columns for it."""
    return realize(Geometry(4, (5, 2), (1, 6), extra_rows=7), 4, origin="sglang 34455, T above the lengths")


def rows_short_of_the_lengths() -> GatherCase:
    """sglang 34455: T below the sum of the lengths, so that the last request's start is not a row."""
    return realize(Geometry(4, (5, 2, 3), (1, 6, 2), extra_rows=-4), 5, origin="sglang 34455, T below the lengths")


def starts_of_requests_beyond_t() -> GatherCase:
    """Requests without rows whose workspace_starts are far beyond T, and whose own starts the table could not hold."""
    case = realize(Geometry(4, (5, 3, 0, 0), (3, 6, 20, 21)), 5, origin="workspace_starts far beyond T")
    return replace(case, workspace_starts=np.array([0, 5, 1_000_000, (1 << 31) - 1], np.int32), num_rows=8)


def cache_packed_with_others() -> GatherCase:
    """vllm 37032, 37090, 45111: a block stride of more than block_size records, and block numbers above 0."""
    slack = Arrangement(cache_block_slack=5 * 64 * 352)
    return realize(Geometry(64, (70, 10), (65, 1), extra_blocks=4, arrangement=slack), 6, origin="vllm 37032")


def token_unique_bytes() -> GatherCase:
    """vllm 52109: every record spells its own number."""
    case = realize(Geometry(16, (40, 30, 20), (5, 17, 33)), 7, origin="vllm 52109")
    return replace(case, records=token_unique(len(case.records), case.block_size))


def rest_of_the_last_page_is_nan() -> GatherCase:
    """flashinfer 941: length % block_size != 0, and the rest of the page holds scale bytes 0x7F."""
    case = realize(Geometry(16, (5, 21, 9), (0, 0, 2)), 8, origin="flashinfer 941")
    return replace(case, records=np.where(case.used_records[..., None], case.records, np.uint8(0x7F)))


def an_unused_slot_is_nan() -> GatherCase:
    """sglang 32477, 35351: a slot that no request refers to holds bytes that read as NaN."""
    case = realize(Geometry(4, (4, 8), (4, 0), extra_blocks=2), 9, origin="sglang 32477")
    return replace(case, records=np.where(case.used_records[..., None], case.records, np.uint8(0xFF)))


def an_unaligned_start_for_a_clamped_table() -> GatherCase:
    """The abandoned design: a table shifted by whole blocks drops start % block_size, and clamps at the last column."""
    return realize(Geometry(64, (130, 100), (63, 129)), 10, origin="shifted and clamped block table")


def a_short_table_for_a_clamped_table() -> GatherCase:
    """The abandoned design: a table with not one column to spare."""
    return realize(Geometry(4, (6, 2), (2, 6)), 11, origin="shifted and clamped block table, short table")


def requests_without_rows() -> list[GatherCase]:
    """Requests of no length first, in the middle, last, and several in a row."""
    shapes = ((0, 5, 3), (5, 0, 3), (5, 3, 0), (0, 0, 4), (4, 0, 0), (0, 4, 0, 0, 2, 0))
    return [
        realize(Geometry(4, lengths, tuple(range(1, len(lengths) + 1))), 12, origin=f"lengths {lengths}")
        for lengths in shapes
    ]


def block_boundaries() -> list[GatherCase]:
    """Lengths and starts from {0, 1, B - 1, B, B + 1}, all pairs, for B = 4 and 64: a request for each pair."""
    cases = []
    for size in (4, 64):
        pairs = tuple(product((0, 1, size - 1, size, size + 1), repeat=2))
        lengths, starts = zip(*pairs, strict=True)
        cases.append(realize(Geometry(size, lengths, starts), size, origin=f"all pairs around B = {size}"))
    return cases


def records_above_two_gib() -> list[GatherCase]:
    """tokenspeed 501: records just above 2^31 and 2^32 bytes, through large strides of blocks or of records."""
    far = Arrangement(cache_block_slack=(1 << 31) + 16)
    farther = Arrangement(cache_block_slack=(1 << 32) + 16)
    slots = Arrangement(cache_block_slack=(1 << 31) + 16, slots_outermost=True)
    return [
        realize(Geometry(2, (5,), table="ascending", arrangement=far), 13, origin="tokenspeed 501"),
        realize(Geometry(2, (3,), table="ascending", arrangement=farther), 13, origin="a block stride above 2^32"),
        realize(Geometry(3, (5,), table="ascending", arrangement=slots), 13, origin="a record stride above 2^31"),
    ]


def records_above_two_gib_of_a_packed_cache() -> GatherCase:
    """tokenspeed 501 as reported: record 6,100,806 of a packed cache; and numbers that are no float32."""
    numbers = np.array([3, 6_100_805, 6_100_806, 12_201_612, (1 << 24) - 1, (1 << 24) + 1], np.int32)
    near = realize(Geometry(1, (5, 1), table="ascending"), 17, origin="tokenspeed 501, packed")
    held = np.array([[4, 0, 2, 1, 3], [5, 0, 0, 0, 0]])
    return replace(near, records=near.records[:6].copy(), block_table=numbers[held], block_numbers=numbers)


def rows_above_two_gib() -> GatherCase:
    """The same on the other side: rows of dst just above 2^31 and 2^32 bytes."""
    far = Arrangement(dst_row_slack=1 << 30)
    return realize(Geometry(2, (3,), arrangement=far), 14, origin="dst rows above 2^31 bytes")


def table_above_two_gib() -> GatherCase:
    """And in the table: requests whose entries lie above 2^31 and 2^32 bytes."""
    far = Arrangement(table_row_slack=HALF_GIB)
    return realize(Geometry(2, (3, 2, 4), table="ascending", arrangement=far), 15, origin="table rows above 2^31 bytes")


def strided_gather(how: Arrangement) -> GatherCase:
    """One gather, in the arrangement asked for."""
    geometry = Geometry(4, (5, 0, 9), (3, 1, 6), extra_columns=1, extra_blocks=2, arrangement=how)
    return realize(geometry, 16, origin="strides")


def the_proof() -> GatherCase:
    """Every (position, latent byte, scale byte) and every (position, RoPE byte) in one gather of 65,536 rows."""
    return rows_of(every_triple(), "every triple")


VALUES = {
    "every triple": every_triple,
    "one-hot walk": one_hot,
    "magnitudes": magnitudes,
    "uniform fields": lambda: uniform_fields([byte for byte, _ in SPECIAL_BYTES]),
}
"""The records that READ's tests read."""


def cases_of(named: Named) -> list[GatherCase]:
    """The one case or the several of an entry of NAMED."""
    cases = named()
    return cases if isinstance(cases, list) else [cases]


FAR = (records_above_two_gib, records_above_two_gib_of_a_packed_cache, rows_above_two_gib, table_above_two_gib)
"""Each in gigabytes of address space that no memory backs."""

NAMED: tuple[Named, ...] = (
    starts_end_at_the_last_column,
    many_short_requests_beside_a_far_start,
    second_chunk_of_an_unaligned_budget,
    rows_past_the_lengths,
    rows_short_of_the_lengths,
    starts_of_requests_beyond_t,
    cache_packed_with_others,
    token_unique_bytes,
    rest_of_the_last_page_is_nan,
    an_unused_slot_is_nan,
    an_unaligned_start_for_a_clamped_table,
    a_short_table_for_a_clamped_table,
    requests_without_rows,
    block_boundaries,
)
"""One row of SPEC.md or of the reports each; the huge ones are judged apart."""

ABOUT_STARTS: tuple[Named, ...] = (
    starts_end_at_the_last_column,
    many_short_requests_beside_a_far_start,
    second_chunk_of_an_unaligned_budget,
    an_unaligned_start_for_a_clamped_table,
)
"""Those of them that are nothing unusual without starts."""
