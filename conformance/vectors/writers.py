"""Define vectors of concat_and_cache_mla: quantization, and the addresses of records."""

from __future__ import annotations

from functools import partial

import numpy as np

from conformance.vectors import golden
from conformance.vectors.other_writers import AUTO, FP8, FP8_DS_MLA, slots
from conformance.vectors.vector import Operator, Vector, hexed
from conformance.vectors.writer_calls import (
    INF,
    NAN,
    ROPE,
    TIES,
    TINY,
    TOKENS,
    bf16_row,
    call,
    latent,
    negative_nan,
    one,
    rope,
)
from reference.writing import FORMATS

NAME = "concat_and_cache_mla"


_NVFP4 = [
    Vector("WRITE-1", ("Basic",), "a token to each of slots 2 and 1", call(TOKENS[:2], [2, 1])),
    *slots(352),
    Vector(
        "WRITE-2",
        ("PaddingSlot",),
        "nothing but skipped tokens",
        call(TOKENS[:2], [-1, -1]),
        "vllm-ascend 15417",
    ),
    Vector(
        "WRITE-2",
        ("PaddingSlot",),
        "padding around the token of slot 0, which padding that is taken for slot 0 overwrites",
        call(TOKENS, [-1, 0, -1]),
        "ATOM 2008",
    ),
    Vector(
        "WRITE-2",
        ("PaddingSlot", "WideSlot"),
        "slots -2^32 + 3 and -2^63 are negative, and 3 and 0 for whoever looks at 32 bits",
        call(TOKENS, [3 - (1 << 32), 1, -(1 << 63)]),
    ),
    Vector("WRITE-3", ("PaddingSlot",), "kv_c and k_pe are longer than slot_mapping", call(TOKENS, [2])),
    Vector("WRITE-3", ("PaddingSlot",), "kv_c alone is longer", call(TOKENS, [2], k_pe=[ROPE])),
    Vector("WRITE-1", ("BlockSize",), "blocks of 3", call(TOKENS, [4, 2, 3], block_size=3)),
    Vector(
        "WRITE-15", ("TensorScale",), "scale is not used: 0.25", call(TOKENS[:1], [1], scale=hexed([0.25], "binary32"))
    ),
    Vector(
        "SCALAR-3",
        ("NanEncoded", "AmaxNan"),
        "NaN of either sign beside 1: codes and RoPE bytes without a sign",
        one(negative_nan(512), negative_nan(64)),
    ),
    Vector("WRITE-8", ("NothingToDo",), "T = 0", call([], [], k_pe=[])),
    Vector(
        "WRITE-9",
        ("Malformed",),
        "k_pe has a row less than slot_mapping",
        call(TOKENS[:2], [0, 1], k_pe=[ROPE]),
        refused=("k_pe", "slot_mapping"),
    ),
    Vector(
        "RECORD-4",
        ("ScalePermutation", "NibbleOrder"),
        "block s has amax 6 * 2^(s % 8 - 4), in elements that alternate between it and a twelfth of it",
        one(bf16_row(2.0 ** (np.arange(32)[:, None] % 8 - 4) * np.resize([0.5, 6.0], 16), 512)),
        "vllm 55976",
    ),
    Vector(
        "SCALAR-2",
        ("TieToEven",),
        "the ties 0.25 to 5.0 of either sign at scale 1, and their neighbours",
        one(
            latent(
                [6.0, *TIES, *(-tie for tie in TIES)],
                [6.0, *(tie * (1 + 2.0**-7) for tie in TIES), *(tie * (1 - 2.0**-8) for tie in TIES)],
            )
        ),
        "aiter 3992",
    ),
    Vector(
        "WRITE-13",
        ("Reciprocal",),
        "scale 1.875, whose mantissa bits are 111: 9.375, 4.6875 and 2.34375 are ties for a division alone",
        one(latent([11.25, 9.375, 4.6875, 2.34375, -9.375])),
        "flashinfer 5119",
    ),
    Vector(
        "WRITE-12",
        ("ScaleRounding",),
        "amax 0.01177978515625: scale byte 0x01 to nearest, 0x02 up",
        one(latent([0.01177978515625, 0.005])),
    ),
    Vector(
        "WRITE-12",
        ("ScaleRounding", "TieToEven"),
        "amax / 6 halfway between two scales: 1.0625 goes down to 0x38, 1.1875 up to 0x3A; 1.0 is one",
        one(latent([6.375], [7.125], [6.0], [6.03125])),
    ),
    Vector(
        "WRITE-11",
        ("ScaleFloor",),
        "blocks below the least scale, 2^-9, and of zeros: scale byte 0x01, codes from x * 2^9",
        one(latent([TINY, TINY / 2, -TINY], [6 * TINY, TINY], [2.0**-126], [0.0], [-0.0, 0.0, -0.0])),
        "vllm 55538",
    ),
    Vector(
        "WRITE-12",
        ("Saturation",),
        "amax 2,688, just above, and far beyond: scale byte 0x7E, and then the codes saturate",
        one(latent([2688.0, 448.0], [2704.0, 448.0], [65536.0, 2688.0, -100.0], [3.3e38, 1.0])),
    ),
    Vector(
        "WRITE-10",
        ("AmaxNan", "NanEncoded"),
        "a NaN among numbers, a block of NaN, and NaN beside an infinity",
        one(latent([NAN, 1.0, -2.0], [NAN] * 16, [NAN, INF, 1.0])),
    ),
    Vector(
        "WRITE-10",
        ("AmaxNan", "Saturation"),
        "infinities count for amax: scale byte 0x7E, and what stands beside them is nearly 0",
        one(latent([INF, 1.0, -2.0], [-INF, INF, 3.0])),
    ),
    Vector(
        "WRITE-14",
        ("Saturation", "TieToEven", "NanEncoded", "NegativeZero"),
        "RoPE 448, 464, 466, infinities, NaN, zeros, subnormals of e4m3 and their ties, of either sign",
        one(
            k_pe=rope(
                *(
                    sign * number
                    for sign in (1, -1)
                    for number in (448.0, 464.0, 466.0, INF, NAN, 0.0, TINY, TINY / 2, 1.5 * TINY, TINY / 4, 1.0625)
                )
            )
        ),
    ),
    Vector(
        "WRITE-13",
        ("NegativeZero",),
        "-0 and numbers that round to zero keep their sign",
        one(latent([6.0, -0.0, -0.25, 0.25, -0.01, 0.01])),
    ),
]

_VECTORS = {"nvfp4_ds_mla": _NVFP4, "fp8_ds_mla": FP8_DS_MLA, "auto": AUTO, "fp8": FP8}

NOTES = (
    "The call is concat_and_cache_mla(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale), kv_cache_dtype "
    "being the layout and kv_cache [num_blocks, block_size] records. Quantizing has several right answers: of "
    "expected.kv_cache the member whose profiles has the writer's counts (reference/profiles.py; vllm-0.33 is what "
    "vLLM's releases write). Compare every byte of its records; null is a record that still holds what it held "
    "before the call. strides, in elements, are those of arrays that are not packed. A call with refused is to "
    "raise an error that names one of these arguments."
)

OPERATORS = [
    Operator(
        NAME,
        NOTES,
        partial(golden.written, layout),
        partial(golden.of_the_second_model, NAME, layout),
        vectors,
        layout,
        {
            "kv_c": ("bf16", [">= T", 512]),
            "k_pe": ("bf16", [">= T", 64]),
            "records": ("bf16" if layout == "auto" else "u8", ["num_blocks", "block_size", FORMATS[layout].width]),
            "scale": ("binary32", [1]),
        },
    )
    for layout, vectors in _VECTORS.items()
]
