"""Define wrong codes, RoPE bytes and places in a record of nvfp4_ds_mla (WRITE-13 to WRITE-15).

One candidate is no defect: if the product with the reciprocal is rounded to bf16 before it is encoded, every code
equals that of a division.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from conformance.faults.write_rules import Rules, bound_by, factor, normalised
from conformance.faults.write_steps import WriteCall
from conformance.faults.write_targets import wrong
from reference.profiles import PROFILES
from reference.records import NVFP4_DS_MLA, RecordLayout, transposed
from reference.scalars import Floats

FLASHMLA = PROFILES["flashmla"]


def to_bf16(x: Floats) -> Floats:
    """Return binary32 numbers rounded to bf16, as float32 of the same shape."""
    bits = x.astype(np.float32).view(np.uint32)
    rounded = (bits.astype(np.uint64) + 0x7FFF + (bits >> 16 & 1) >> 16 << 16).astype(np.uint32).view(np.float32)
    kept: Floats = np.where(np.isfinite(x), rounded, x).astype(np.float32)
    return kept


def _rope_of_its_own_scale(call: WriteCall, x: Floats) -> Floats:
    finite = np.where(np.isfinite(x), np.abs(x), np.float32(0))
    scale = np.maximum(finite.max(axis=1, keepdims=True, initial=0) / np.float32(448), np.float32(2.0**-126))
    quotients: Floats = x / scale
    return quotients


def _high_nibble_first(layout: RecordLayout) -> RecordLayout:
    return _latent_order(layout, [element ^ 1 for element in range(layout.latent.count)])


def _halves(layout: RecordLayout) -> RecordLayout:
    half = layout.latent.count // 2
    return _latent_order(layout, [2 * (element % half) + element // half for element in range(2 * half)])


def _latent_order(layout: RecordLayout, order: list[int]) -> RecordLayout:
    return replace(layout, latent=replace(layout.latent, order=tuple(order)))


def _scales_before_rope(layout: RecordLayout) -> RecordLayout:
    rope, scales = layout.rope, layout.scales
    return replace(layout, rope=replace(rope, offset=rope.offset + scales.nbytes), scales=replace(scales, offset=256))


def _laid_out(change: Callable[[RecordLayout], RecordLayout]) -> Rules:
    return Rules(layout=change(NVFP4_DS_MLA))


def _element_order(layout: RecordLayout) -> RecordLayout:
    return replace(layout, scales=replace(layout.scales, order=()))


def _inverse_order(layout: RecordLayout) -> RecordLayout:
    return replace(layout, scales=replace(layout.scales, order=transposed(4, layout.scales.count // 4)))


SCALES_INVERSE = _laid_out(_inverse_order)

DEFECTS = (
    wrong(
        "divides",
        "division by the scale where the reciprocal is declared",
        "WRITE-13",
        rules=bound_by(normalisation="division"),
        source="flashinfer 5119, vllm 46031",
    ),
    wrong(
        "multiplies-by-the-reciprocal",
        "multiplication by the reciprocal where division is declared",
        "WRITE-13",
        profile=FLASHMLA,
        rules=bound_by(normalisation="reciprocal"),
        source="flashinfer 5119, vllm 46031",
    ),
    wrong(
        "normalised-by-sf",
        "elements multiplied by the reciprocal of sf before it is rounded to a scale byte",
        "WRITE-13",
        rules=Rules(normalised=lambda call, x, sf, scale: x * (np.float32(1) / sf)),
    ),
    wrong(
        "reciprocal-of-bf16",
        "the reciprocal rounded to bf16",
        "WRITE-13",
        rules=Rules(normalised=lambda call, x, sf, scale: x * to_bf16(np.float32(1) / scale)),
    ),
    wrong(
        "codes-under-a-nan-scale",
        "codes 0 under a NaN scale",
        "WRITE-13",
        profile=FLASHMLA,
        rules=Rules(normalised=lambda call, x, sf, scale: np.where(np.isnan(scale), 0, normalised(call, x, sf, scale))),
    ),
    wrong(
        "rope-divided-by-scale",
        "RoPE divided by the scale argument",
        "WRITE-14",
        rules=Rules(rope=lambda call, x: x / call.scale),
    ),
    wrong(
        "rope-multiplied-by-scale",
        "RoPE multiplied by the scale argument",
        "WRITE-14",
        rules=Rules(rope=lambda call, x: x * call.scale),
    ),
    wrong(
        "rope-of-its-own-scale",
        "RoPE divided by its own amax / 448",
        "WRITE-14",
        rules=Rules(rope=_rope_of_its_own_scale),
    ),
    wrong(
        "scale-as-a-global-scale",
        "sf divided by the scale argument, as by a global scale",
        "WRITE-15",
        rules=Rules(factor=lambda call, largest: factor(call, largest / call.scale)),
    ),
    wrong("nibbles-swapped", "the even element in the high nibble", "WRITE-15", rules=_laid_out(_high_nibble_first)),
    wrong(
        "nibbles-of-halves",
        "elements e and e + 256 in one byte",
        "WRITE-15",
        rules=_laid_out(_halves),
    ),
    wrong("scales-unpermuted", "scale bytes written in element order", "WRITE-15", rules=_laid_out(_element_order)),
    wrong(
        "scales-inverse-permuted",
        "scale bytes written through the inverse permutation",
        "WRITE-15",
        rules=SCALES_INVERSE,
        source="vllm 50084, 50085, 55976",
    ),
    wrong(
        "scales-before-rope", "the scales in front of the RoPE key", "WRITE-15", rules=_laid_out(_scales_before_rope)
    ),
)
