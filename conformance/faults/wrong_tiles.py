"""Define wrong records of fp8_ds_mla (WRITE-16 to WRITE-18)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.faults.defect import Defect
from conformance.faults.write_rules import Rules, amax, bound_by, tile_scale
from conformance.faults.write_steps import WriteCall
from conformance.faults.write_targets import FP8_DS_MLA, wrong
from reference import quantize
from reference.profiles import PROFILES
from reference.scalars import Bf16Bits, Codes, Floats

ARBITRARY = PROFILES["arbitrary-tiles"]

Parts = list[npt.NDArray[Any]]


def canonical(bits: Bf16Bits) -> Bf16Bits:
    """Return the encodings, uint16 of any shape, with each NaN replaced by 0x7FFF."""
    return np.where((bits & 0x7FFF) > 0x7F80, np.uint16(0x7FFF), bits)


def _cut(numbers: Floats, kept: int) -> Floats:
    return (numbers.view(np.uint32) & np.uint32(kept)).view(np.float32)


def _rope_before_scales(call: WriteCall, latent: Codes, scales: Floats, k_pe: Bf16Bits) -> Parts:
    return [latent, k_pe, scales]


def _canonical_rope(call: WriteCall, latent: Codes, scales: Floats, k_pe: Bf16Bits) -> Parts:
    return [latent, scales, canonical(k_pe)]


def _reciprocal_scales(call: WriteCall, latent: Codes, scales: Floats, k_pe: Bf16Bits) -> Parts:
    return [latent, np.float32(1) / scales, k_pe]


def _scales_of_bf16(call: WriteCall, latent: Codes, scales: Floats, k_pe: Bf16Bits) -> Parts:
    return [latent, _cut(scales, 0xFFFF0000), k_pe]


def _exponents_alone(call: WriteCall, latent: Codes, scales: Floats, k_pe: Bf16Bits) -> Parts:
    return [latent, _cut(scales, 0x7F800000), k_pe]


def _scaled_by_the_argument(call: WriteCall, latent: Codes, scales: Floats, k_pe: Bf16Bits) -> Parts:
    return [latent, scales * call.scale, k_pe]


def _half_of_the_tile(call: WriteCall, tiles: Floats) -> Floats:
    return amax(call, tiles[..., : tiles.shape[-1] // 2])


def _of_the_row(call: WriteCall, tiles: Floats) -> Floats:
    return np.repeat(amax(call, tiles).max(axis=1, keepdims=True), tiles.shape[1], axis=1)


def _power_below(call: WriteCall, largest: Floats) -> Floats:
    return _cut(np.maximum(largest / np.float32(448), quantize.LEAST_POWER), 0x7F800000)


def _nearest_power(call: WriteCall, largest: Floats) -> Floats:
    floored: Floats = np.maximum(largest / np.float32(448), quantize.LEAST_POWER)
    return np.exp2(np.rint(np.log2(floored)))


def _next_power(call: WriteCall, largest: Floats) -> Floats:
    doubled: Floats = np.float32(2) * _power_below(call, largest)
    return doubled


def _power_not_below(call: WriteCall, largest: Floats) -> Floats:
    fraction, exponent = np.frexp(largest / np.float32(448))
    powers: Floats = np.ldexp(np.float32(1), np.where(fraction == 0.5, exponent - 1, exponent)).astype(np.float32)
    return powers


def _powers_floored_by(least: float) -> Rules:
    def scale(call: WriteCall, largest: Floats) -> Floats:
        return _power_not_below(call, np.maximum(largest, np.float32(448) * np.float32(least)))

    return Rules(tile_scale=scale)


def _neighbours_scale(call: WriteCall, x: Floats, scale: Floats) -> Floats:
    quotients: Floats = x / np.roll(scale, 1, axis=1)
    return quotients


def tile(name: str, sentence: str, clause: str, **how: Any) -> Defect:
    """Return a defect of a writer of fp8_ds_mla."""
    return wrong(f"tile-{name}", sentence, clause, claims=FP8_DS_MLA, **how)


DEFECTS = (
    tile(
        "rope-before-scales",
        "RoPE in front of the scales of fp8_ds_mla",
        "WRITE-16",
        rules=Rules(tile_parts=_rope_before_scales),
    ),
    tile(
        "rope-canonical",
        "a NaN of RoPE in fp8_ds_mla written as 0x7FFF, as by a conversion",
        "WRITE-16",
        rules=Rules(tile_parts=_canonical_rope),
    ),
    tile(
        "scales-reciprocal",
        "the reciprocals of the scales in fp8_ds_mla",
        "WRITE-16",
        rules=Rules(tile_parts=_reciprocal_scales),
    ),
    tile(
        "scales-by-the-argument",
        "scales of fp8_ds_mla multiplied by the scale argument",
        "WRITE-16",
        rules=Rules(tile_parts=_scaled_by_the_argument),
    ),
    tile(
        "scales-of-bf16",
        "scales of fp8_ds_mla cut to bf16",
        "WRITE-17",
        profile=ARBITRARY,
        rules=Rules(tile_parts=_scales_of_bf16),
    ),
    tile(
        "scales-exponents-alone",
        "the exponents of arbitrary scales alone in fp8_ds_mla",
        "WRITE-17",
        profile=ARBITRARY,
        rules=Rules(tile_parts=_exponents_alone),
        source="vllm 49435",
    ),
    tile(
        "arbitrary",
        "arbitrary scales of tiles where powers of two are declared",
        "WRITE-17",
        rules=bound_by(tile="arbitrary"),
    ),
    tile(
        "power-of-two",
        "powers of two for scales of tiles where arbitrary ones are declared",
        "WRITE-17",
        profile=ARBITRARY,
        rules=bound_by(tile="power of two"),
    ),
    tile(
        "power-below",
        "the power of two below amax / 448",
        "WRITE-17",
        rules=Rules(tile_scale=_power_below),
    ),
    tile(
        "power-nearest",
        "the power of two nearest to amax / 448",
        "WRITE-17",
        rules=Rules(tile_scale=_nearest_power),
    ),
    tile(
        "power-above-an-exact-one",
        "the next power of two also where amax / 448 is one",
        "WRITE-17",
        rules=Rules(tile_scale=_next_power),
    ),
    tile(
        "no-floor",
        "amax / 448 without a floor, and zeros divided by zero",
        "WRITE-17",
        profile=ARBITRARY,
        rules=Rules(tile_scale=lambda call, largest: largest / np.float32(448)),
    ),
    tile(
        "power-floor-of-2-126",
        "2^-126 instead of 1e-4 under a power of two",
        "WRITE-17",
        rules=_powers_floored_by(2.0**-126),
    ),
    tile(
        "floor-under-amax",
        "1e-4 under amax instead of amax / 448",
        "WRITE-17",
        rules=_powers_floored_by(1e-4 / 448),
    ),
    tile(
        "by-a-448th",
        "amax multiplied by fl(1/448)",
        "WRITE-17",
        profile=ARBITRARY,
        rules=Rules(
            tile_scale=lambda call, largest: np.maximum(
                largest * (np.float32(1) / np.float32(448)), quantize.LEAST_TILE_SCALE
            )
        ),
    ),
    tile(
        "of-240",
        "scales of tiles for a largest number of 240",
        "WRITE-17",
        rules=Rules(tile_scale=lambda call, largest: tile_scale(call, largest * np.float32(448 / 240))),
    ),
    tile(
        "of-64",
        "the amax of a tile taken of its first 64 elements",
        "WRITE-17",
        rules=Rules(amax=_half_of_the_tile),
    ),
    tile(
        "of-the-row",
        "one scale for the four tiles of fp8_ds_mla",
        "WRITE-17",
        rules=Rules(amax=_of_the_row),
    ),
    tile(
        "of-the-neighbour",
        "a tile divided by its neighbour's scale",
        "WRITE-18",
        rules=Rules(tile_normalised=_neighbours_scale),
    ),
    tile(
        "undivided",
        "the latent of fp8_ds_mla not divided",
        "WRITE-18",
        rules=Rules(tile_normalised=lambda call, x, scale: x),
    ),
    tile(
        "by-the-reciprocal",
        "the latent of fp8_ds_mla multiplied by the reciprocal of its scale",
        "WRITE-18",
        profile=ARBITRARY,
        rules=Rules(tile_normalised=lambda call, x, scale: x * (np.float32(1) / scale)),
    ),
)
