"""Writes beyond the bounds at which an index, an alignment, a shortcut or an approximation stops holding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conformance.write_generation import LATENT, ROPE, SPECIAL, Slots, case_of, mixed, realize
from fixtures.write_cases import WriteArrangement, WriteCase
from reference.scalars import Bf16Bits

FAR = (1 << 31) + 16
ALL_BF16 = np.arange(65_536, dtype=np.uint16)


def finite(kv_c: Bf16Bits, form: str) -> Bf16Bits:
    """The rows, without infinities and NaN where a format has none."""
    if form != "fp8_ds_mla":
        return kv_c
    kept: Bf16Bits = np.where((kv_c & 0x7F80) == 0x7F80, kv_c & 0xBFFF, kv_c)
    return kept


def few_tokens(form: str, count: int = 3, seed: int = 12) -> tuple[Bf16Bits, Bf16Bits]:
    """Rows of a few tokens that the format may hold."""
    return mixed(count, seed, finite=form == "fp8_ds_mla")


def many_tokens(form: str) -> WriteCase:
    """65,537 tokens, most of them skipped, the last ones not: grids and token numbers of 16 bits."""
    kv_c, k_pe = few_tokens(form, 1024)
    tokens = 65_537
    slots = np.full(tokens, -1, np.int64)
    kept = np.unique(
        np.concatenate([np.arange(0, tokens, 131), np.arange(16_380, 16_390), np.arange(tokens - 4, tokens)])
    )
    slots[kept] = np.arange(len(kept))[::-1]
    rows = np.arange(tokens) % 1021
    return WriteCase(kv_c[rows], k_pe[rows], slots, -(-len(kept) // 16), 16, form, origin="65,537 tokens")


def strided_and_long(form: str) -> list[WriteCase]:
    """More tokens than a shortcut for contiguous arrays would wait for, in arrays that are not."""
    apart = WriteArrangement(8, 24, 48, 16, cache_shift=112, input_shift=12, spare_tokens=2)
    hows = (apart, WriteArrangement(slots_outermost=True), WriteArrangement(1 << 16, 1 << 12))
    return [realize(Slots(1025, 16, skipped=100), 13, form, how) for how in hows]


def large_blocks(form: str) -> list[WriteCase]:
    """Record numbers of more than six, seven, eight and eleven bits."""
    return [realize(Slots(300, size, skipped=9, extra_blocks=1), size, form) for size in (100, 128, 256, 257, 4096)]


def dense_slots(form: str) -> list[WriteCase]:
    """Every slot of the cache, in order, nearly in order, and in the order of blocks turned round."""
    kv_c, k_pe = few_tokens(form, 64, 14)
    orders = (np.arange(64), np.array([0, 2, 1, 3, *range(4, 64)]), np.arange(64)[::-1].copy())
    return [WriteCase(kv_c, k_pe, order, 4, 16, form, origin="every slot") for order in orders]


def negative_slots(form: str) -> WriteCase:
    """-1 is not the only negative number, and what its low half looks like does not matter."""
    slots = [2, -2, -5, 7, -17, -(1 << 31), 3 - (1 << 32), 7 - (1 << 33), 3 - (1 << 40), -(1 << 63), 5]
    kv_c, k_pe = few_tokens(form, len(slots), 7)
    return WriteCase(kv_c, k_pe, np.array(slots, np.int64), 3, 4, form, origin="negative slots")


def skipped_rows_of_anything(form: str) -> list[WriteCase]:
    """Skipped tokens of NaN and of infinities between others, also where a format has neither."""
    case = realize(Slots(9, 4, skipped=4), 5, form)
    skipped = (case.slot_mapping < 0)[:, None]
    return [
        replace(
            case, kv_c=np.where(skipped, np.uint16(bits), case.kv_c), k_pe=np.where(skipped, np.uint16(bits), case.k_pe)
        )
        for bits in (0x7FC1, 0xFFFF, 0x7F80, 0xFF80)
    ]


def least_alignment(form: str) -> list[WriteCase]:
    """Addresses and strides at 4 bytes, the slots at 8, the scale at 4, and kv_c elsewhere than k_pe."""
    unit = 2 if form == "auto" else 4  # elements of the cache in 4 bytes
    hows = (
        WriteArrangement(cache_shift=4),
        WriteArrangement(cache_shift=8, input_shift=4),
        WriteArrangement(cache_shift=12, k_pe_shift=4),
        WriteArrangement(cache_record_slack=unit),
        WriteArrangement(cache_block_slack=unit),
        WriteArrangement(cache_block_slack=2 * unit, cache_record_slack=unit, kv_c_row_slack=2, k_pe_row_slack=2),
        WriteArrangement(slot_shift=8, scale_shift=4),
        WriteArrangement(spare_tokens=1, spare_kv_c=5),
    )
    return [realize(Slots(11, 4, skipped=2), 16, form, how) for how in hows]


def interleaved_records(form: str) -> WriteCase:
    """Blocks whose records lie between those of others, without touching them."""
    width = realize(Slots(1), 0, form).format.width
    kv_c, k_pe = few_tokens(form, 5, 17)
    how = WriteArrangement(cache_strides=(3 * width, 2 * width))
    return WriteCase(kv_c, k_pe, np.array([0, 4, 8, 1, -1]), 3, 3, form, arrangement=how, origin="interleaved")


def rows_for_all(form: str) -> list[WriteCase]:
    """One row of kv_c and of k_pe for every token; and rows that overlap."""
    kv_c, k_pe = few_tokens(form, 1, 18)
    same = (np.repeat(kv_c, 5, axis=0), np.repeat(k_pe, 5, axis=0))
    how = WriteArrangement(input_strides=(0, 0))
    return [WriteCase(*same, np.array([3, 0, -1, 9, 6]), 3, 4, form, arrangement=how, origin="one row for all")]


def one_token_of_one_record(form: str) -> WriteCase:
    """Strides that are never used, of one token and of one record."""
    kv_c, k_pe = few_tokens(form, 1, 19)
    how = WriteArrangement(cache_strides=(4, 4), input_strides=(6, 2))
    return WriteCase(kv_c, k_pe, np.array([0]), 1, 1, form, arrangement=how, origin="strides that mean nothing")


def no_blocks(form: str) -> WriteCase:
    """A cache without a block, for skipped tokens."""
    return _without_blocks(form, 3)


def no_block_for_no_token(form: str) -> WriteCase:
    """Return a write of no token to a cache without a block."""
    return _without_blocks(form, 0)


def _without_blocks(form: str, count: int) -> WriteCase:
    return WriteCase(*few_tokens(form, count, 20), np.full(count, -1, np.int64), 0, 4, form, origin="no blocks")


def scales_that_are_not_used(form: str) -> list[WriteCase]:
    """Zero, negative, infinite, NaN, and without a dimension."""
    case = realize(Slots(5, 4), 7, form)
    scalar = replace(case, arrangement=WriteArrangement(scale_is_scalar=True))
    return [replace(each, scale=scale) for scale in (0.0, -1.0, np.inf, np.nan, 1000.0) for each in (case, scalar)]


def fp8_scales() -> list[WriteCase]:
    """Every bf16 under scales at which a reciprocal, a flush, a coarser scale or a fast division shows."""
    scales = (7.0, 448.0, 1234.5, 0.4464285671710968, 2.0**40, 1e-38, 1e-40, 2.0**127, 1.5 * 2.0**126, 0.0123)
    case = case_of(ALL_BF16.reshape(-1, LATENT), ALL_BF16[::8].copy().reshape(-1, ROPE), 21, "every bf16", form="fp8")
    scalar = replace(case, arrangement=WriteArrangement(scale_is_scalar=True))
    return [replace(case, scale=scale) for scale in scales] + [replace(scalar, scale=3.7)]


def tiles_of_every_mantissa() -> WriteCase:
    """fp8_ds_mla: tiles with every mantissa as amax at several exponents, and beside it every mantissa below."""
    tiles = [
        (exponent << 7 | top, [max(exponent - below, 0) << 7 | low for low in range(127)])
        for exponent, below in ((1, 1), (60, 1), (60, 3), (127, 2), (200, 1), (38, 1))
        for top in range(128)
    ]
    kv_c = np.array([[top, *rest] for top, rest in tiles], np.uint16)
    kv_c[:, 1::2] |= 0x8000
    rows = kv_c.reshape(-1, LATENT)
    return case_of(rows, np.zeros((len(rows), ROPE), np.uint16), 22, "tiles of every mantissa", form="fp8_ds_mla")


def blocks_of_nan_and_one_number() -> WriteCase:
    """One number at each place among 15 NaN, and one NaN at each place among numbers; specials in pairs."""
    nan, six = 0x7FC0, 0x40C0
    blocks = []
    for place in range(16):
        for inside, around in ((six, nan), (nan, six), (0x3F80, 0xFFFF)):
            block = np.full(16, around, np.uint16)
            block[place] = inside
            blocks.append(block)
    blocks += [np.resize(np.array([a, b], np.uint16), 16) for a in SPECIAL for b in SPECIAL]
    rows = np.resize(np.array(blocks), (-(-len(blocks) // 32) * 32, 16)).reshape(-1, LATENT)
    return case_of(rows, np.zeros((len(rows), ROPE), np.uint16), 23, "NaN and one number")


def far_of(form: str) -> list[WriteCase]:
    """Records, record strides, and rows of the inputs beyond 2^31 and 2^32 bytes."""
    kv_c, k_pe = few_tokens(form)
    item = 2 if form == "auto" else 1
    blocks = [WriteArrangement(cache_block_slack=more // item) for more in (FAR, (1 << 32) + 16)]
    outermost = WriteArrangement(slots_outermost=True, cache_block_slack=FAR // item)
    rows = [WriteArrangement(kv_c_row_slack=(1 << 30) + 2), WriteArrangement(k_pe_row_slack=(1 << 30) + 2)]
    return [
        WriteCase(kv_c, k_pe, np.array([1, -1, 2]), 2, 2, form, arrangement=how, origin="far")
        for how in (*blocks, outermost, *rows)
    ]


def slot_beyond_float32() -> WriteCase:
    """Slot 2^24 + 1 of a packed cache, which is no float32, beside 6,100,806 of tokenspeed 501."""
    kv_c, k_pe = few_tokens("nvfp4_ds_mla")
    numbers = np.array([3, 6_100_806, 16_777_217], np.int32)
    slots = np.array([16_777_217, 3, 6_100_806])
    return WriteCase(kv_c, k_pe, slots, 16_777_218, 1, block_numbers=numbers, origin="slot 2^24 + 1")


EXTREMES = (
    many_tokens,
    strided_and_long,
    large_blocks,
    dense_slots,
    negative_slots,
    skipped_rows_of_anything,
    least_alignment,
    interleaved_records,
    rows_for_all,
    one_token_of_one_record,
    no_blocks,
)
"""For every format."""
