"""Define defects of the records of "auto" and "fp8" (WRITE-19, WRITE-20)."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.faults.defect import Defect
from conformance.faults.write_rules import Rules, divided
from conformance.faults.write_steps import WriteCall
from conformance.faults.write_targets import GENERIC, wrong
from conformance.faults.wrong_tiles import canonical
from reference.scalars import Bf16Bits, Floats, f32_from_bf16

LATENT = 512


def _without_subnormals(bits: Bf16Bits) -> Bf16Bits:
    return np.where(bits & 0x7F80, bits, bits & 0x8000)


def _rope_unscaled(call: WriteCall, x: Floats) -> Floats:
    return np.concatenate([divided(call, x[:, :LATENT]), x[:, LATENT:]], axis=1)


def _fast_division(call: WriteCall, x: Floats) -> Floats:
    # CUDA's __fdividef gives 0 for a divisor between 2^126 and 2^128.
    return np.where(call.scale > 2.0**126, np.copysign(np.float32(0), x), divided(call, x))


def _flushed(call: WriteCall, x: Floats) -> Floats:
    least = np.float32(2.0**-126)
    scale = np.float32(0) if call.scale < least else call.scale
    quotients = np.where(np.abs(x) < least, np.copysign(np.float32(0), x), x) / scale
    return np.where(np.abs(quotients) < least, np.copysign(np.float32(0), quotients), quotients)


def _scale_of_bf16(call: WriteCall, x: Floats) -> Floats:
    return x / np.float32((np.array([call.scale]).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)[0])


def _rope_first(call: WriteCall, bits: Bf16Bits) -> Bf16Bits:
    return np.roll(bits, -LATENT, axis=1)


def _divided_bits(call: WriteCall, bits: Bf16Bits) -> Bf16Bits:
    return ((f32_from_bf16(bits) / call.scale).view(np.uint32) >> 16).astype(np.uint16)


def generic(name: str, sentence: str, clause: str, **how: Any) -> Defect:
    """Return a defect of a writer of "auto" or "fp8"."""
    return wrong(name, sentence, clause, claims=GENERIC, **how)


DEFECTS = (
    generic(
        "auto-canonical-nan",
        'NaN of "auto" written as 0x7FFF, as by a conversion',
        "WRITE-19",
        rules=Rules(copied=lambda call, bits: canonical(bits)),
    ),
    generic(
        "auto-subnormals-flushed",
        'subnormals of "auto" written as zero',
        "WRITE-19",
        rules=Rules(copied=lambda call, bits: _without_subnormals(bits)),
    ),
    generic(
        "auto-rope-first",
        'RoPE in front of the latent of "auto"',
        "WRITE-19",
        rules=Rules(copied=_rope_first),
    ),
    generic(
        "auto-divided-by-scale",
        '"auto" divided by the scale argument',
        "WRITE-19",
        rules=Rules(copied=_divided_bits),
    ),
    generic(
        "fp8-scale-ignored",
        '"fp8" not divided by scale',
        "WRITE-20",
        rules=Rules(divided=lambda call, x: x),
    ),
    generic(
        "fp8-multiplied-by-scale",
        '"fp8" multiplied by scale',
        "WRITE-20",
        rules=Rules(divided=lambda call, x: x * call.scale),
    ),
    generic(
        "fp8-by-the-reciprocal",
        '"fp8" multiplied by the reciprocal of scale',
        "WRITE-20",
        rules=Rules(divided=lambda call, x: x * (np.float32(1) / call.scale)),
    ),
    generic(
        "fp8-rope-undivided",
        'RoPE of "fp8" not divided by scale',
        "WRITE-20",
        rules=Rules(divided=_rope_unscaled),
    ),
    generic(
        "fp8-scale-of-bf16",
        'the scale of "fp8" cut to bf16',
        "WRITE-20",
        rules=Rules(divided=_scale_of_bf16),
    ),
    generic(
        "fp8-fast-division",
        '"fp8" divided by an approximation that is zero for a divisor above 2^126',
        "WRITE-20",
        rules=Rules(divided=_fast_division),
    ),
    generic(
        "fp8-subnormals-flushed",
        'subnormals of binary32 taken for zero in the division of "fp8"',
        "WRITE-20",
        rules=Rules(divided=_flushed),
    ),
)
