"""Define vectors of the read of one record: nvfp4_ds_mla, fp8_ds_mla, "auto" and "fp8"."""

from __future__ import annotations

from functools import partial

import numpy as np

from conformance.vectors import golden
from conformance.vectors.record_bytes import (
    BLOCKS,
    CODES,
    E4M3_1_125,
    HARD_BF16,
    ONE,
    ROUNDED_TWICE,
    TWO,
    auto,
    fp8_ds_mla,
    nvfp4,
    per_tensor,
    random_record,
)
from conformance.vectors.vector import Operator, Vector, hexed

_NVFP4 = (
    Vector("READ-1", ("Basic",), "code 2 under scale 1 everywhere: 1.0", {"record": nvfp4()}),
    Vector(
        "RECORD-4",
        ("ScalePermutation",),
        "each block has a scale of its own, 0x20 + its number: no two scales may change places",
        {"record": nvfp4(scales=0x20 + BLOCKS)},
        "vllm 50084",
    ),
    Vector(
        "RECORD-4",
        ("ScalePermutation",),
        "block s is scaled to magnitude 6 * 2^(s % 8): the inverse permutation gives other magnitudes",
        {"record": nvfp4(codes=7, scales=ONE + 8 * (BLOCKS % 8))},
        "vllm 55976",
    ),
    Vector(
        "RECORD-4",
        ("ScalePermutation",),
        "byte 321 alone is not zero: the scale of block 4",
        {"record": nvfp4(scales=np.where(BLOCKS == 4, ONE, 0))},
    ),
    Vector(
        "RECORD-2",
        ("NibbleOrder",),
        "even elements have code 1, odd ones 6: exchanged nibbles cannot cancel",
        {"record": nvfp4(codes=[1, 6])},
        "vllm 50085",
    ),
    Vector(
        "RECORD-2",
        ("NibbleOrder",),
        "byte 0 is 0x21 and all others 0: 0.5 in element 0, 1.0 in element 1",
        {"record": nvfp4(codes=np.where(np.arange(512) < 2, np.arange(512) + 1, 0))},
    ),
    Vector(
        "SCALAR-1",
        ("EveryCode", "NegativeZero"),
        "all 16 codes under scales 0x00 to 0x1F: zeros, subnormals and the smallest normal scales",
        {"record": nvfp4(CODES, BLOCKS)},
    ),
    Vector(
        "READ-3",
        ("NegativeZero",),
        "codes 0 and 8 under scales of either sign and both zeros: -0 where exactly one factor is negative",
        {"record": nvfp4([0, 8], [0x00, 0x80, ONE, 0xB8], [0x80, 0x00])},
    ),
    Vector(
        "READ-4",
        ("NanScale",),
        "scales 0x7F and 0xFF beside finite ones, under every code: NaN whatever the code, zero included, 0x7FFF each",
        {"record": nvfp4(CODES, [0x7F, ONE, 0xFF, ONE, ONE])},
    ),
    Vector(
        "READ-1",
        ("Subnormal",),
        "the subnormal scales 0x01 to 0x07: 2^-9 to 7 * 2^-9",
        {"record": nvfp4(CODES, [1, 2, 3, 4, 5, 6, 7, 0x87])},
    ),
    Vector(
        "READ-1",
        ("Saturation",),
        "the largest product, 6 * 448 = 2,688, of either sign, and 0.5 * 2^-9, the smallest",
        {"record": nvfp4([7, 15, 1, 9], [0x7E, 0xFE, 0x01, 0x81])},
    ),
    Vector(
        "READ-5",
        ("RopeNan",),
        "RoPE bytes 0x7F and 0xFF: 0x7FFF; their neighbours 0x7E and 0xFE are 448 and -448",
        {"record": nvfp4(rope=[0x7F, 0x7E, 0xFF, 0xFE, ONE])},
    ),
    Vector(
        "READ-3",
        ("NegativeZero", "Subnormal"),
        "RoPE bytes 0x80 to 0x8F and 0x00 to 0x0F: -0, subnormals of either sign, the smallest normal numbers",
        {"record": nvfp4(rope=[*range(0x80, 0x90), *range(16)])},
    ),
    Vector(
        "READ-2",
        ("RopeUnscaled",),
        "all scales NaN: the RoPE elements are as they were",
        {"record": nvfp4(scales=0x7F, rope=np.arange(64) + 0x10)},
    ),
    Vector("READ-1", ("EveryCode",), "random bytes", {"record": random_record(352, 1)}),
)

