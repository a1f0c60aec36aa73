"""Define vectors of gather_and_maybe_dequant_cache: token_to_seq names each row's request, and arrays may be longer."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from conformance.vectors import golden
from conformance.vectors.record_bytes import HARD_BF16, auto, per_tensor, random_record
from conformance.vectors.vector import Json, Operator, Vector, hexed

NAME = "gather_and_maybe_dequant_cache"
ONE = hexed([1.0], "binary32")
N = 512


def call(
    cache: list[list[str]],
    block_table: list[list[int]],
    cu_seq_lens: list[int],
    token_to_seq: list[int],
    seq_starts: list[int] | None = None,
    **more: Any,
) -> Json:
    """Return the input of a gather of cu_seq_lens[-1] rows, with other arguments from `more`."""
    told = {"src_cache": cache, "block_table": block_table, "cu_seq_lens": cu_seq_lens, "token_to_seq": token_to_seq}
    rows = cu_seq_lens[-1]
    return {**told, "num_tokens": rows, "rows": rows, "scale": ONE, "seq_starts": seq_starts, "n": N, **more}


def _paged(records: list[str], block_size: int) -> list[list[str]]:
    return [records[first : first + block_size] for first in range(0, len(records), block_size)]


def _vectors(records: list[str]) -> list[Vector]:
    """Return the vectors for records of either dtype. `records` holds six records as hex."""
    of_2, of_3 = _paged(records, 2), _paged(records, 3)
    return [
        Vector(
            "TWIN-6",
            ("Basic",),
            "two requests without seq_starts",
            call(of_2, [[2, 0], [1, -1]], [0, 3, 4], [0, 0, 0, 1]),
        ),
        Vector(
            "GATHER-2",
            ("UnalignedStart", "BlockSize"),
            "two requests from tokens 2 and 1 on, in blocks of 3",
            call(of_3, [[1, 0], [0, -1]], [0, 3, 5], [0, 0, 0, 1, 1], [2, 1]),
            "vllm 46114",
        ),
        Vector(
            "TWIN-6",
            ("EmptyRequest", "StaleEntries"),
            "an empty request in the middle and one at the end, whose table rows and starts are -1",
            call(of_2, [[2, 0], [-1, -1], [1, -1], [-1, -1]], [0, 2, 2, 3, 3], [0, 0, 2], [1, -1, 0, -1]),
        ),
        Vector(
            "TWIN-7",
            ("RowsBeyondLengths", "StaleEntries"),
            "dst has 4 rows and token_to_seq 4 entries, of which 2 count",
            call(of_2, [[2, 0]], [0, 2], [0, 0, -1, 5], [1], rows=4),
        ),
        Vector("GATHER-10", ("NothingToDo",), "num_tokens = 0", call(of_2, [[2, 0]], [0, 0], [0], [1], rows=1)),
    ]


_AUTO_RECORDS = [auto((HARD_BF16 + number).astype(np.uint16), N) for number in range(6)]
_FP8_RECORDS = [random_record(N, 200 + number) for number in range(6)]
_WIDE = [per_tensor(np.arange(number, 256 + number) % 256) for number in range(2)]

_VECTORS = {
    "auto": [
        *_vectors(_AUTO_RECORDS),
        Vector(
            "TWIN-8",
            ("CopiedBits", "TensorScale"),
            "records of 576, under a scale that is not used: NaN",
            call(
                [[auto(HARD_BF16)]],
                [[0]],
                [0, 1],
                [0],
                n=576,
                scale=hexed([np.nan], "binary32"),
            ),
        ),
        Vector(
            "PAGE-2",
            ("Strides",),
            "blocks stand further apart than their records take",
            call(_paged(_AUTO_RECORDS, 2), [[2, 0]], [0, 3], [0, 0, 0], [1], strides={"src_cache": [3 * N, N, 1]}),
            "vllm 37032",
        ),
    ],
    "fp8": [
        *_vectors(_FP8_RECORDS),
        Vector(
            "TWIN-9",
            ("TensorScale",),
            "records of 576 under scale 0.0123: latent and RoPE alike",
            call([_WIDE], [[0]], [0, 2], [0, 0], n=576, scale=hexed([0.0123], "binary32")),
        ),
        Vector(
            "GATHER-11",
            ("Malformed",),
            "num_tokens is 3, and dst has 2 rows and token_to_seq 2 entries",
            call(_paged(_FP8_RECORDS, 2), [[2, 0]], [0, 3], [0, 0], rows=2),
            refused=("num_tokens", "dst", "token_to_seq"),
        ),
    ],
}

NOTES = (
    "The call is gather_and_maybe_dequant_cache(src_cache, dst, block_table, cu_seq_lens, token_to_seq, num_tokens,"
    " kv_cache_dtype, scale, seq_starts), kv_cache_dtype being the layout; records and rows are n numbers, and dst "
    "has so many rows. The rest is as for the other gathers: compare every bit of dst, null is a row that is not "
    "written."
)

OPERATORS = [
    Operator(
        NAME,
        NOTES,
        partial(golden.gathered, layout),
        partial(golden.of_the_second_model, NAME, layout),
        vectors,
        layout,
        {
            "src_cache": ("bf16" if layout == "auto" else "u8", ["num_blocks", "block_size", "n"]),
            "dst": ("bf16", ["rows", "n"]),
            "scale": ("binary32", [1]),
        },
    )
    for layout, vectors in _VECTORS.items()
]
