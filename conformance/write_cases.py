"""The inputs that broke real writers, each with the report it comes from, as calls of concat_and_cache_mla."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from conformance.write_generation import BLOCK, LATENT, ROPE, TIES, Slots, case_of, mixed, realize
from fixtures.write_cases import WriteArrangement, WriteCase
from reference.scalars import E4M3, Bf16Bits, Floats, bf16_from_f32

Named = Callable[[], WriteCase | list[WriteCase]]

FORMATS = ("nvfp4_ds_mla", "fp8_ds_mla", "auto", "fp8")

STRIDED = {
    "blocks apart": WriteArrangement(cache_block_slack=352),
    "records apart": WriteArrangement(cache_record_slack=160),
    "blocks and records apart": WriteArrangement(cache_block_slack=1024, cache_record_slack=16),
    "slots outermost": WriteArrangement(slots_outermost=True),
    "slots outermost and apart": WriteArrangement(slots_outermost=True, cache_block_slack=48, cache_record_slack=16),
    "kv_c and k_pe slices of one projection": WriteArrangement(kv_c_row_slack=64, k_pe_row_slack=512),
    "rows a few elements apart": WriteArrangement(kv_c_row_slack=2, k_pe_row_slack=6),
    "inputs longer than slot_mapping": WriteArrangement(spare_tokens=3),
    "off the boundary of a cache line": WriteArrangement(cache_shift=16, input_shift=20),
    "everything apart": WriteArrangement(8, 24, 48, 16, cache_shift=112, input_shift=12, spare_tokens=2),
}


def latent_rows(blocks: Floats) -> Bf16Bits:
    """float32 [B, n <= 16] of bf16 numbers -> uint16 [T, 512], a block for each row, zeros behind it."""
    padded = np.zeros((-(-len(blocks) // (LATENT // BLOCK)) * (LATENT // BLOCK), BLOCK), np.float32)
    padded[: len(blocks), : blocks.shape[1]] = blocks
    return bf16_from_f32(padded).reshape(-1, LATENT)


def blocks_case(blocks: list[list[float]], origin: str) -> WriteCase:
    """A case of latent blocks, given by their first elements."""
    width = max(len(block) for block in blocks)
    rows = latent_rows(np.array([block + [0.0] * (width - len(block)) for block in blocks], np.float32))
    return case_of(rows, np.zeros((len(rows), ROPE), np.uint16), 1, origin)


def a_skipped_token_and_the_last_slot() -> list[WriteCase]:
    """vllm 43810: slots [0, -1]; a writer that takes -1 for a number writes the last record of the cache."""
    kv_c, k_pe = mixed(2, 4, finite=True)
    return [WriteCase(kv_c, k_pe, np.array([0, -1]), 2, 4, form, origin="vllm 43810") for form in FORMATS]


def nothing_but_skipped_tokens() -> list[WriteCase]:
    """vllm-ascend 15417: all slots -1: the cache does not change."""
    return [realize(Slots(9, 4, skipped=9), 5, form, origin="vllm-ascend 15417") for form in FORMATS]


def padding_beside_a_token_in_slot_0() -> WriteCase:
    """ATOM 2008: padding rows that are taken to be for slot 0 overwrite what a token has there."""
    kv_c, k_pe = mixed(6, 6)
    return WriteCase(kv_c, k_pe, np.array([-1, 0, -1, 5, -1, -1]), 3, 4, origin="ATOM 2008")


def negative_slots_with_valid_low_halves() -> WriteCase:
    """Slots are 64 bits wide: -2^32 + 3 is negative, and 3 for whoever looks at 32 bits."""
    kv_c, k_pe = mixed(5, 7)
    slots = np.array([2, 3 - (1 << 32), 7 - (1 << 33), -(1 << 63), 5], np.int64)
    return WriteCase(kv_c, k_pe, slots, 3, 4, origin="negative slots of 64 bits")


def ties_at_scale_one() -> WriteCase:
    """aiter 3992: 0.25, 1.25, 2.5, 5.0 and the other ties at scale 1 go to the even code."""
    return blocks_case([[6.0, *TIES, *(-tie for tie in TIES)]], "aiter 3992")


def reciprocal_and_division() -> WriteCase:
    """flashinfer 5119, vllm 46031: the numbers at which they differ, for every scale whose mantissa bits are 111."""
    scales = [(8 + 7) * 2.0 ** (exponent - 10) for exponent in range(1, 15)]
    return blocks_case([[6 * s, 1.25 * s, 2.5 * s, 5 * s, -1.25 * s, -5 * s] for s in scales], "flashinfer 5119")


def scales_up_and_to_nearest() -> WriteCase:
    """FACTS: amax 0.01177978515625 is 0x01 to nearest, 0x02 up; and neighbours of every midpoint between two scales."""
    bytes_between = [6 * (a + b) / 2 for a, b in _neighbouring_scales()]
    return blocks_case([[0.01177978515625], *([value] for value in bytes_between)], "scales up and to nearest")


def a_block_below_the_least_scale() -> WriteCase:
    """vllm 55538: a block of low magnitude, whose scale is the floor of 2^-9; zeros of either sign."""
    tiny = 2.0**-9
    return blocks_case([[tiny, tiny / 2, -tiny], [tiny * 6, tiny], [2.0**-126], [0.0], [-0.0, 0.0, -0.0]], "vllm 55538")


def amax_at_the_end_of_the_range() -> WriteCase:
    """amax exactly 2,688, just above, and far beyond: the scale saturates, and then the codes do."""
    return blocks_case([[2688.0, 448.0], [2704.0, 448.0], [65536.0, 2688.0, -100.0], [3.3e38, 1.0]], "amax 2,688")


def infinities_and_nan_in_a_block() -> WriteCase:
    """Neither is a number to scale by; what stands beside them is one."""
    inf, nan = float("inf"), float("nan")
    blocks = [[inf, 1.0, -2.0], [-inf, inf, 3.0], [nan, 1.0, -2.0], [nan, nan], [nan, inf, 1.0], [nan] * BLOCK]
    return blocks_case(blocks, "infinities and NaN")


def rope_at_the_end_of_the_range() -> WriteCase:
    """RoPE 448, 464, 466 (465 is no bf16), infinities, NaN of either sign, zeros, subnormals of e4m3 and their ties."""
    numbers = [448.0, 464.0, 466.0, 480.0, 2.0**-9, 2.0**-10, 1.5 * 2.0**-9, 2.0**-11, 0.0, float("inf"), float("nan")]
    k_pe = np.zeros((2, ROPE), np.uint16)
    k_pe[0, : len(numbers)] = bf16_from_f32(np.array(numbers, np.float32))
    k_pe[1] = k_pe[0] | 0x8000
    return case_of(np.zeros((2, LATENT), np.uint16), k_pe, 8, "RoPE 448, 464, 466, infinities, NaN")


def tiles_of_fp8_ds_mla() -> WriteCase:
    """vllm 49435: a tile with amax 336: scale 0.75, or 1.0 as a power of two; zeros, tiny and large tiles."""
    kv_c = np.zeros((4, 4, 128), np.float32)
    kv_c[0, 0, :3] = (336.0, 1.0, -3.0)
    kv_c[1, :, 5] = (448.0, 449.0, 1e-30, 3e38)
    kv_c[2, :, 9] = (448e-4, 447e-4, 450e-4, 448 * 2.0**-13)
    kv_c[3] = -0.0
    rows = bf16_from_f32(kv_c).reshape(4, LATENT)
    return case_of(rows, mixed(4, 9)[1], 9, "vllm 49435", form="fp8_ds_mla")


def copies_keep_every_bit() -> WriteCase:
    """ "auto" copies: NaN payloads, signalling NaN, subnormals and zeros of either sign."""
    bits = np.arange(65_536, dtype=np.uint16)
    return case_of(bits.reshape(-1, LATENT), bits[: 128 * ROPE].reshape(-1, ROPE), 10, "every bf16", form="auto")


def division_by_the_scale_argument() -> list[WriteCase]:
    """ "fp8" divides by scale, and rounds twice if it multiplies by a reciprocal instead."""
    case = case_of(*mixed(40, 11), 11, "scale of its own", form="fp8")
    return [replace(case, scale=scale) for scale in (1.0, 0.0123, 3.0, 1e-30, 2.0**100)]


def _neighbouring_scales() -> list[tuple[float, float]]:
    return list(zip(E4M3.magnitudes[1:-1], E4M3.magnitudes[2:], strict=True))


def cases_of(named: Named) -> list[WriteCase]:
    """The one case or the several of an entry of NAMED."""
    cases = named()
    return cases if isinstance(cases, list) else [cases]


NAMED: tuple[Named, ...] = (
    a_skipped_token_and_the_last_slot,
    nothing_but_skipped_tokens,
    padding_beside_a_token_in_slot_0,
    negative_slots_with_valid_low_halves,
    ties_at_scale_one,
    reciprocal_and_division,
    scales_up_and_to_nearest,
    a_block_below_the_least_scale,
    amax_at_the_end_of_the_range,
    infinities_and_nan_in_a_block,
    rope_at_the_end_of_the_range,
    tiles_of_fp8_ds_mla,
    copies_keep_every_bit,
    division_by_the_scale_argument,
)