_FP8 = (
    Vector("TWIN-2", ("Basic",), "1.0 everywhere", {"record": fp8_ds_mla()}),
    Vector(
        "WRITE-16",
        ("ScalePermutation",),
        "the tiles have scales 1, 2, 4 and 8, and the latent bytes count up: tiles of 128, little endian",
        {"record": fp8_ds_mla(np.arange(512) % 127, [1.0, 2.0, 4.0, 8.0])},
    ),
    Vector(
        "TWIN-2",
        ("PowerOfTwoScale",),
        "scale 0.75, of a tile with amax 336: a reader that keeps the exponent alone sees 0.5",
        {"record": fp8_ds_mla([0x7E, ONE], 0.75)},
        "vllm 49435",
    ),
    Vector(
        "TWIN-2",
        ("TwoRoundings",),
        "1.125 times scales whose product is next to a tie of bf16: rounded to binary32 first it is the tie",
        {"record": fp8_ds_mla(E4M3_1_125, ROUNDED_TWICE)},
    ),
    Vector(
        "TWIN-4",
        ("NanScale", "InfiniteProduct"),
        "scales NaN, inf, -inf and 1 over bytes 0, -0, 1 and NaN: 0 * inf is NaN, each NaN 0x7FFF",
        {"record": fp8_ds_mla([0x00, 0x80, ONE, 0x7F], [np.nan, np.inf, -np.inf, 1.0])},
    ),
    Vector(
        "TWIN-2",
        ("InfiniteProduct",),
        "products beyond binary32, and such as only bf16 rounds to infinity",
        {"record": fp8_ds_mla([0x7E, ONE], [3.0e38, -1.0e36, 3.4e38, 1.5e38])},
    ),
    Vector(
        "TWIN-2",
        ("Subnormal",),
        "products that are subnormal in binary32 and in bf16, of scales that are, and a product of the least of both",
        {"record": fp8_ds_mla([0x01, 0x08, ONE, 0x7E], [2.0**-130, 2.0**-149, 2.0**-126, -(2.0**-140)])},
    ),
    Vector(
        "TWIN-4",
        ("NegativeZero",),
        "zeros of either sign under scales of either sign, zero included",
        {"record": fp8_ds_mla([0x00, 0x80, ONE, 0xB8], [1.0, -1.0, 0.0, -0.0])},
    ),
    Vector(
        "TWIN-3",
        ("CopiedBits",),
        "RoPE elements of every kind: signalling and negative NaN and subnormals stay as they are",
        {"record": fp8_ds_mla(rope=HARD_BF16)},
    ),
    Vector("TWIN-2", ("EveryCode",), "random bytes", {"record": random_record(656, 2)}),
)

_AUTO = (
    Vector(
        "TWIN-8",
        ("CopiedBits",),
        "576 bf16 of every kind, bit for bit",
        {"record": auto(HARD_BF16), "n": 576},
    ),
    Vector(
        "TWIN-8",
        ("Basic",),
        "512 bf16 that count up",
        {"record": auto(np.arange(0x3F80, 0x4180, dtype=np.uint16), 512), "n": 512},
    ),
)

_PER_TENSOR = (
    Vector(
        "TWIN-9",
        ("EveryCode", "NanEncoded"),
        "every byte under scale 1, NaN as 0x7FFF",
        {"record": per_tensor(np.arange(256)), "n": 576, "scale": hexed([1.0], "binary32")},
    ),
    Vector(
        "TWIN-9",
        ("TensorScale",),
        "scale 0.25 over all 576 elements, RoPE too",
        {"record": per_tensor([ONE, TWO, 0xB8]), "n": 576, "scale": hexed([0.25], "binary32")},
    ),
    Vector(
        "TWIN-9",
        ("TwoRoundings",),
        "1.125 times a scale whose product is next to a tie of bf16",
        {
            "record": per_tensor([E4M3_1_125, 0xB9, ONE], 512),
            "n": 512,
            "scale": hexed(ROUNDED_TWICE[:1].view("f4"), "binary32"),
        },
    ),
    Vector(
        "TWIN-9",
        ("InfiniteProduct",),
        "a scale under which products are infinite",
        {"record": per_tensor([0x7E, ONE, 0xFE, 0x00], 512), "n": 512, "scale": hexed([3.0e38], "binary32")},
    ),
    Vector(
        "TWIN-9",
        ("Subnormal", "NegativeZero"),
        "a scale that is subnormal",
        {"record": per_tensor([ONE, 0x7E, 0x80, 0x01], 512), "n": 512, "scale": hexed([2.0**-135], "binary32")},
    ),
)

_SHAPES = {"nvfp4_ds_mla": (352, 576), "fp8_ds_mla": (656, 576), "auto": ("2 n", "n"), "fp8": ("n", "n")}
_VECTORS = {"nvfp4_ds_mla": _NVFP4, "fp8_ds_mla": _FP8, "auto": _AUTO, "fp8": _PER_TENSOR}

NOTES = (
    "Read the record as the bf16 of a gathered row: latent elements, then RoPE elements. Compare every bit of row; "
    "an implementation that declares that its NaN is any NaN may have another NaN where a NaN was converted."
)

OPERATORS = [
    Operator(
        "read_record",
        NOTES,
        partial(golden.row_of, layout),
        partial(golden.of_the_second_model, "read_record", layout),
        vectors,
        layout,
        {
            "record": ("u8", [_SHAPES[layout][0]]),
            "row": ("bf16", [_SHAPES[layout][1]]),
            **({"scale": ("binary32", [1])} if layout == "fp8" else {}),
        },
    )
    for layout, vectors in _VECTORS.items()
]
