"""Define vectors of the writers of fp8_ds_mla, "auto" and "fp8", and of record addresses for any dtype."""

from __future__ import annotations

import numpy as np

from conformance.vectors.record_bytes import HARD_BF16
from conformance.vectors.vector import Vector, hexed
from conformance.vectors.writer_calls import (
    INF,
    NAN,
    TINY,
    TOKENS,
    bf16_row,
    call,
    latent,
    negative_nan,
    one,
    rope,
)
from reference.scalars import f32_from_bf16


def slots(width: int) -> list[Vector]:
    """Return the vectors on record addresses, for records of `width` elements."""
    return [
        Vector(
            "WRITE-2",
            ("PaddingSlot",),
            "slots 0 and -1: taken for a number, -1 is the last record of the cache",
            call(TOKENS[:2], [0, -1]),
            "vllm 43810",
        ),
        Vector(
            "PAGE-2",
            ("Strides",),
            "blocks, records and rows of kv_c and k_pe stand apart",
            call(
                TOKENS[:2],
                [3, 0],
                strides={"kv_cache": [2 * width + 48, width + 16, 1], "kv_c": [576, 1], "k_pe": [576, 1]},
            ),
        ),
    ]


_SAME_AGAIN = 2.0**31
FP8_DS_MLA = [
    Vector("WRITE-16", ("Basic",), "a token to each of slots 2 and 1", call(TOKENS[:2], [2, 1])),
    *slots(656),
    Vector(
        "WRITE-16", ("TensorScale",), "scale is not used: 0.25", call(TOKENS[:1], [1], scale=hexed([0.25], "binary32"))
    ),
    Vector(
        "WRITE-17",
        ("TileScale",),
        "amax 336: scale 0.75, or 1.0 as a power of two",
        one(latent([336.0, 1.0, -3.0], size=128)),
        "vllm 49435",
    ),
    Vector(
        "WRITE-17",
        ("TileScale", "ScaleFloor"),
        "amax 0, above 448e-4, 448 * 2^-13, and above: 2^-13 thrice and 2^-12 of powers of two, and else amax / 448",
        one(latent([0.0, -0.0], [0.044921875, 1e-3], [448 * 2.0**-13, 1e-3], [450 * 2.0**-13], size=128)),
    ),
    Vector(
        "WRITE-17",
        ("TileScale",),
        "amax 448, 449, 1e-30 and 3e38: an exact power of two is not raised to the next",
        one(latent([448.0, 1.0], [450.0, 1.0], [1e-30], [3e38, 1.0], size=128)),
    ),
    Vector(
        "WRITE-18",
        ("Reciprocal", "TileScale"),
        "a number that a division and a reciprocal of an arbitrary scale round differently",
        one(latent([7.130438461899757e-10 * _SAME_AGAIN, 6.366462912410498e-10 * _SAME_AGAIN], size=128)),
    ),
    Vector(
        "WRITE-16",
        ("CopiedBits",),
        "k_pe is copied bit for bit, NaN and subnormals too",
        one(k_pe=bf16_row(f32_from_bf16(HARD_BF16), 64)) | {"k_pe": [hexed(np.resize(HARD_BF16, 64), "bf16")]},
    ),
]

AUTO = [
    *slots(576),
    Vector(
        "WRITE-19",
        ("CopiedBits", "TensorScale"),
        "kv_c and k_pe are copied bit for bit, and scale is not used: NaN",
        one(scale=hexed([NAN], "binary32"))
        | {"kv_c": [hexed(np.resize(HARD_BF16, 512), "bf16")], "k_pe": [hexed(np.resize(HARD_BF16, 64), "bf16")]},
    ),
]

FP8 = [
    *slots(576),
    Vector(
        "WRITE-20",
        ("TensorScale",),
        "latent and RoPE elements are divided by scale 0.5",
        one(
            bf16_row([1.0, -2.0, 0.75], 512, repeat=True), rope(1.0, 224.0, 240.0, -0.0), scale=hexed([0.5], "binary32")
        ),
    ),
    Vector(
        "WRITE-20",
        ("Reciprocal",),
        "0.00439453125 / 0.3 is byte 0x07, and times the reciprocal of 0.3 byte 0x08",
        one(bf16_row([0.00439453125], 512, repeat=True), scale=hexed([0.3], "binary32")),
    ),
    Vector(
        "SCALAR-6",
        ("NanEncoded",),
        "NaN of either sign beside 1: 0x7F",
        one(negative_nan(512), negative_nan(64)),
    ),
    Vector(
        "WRITE-20",
        ("Subnormal",),
        "subnormal numbers over a subnormal scale are no zeros",
        one(bf16_row([2.0**-130, -(2.0**-129), 2.0**-133], 512, repeat=True), scale=hexed([2.0**-130], "binary32")),
    ),
    Vector(
        "WRITE-20",
        ("Overflow",),
        "a scale of 2^127, beyond what a fast division divides by",
        one(bf16_row([3.0e38, -1.0e38], 512, repeat=True), scale=hexed([2.0**127], "binary32")),
    ),
    Vector(
        "SCALAR-5",
        ("Saturation", "NanEncoded", "TieToEven"),
        "beyond 448, infinities, NaN, ties",
        one(bf16_row([448.0, 464.0, 480.0, INF, -INF, NAN, 1.0625, 1.1875, TINY / 2], 512, repeat=True)),
    ),
]
