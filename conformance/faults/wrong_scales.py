"""Define wrong scales of nvfp4_ds_mla (WRITE-10 to WRITE-12).

One candidate has no entry: a sixth rounded to bf16, 0.1669921875, gives for every amax of bf16 the same scale byte as
0.1667.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from conformance.faults.write_rules import Rules, amax, bound_by, factor, normalised
from conformance.faults.write_steps import WriteCall
from conformance.faults.write_targets import wrong
from reference import quantize
from reference.profiles import PROFILES
from reference.scalars import E4M3, Codes, Floats

UP, FLASHMLA = PROFILES["vllm-03b60164"], PROFILES["flashmla"]


def _amax_of(change: Callable[[Floats], Floats]) -> Rules:
    """Return rules that take the amax of `change(blocks)`, blocks float32 [N, blocks, n]."""
    return Rules(amax=lambda call, blocks: amax(call, change(blocks)))


def _next_block(blocks: Floats) -> Floats:
    return np.roll(blocks, -1, axis=1)


def _pairs_of_blocks(blocks: Floats) -> Floats:
    count, number, n = blocks.shape
    return np.repeat(blocks.reshape(count, number // 2, 2 * n), 2, axis=1)


def _whole_row(blocks: Floats) -> Floats:
    return np.repeat(blocks.reshape(len(blocks), 1, blocks.shape[1] * blocks.shape[2]), blocks.shape[1], axis=1)


def _but_the_last_element(blocks: Floats) -> Floats:
    return blocks[..., :-1]


def _half(blocks: Floats) -> Floats:
    return blocks[..., : blocks.shape[2] // 2]


def _without_infinities(blocks: Floats) -> Floats:
    return np.where(np.isinf(blocks), np.float32(0), blocks)


def _signed_amax(call: WriteCall, blocks: Floats) -> Floats:
    largest: Floats = np.where(np.isnan(blocks), -np.inf, blocks).max(axis=-1)
    return largest.astype(np.float32)


def _nan_of_nothing_else(call: WriteCall, blocks: Floats) -> Floats:
    return np.where(np.isnan(blocks).all(axis=-1), np.float32(np.nan), amax(call, blocks))


def _times(constant: float) -> Rules:
    return Rules(factor=lambda call, largest: np.maximum(largest * np.float32(constant), quantize.LEAST_SCALE))


def _without_floor(call: WriteCall, largest: Floats) -> Floats:
    return largest / np.float32(6)


def _scale_down(call: WriteCall, sf: Floats) -> Codes:
    up = quantize.scale_bytes(sf, "up")
    down = np.where((E4M3.values[up] > sf) & (up > 0) & (up < 0x7F), up - 1, up)
    return down.astype(np.uint8)


def _scale_above(call: WriteCall, sf: Floats) -> Codes:
    exact = np.searchsorted(np.array(E4M3.magnitudes, np.float32), sf, side="right").clip(max=0x7E)
    return np.where(np.isnan(sf), 0x7F, exact).astype(np.uint8)


def _scale_power_of_two(call: WriteCall, sf: Floats) -> Codes:
    return np.where(np.isnan(sf), E4M3.nan_code, E4M3.encode(np.exp2(np.ceil(np.log2(sf))))).astype(np.uint8)


def _scale_nan_beyond(call: WriteCall, sf: Floats) -> Codes:
    return np.where(sf > 464, 0x7F, quantize.scale_bytes(sf, call.profile.scale)).astype(np.uint8)


def _scale_nan_is_448(call: WriteCall, sf: Floats) -> Codes:
    return quantize.scale_bytes(np.where(np.isnan(sf), np.float32(448), sf), call.profile.scale)


def _zero_under_zero(call: WriteCall, x: Floats, sf: Floats, scale: Floats) -> Floats:
    return np.where(scale == 0, np.copysign(np.float32(0), x), normalised(call, x, sf, scale))


DEFECTS = (
    wrong("amax-of-the-next-block", "a block's amax taken of the next block", "WRITE-10", rules=_amax_of(_next_block)),
    wrong("amax-of-two-blocks", "the amax taken of 32 elements", "WRITE-10", rules=_amax_of(_pairs_of_blocks)),
    wrong("amax-of-the-row", "the amax taken of the whole row", "WRITE-10", rules=_amax_of(_whole_row)),
    wrong("amax-of-half-a-block", "the amax taken of a block's first half", "WRITE-10", rules=_amax_of(_half)),
    wrong(
        "amax-without-the-last-element",
        "the last element of a block left out of its amax",
        "WRITE-10",
        rules=_amax_of(_but_the_last_element),
    ),
    wrong(
        "amax-signed", "the largest number taken for the largest magnitude", "WRITE-10", rules=Rules(amax=_signed_amax)
    ),
    wrong("nan-in-amax", "a NaN let into amax", "WRITE-10", rules=bound_by(nan="spreads")),
    wrong(
        "nan-left-out-of-amax",
        "a NaN left out of amax where nan = spreads is declared",
        "WRITE-10",
        profile=FLASHMLA,
        rules=bound_by(nan="ignored"),
    ),
    wrong(
        "amax-of-nan-alone-is-nan",
        "the amax of a block of nothing but NaN is NaN, as of a maximum that begins with an element",
        "WRITE-10",
        rules=Rules(amax=_nan_of_nothing_else),
    ),
    wrong("infinity-left-out-of-amax", "an infinity left out of amax", "WRITE-10", rules=_amax_of(_without_infinities)),
    wrong(
        "no-floor",
        "no 2^-9 under the scale, and codes 0 under a zero scale",
        "WRITE-11",
        rules=Rules(factor=_without_floor, normalised=_zero_under_zero),
        source="vllm 55538",
    ),
    wrong(
        "no-floor-and-infinite-reciprocal",
        "no 2^-9 under the scale, whose reciprocal then is infinite",
        "WRITE-11",
        rules=Rules(factor=_without_floor),
        source="vllm 55538",
    ),
    wrong(
        "floor-of-the-least-normal",
        "2^-6 instead of 2^-9 under the scale",
        "WRITE-11",
        rules=Rules(factor=lambda call, largest: np.maximum(factor(call, largest), np.float32(2.0**-6))),
    ),
    wrong("sixth-rounded", "amax multiplied by 0.1667", "WRITE-11", rules=_times(0.1667)),
    wrong("sixth-cut", "amax multiplied by 0.1666", "WRITE-11", rules=_times(0.1666)),
    wrong("scale-up", "scales rounded up where nearest is declared", "WRITE-12", rules=bound_by(scale="up")),
    wrong(
        "scale-nearest",
        "scales rounded to nearest where up is declared",
        "WRITE-12",
        profile=UP,
        rules=bound_by(scale="nearest"),
    ),
    wrong("scale-down", "scales rounded down", "WRITE-12", rules=Rules(scale_byte=_scale_down)),
    wrong(
        "scale-above-an-exact-one",
        "the next scale byte also where sf is exact",
        "WRITE-12",
        profile=UP,
        rules=Rules(scale_byte=_scale_above),
    ),
    wrong(
        "scale-power-of-two",
        "scales rounded up to powers of two",
        "WRITE-12",
        rules=Rules(scale_byte=_scale_power_of_two),
    ),
    wrong(
        "scale-nan-beyond-448",
        "a scale byte of NaN instead of 448 for a large amax",
        "WRITE-12",
        rules=Rules(scale_byte=_scale_nan_beyond),
    ),
    wrong(
        "scale-of-nan-is-448",
        "a scale byte of 448 instead of NaN for an amax of NaN",
        "WRITE-12",
        profile=FLASHMLA,
        rules=Rules(scale_byte=_scale_nan_is_448),
    ),
)
