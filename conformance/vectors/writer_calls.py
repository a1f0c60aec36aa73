"""Make inputs of a writer: tokens of chosen numbers, and their slots."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.vectors.vector import Json, hexed
from reference.scalars import bf16_from_f32

NAN, INF = float("nan"), float("inf")
TINY = 2.0**-9
TIES = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
"""Ties of e2m1."""


def bf16_row(numbers: npt.ArrayLike, width: int, repeat: bool = False) -> str:
    """Return a row of `width` bf16 numbers as hex, filled up with zeros, or with the same numbers if `repeat`."""
    encodings = bf16_from_f32(np.asarray(numbers, np.float32).ravel())
    return hexed(np.resize(encodings, width) if repeat else np.pad(encodings, (0, width - len(encodings))), "bf16")


def latent(*groups: list[float], size: int = 16) -> str:
    """Return a row of kv_c as hex. Group i of `size` elements begins with groups[i] and continues with zeros."""
    return bf16_row([[*group, *[0.0] * (size - len(group))] for group in groups], 512)


def rope(*numbers: float) -> str:
    """Return a row of k_pe as hex, filled up with zeros."""
    return bf16_row(numbers, 64)


def negative_nan(width: int) -> str:
    """Return a row of bf16 as hex: ones and NaN of either sign in turn."""
    return hexed(np.resize(np.array([0x3F80, 0xFFC0, 0x7FC1, 0xFF81], np.uint16), width), "bf16")


def ramp(first: float) -> str:
    """Return a row of kv_c as hex, with another magnitude in each block and different neighbours."""
    blocks = np.arange(32)[:, None] % 13 - 6
    return bf16_row(first * 2.0**blocks * (np.arange(16) - 7.25), 512)


ZEROS, NO_ROPE = latent([]), rope()
ROPE = rope(1.0, -2.0, 0.5, 3.0)
TOKENS = [ramp(1.0), ramp(-0.75), ramp(1.75)]


def call(kv_c: list[str], slots: list[int] | None = None, k_pe: list[str] | None = None, **more: Any) -> Json:
    """Return the input of a writer: 2 blocks of 2 records, token i to slot i, and scale 1, unless given otherwise."""
    told = {
        "kv_c": kv_c,
        "k_pe": k_pe or [rope(token + 1.0, -2.0, 0.5, 3.0) for token in range(len(kv_c))],
        "slot_mapping": [*range(len(kv_c))] if slots is None else slots,
    }
    return {**told, "num_blocks": 2, "block_size": 2, "scale": hexed([1.0], "binary32"), **more}


def one(kv_c: str = ZEROS, k_pe: str = NO_ROPE, **more: Any) -> Json:
    """Return the input of a writer of one token to the only record of a cache."""
    return call([kv_c], k_pe=[k_pe], num_blocks=1, block_size=1, **more)
