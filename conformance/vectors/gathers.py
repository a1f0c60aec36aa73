"""Define vectors of the gathers of nvfp4_ds_mla and fp8_ds_mla."""

from __future__ import annotations

from functools import partial
from typing import Any

from conformance.vectors import golden
from conformance.vectors.record_bytes import random_record
from conformance.vectors.vector import Json, Operator, Vector
from reference.context import LAYOUTS

NBYTES = {"nvfp4_ds_mla": 352, "fp8_ds_mla": 656}
OF = {"nvfp4_ds_mla": "cp_gather_and_upconvert_nvfp4_kv_cache", "fp8_ds_mla": "cp_gather_and_upconvert_fp8_kv_cache"}
LARGEST_INT32 = (1 << 31) - 1
NAN = "7f"


class Pool:
    """Make caches of random records. All vectors of a file share a few records."""

    def __init__(self, nbytes: int) -> None:
        """Set the bytes of a record."""
        self.nbytes = nbytes

    def cache(self, blocks: int, block_size: int, nan: tuple[int, ...] = ()) -> list[list[str]]:
        """Return a cache of records 0, 1, ... as hex: `blocks` lists of `block_size` records.

        The records with a number in `nan` hold 0x7F in each byte.

        Returns:
            Nested lists [blocks][block_size] of hex.

        """
        records = [
            NAN * self.nbytes if number in nan else random_record(self.nbytes, 100 + number)
            for number in range(blocks * block_size)
        ]
        return [records[first : first + block_size] for first in range(0, len(records), block_size)]


def call(
    cache: list[list[str]],
    block_table: list[list[int]],
    workspace_starts: list[int],
    rows: int,
    seq_starts: list[int] | None = None,
    **more: Any,
) -> Json:
    """Return the input of a gather with one request for each row of the table, and other arguments from `more`."""
    told = {"src_cache": cache, "block_table": block_table, "workspace_starts": workspace_starts}
    return {**told, "batch_size": len(block_table), "seq_starts": seq_starts, "rows": rows, **more}


def _essential(pool: Pool) -> list[Vector]:
    """Return the vectors that every gather of paged records has to pass."""
    of_2, of_3 = pool.cache(3, 2), pool.cache(3, 3)
    unaligned = "one request of 4 tokens from token {} on, in blocks of 3"
    return [
        Vector("GATHER-3", ("Basic",), "no seq_starts: tokens 0, 1 and 2", call(of_2, [[2, 0]], [0], 3)),
        Vector("GATHER-2", ("Basic",), "a start of 0 is none", call(of_2, [[2, 0]], [0], 3, [0])),
        *(
            Vector("GATHER-2", ("UnalignedStart",), unaligned.format(start), call(of_3, [[1, 2, 0]], [0], 4, [start]))
            for start in (1, 2, 3, 4)
        ),
        Vector(
            "GATHER-2",
            ("LastColumn", "StaleEntries"),
            "start and length end exactly with the last column, and what stands behind the table's rows is -1",
            call(of_2, [[0, 1], [2, 0]], [0, 3], 5, [1, 2], strides={"block_table": [3, 1]}),
            "vllm 27909",
        ),
        Vector(
            "GATHER-1",
            ("EmptyRequest", "UnalignedStart"),
            "an empty request between two: it shares its start with the last one",
            call(of_2, [[0, 1], [-1, -1], [2, 0]], [0, 3, 3], 5, [1, -1, 1]),
        ),
        Vector("GATHER-10", ("NothingToDo",), "T = 0", call(of_2, [[0, 1]], [0], 0, [1]), "sglang 34455"),
        Vector("GATHER-10", ("NothingToDo",), "R = 0: nothing is written", call(of_2, [], [], 2, [])),
        Vector(
            "GATHER-1",
            ("RowsBeyondLengths",),
            "T is above the sum of lengths 2 and 1: the last request owns the rest, and has columns for it",
            call(of_2, [[0, -1], [2, 1]], [0, 2], 5, [0, 1]),
            "sglang 34455",
        ),
        Vector(
            "PAGE-2",
            ("Strides",),
            "blocks stand further apart than their records take",
            call(of_2, [[2, 0]], [0], 3, [1], strides={"src_cache": [3 * pool.nbytes, pool.nbytes, 1]}),
            "vllm 37032",
        ),
        Vector(
            "GATHER-11",
            ("Malformed",),
            "batch_size is 3, and there are the rows and starts of 2 requests",
            call(of_2, [[0, 1], [2, 0]], [0, 2], 3, batch_size=3),
            refused=("batch_size", "block_table", "workspace_starts"),
        ),
    ]


def _more(pool: Pool) -> list[Vector]:
    """Return further vectors, of inputs that broke gathers, for nvfp4_ds_mla only."""
    of_1, of_2, of_3, of_4 = pool.cache(12, 1), pool.cache(6, 2), pool.cache(4, 3), pool.cache(3, 4)
    nan_rest = pool.cache(3, 4, nan=(2, 3, 8, 9, 10, 11))
    stale = [[0, 1], [-1, -1], [2, -1], [-1, -1]]
    return [
        Vector(
            "GATHER-2",
            ("FarStart",),
            "four short requests beside one that starts at token 37, with columns that no row needs",
            call(
                of_1,
                [[number] + [-1] * 39 for number in range(4)] + [[-1] * 37 + [9, 11, 10]],
                [0, 1, 2, 3, 4],
                7,
                [0, 0, 0, 0, 37],
            ),
            "vllm 45462",
        ),
        Vector(
            "GATHER-2",
            ("UnalignedStart", "UnalignedBudget"),
            "the second chunk of a context of 8 tokens read 3 rows at a time, in blocks of 4",
            call(of_4, [[2, 0]], [0], 3, [3]),
            "vllm 46114",
        ),
        Vector(
            "GATHER-2",
            ("UnalignedStart",),
            "three requests whose starts are unaligned in three ways: 1, block size - 1, block size + 1",
            call(of_2, [[0, 1, 5], [1, 2, 3], [4, 5, 0]], [0, 2, 4], 6, [1, 1, 3]),
        ),
        Vector(
            "GATHER-1",
            ("EmptyRequest",),
            "the first request is empty: both have workspace_starts 0",
            call(of_2, [[-1, -1], [1, 0]], [0, 0], 3, [7, 0]),
        ),
        Vector(
            "GATHER-1",
            ("EmptyRequest", "StaleEntries"),
            "the last two requests are empty: they start at T",
            call(of_2, [[1, 0], [-1, -1], [-1, -1]], [0, 3, 3], 3, [0, -1, 5]),
        ),
        Vector(
            "GATHER-1",
            ("EmptyRequest", "StaleEntries"),
            "of four requests two are empty, in the middle and last, with table rows and starts of -1",
            call(of_2, stale, [0, 3, 3, 4], 4, [1, -1, 1, -1]),
        ),
        Vector(
            "GATHER-1",
            ("EmptyRequest", "RowsBeyondLengths"),
            "workspace_starts far beyond T, up to 2^31 - 1",
            call(of_2, [[1, 0], [-1, -1], [-1, -1]], [0, 1_000_000, LARGEST_INT32], 3, [1, 0, 0]),
        ),
        Vector(
            "GATHER-1",
            ("RowsBeyondLengths",),
            "T is below the sum of lengths 3, 2 and 2: the last request's start is no row",
            call(of_2, [[0, 1], [2, 3], [-1, -1]], [0, 3, 5], 4, [0, 1, 0]),
            "sglang 34455",
        ),
        Vector(
            "GATHER-4",
            ("StaleEntries",),
            "workspace_starts has R + 1 entries, as cu_seq_lens has, and block_table and seq_starts one more too",
            call(of_2, [[0, 1], [2, 3], [-1, -1]], [0, 2, 0], 4, [0, 1, -1], batch_size=2),
        ),
        Vector(
            "GATHER-8",
            ("Strides", "SharedBlocks"),
            "one table row serves all requests: a row stride of 0",
            call(of_2, [[3, 1], [3, 1], [3, 1]], [0, 1, 3], 5, [3, 0, 1], strides={"block_table": [0, 1]}),
        ),
        Vector(
            "PAGE-5",
            ("SharedBlocks",),
            "two requests with a common prefix, and one block in two columns of a third",
            call(of_2, [[5, 0], [5, 1], [2, 2]], [0, 3, 6], 10),
        ),
        Vector(
            "PAGE-2",
            ("Strides",),
            "records outermost: record i of block b stands at (i * blocks + b)",
            call(of_2, [[4, 1]], [0], 3, [1], strides={"src_cache": [352, 6 * 352, 1]}),
        ),
        Vector(
            "PAGE-2",
            ("Strides",),
            "records 16 bytes apart, with NaN between them",
            call(of_2, [[4, 1]], [0], 3, [1], strides={"src_cache": [2 * 368 + 16, 368, 1]}),
        ),
        Vector(
            "GATHER-6",
            ("Strides", "RowsBeyondLengths"),
            "dst is a slice of a workspace of twice the width: columns from 576 on are not written",
            call(of_2, [[4, 1]], [0], 3, [1], strides={"dst": [1152, 1]}),
        ),
        Vector(
            "PAGE-4",
            ("ForeignNan",),
            "the rest of a last page is 0x7F, bytes that read as NaN",
            call(nan_rest, [[0], [1]], [0, 2], 5, [0, 1]),
            "flashinfer 941",
        ),
        Vector(
            "PAGE-4",
            ("ForeignNan", "UnalignedStart"),
            "the records before an unaligned start, and those of a block that nobody uses, are NaN",
            call(pool.cache(3, 2, nan=(0, 4, 5)), [[0, 1]], [0], 2, [1]),
            "sglang 32477",
        ),
        Vector(
            "READ-4",
            ("NanScale",),
            "a record that is all NaN between two that are not",
            call(pool.cache(2, 2, nan=(1,)), [[0, 1]], [0], 3),
        ),
        Vector(
            "GATHER-8",
            ("Strides",),
            "strides that are never used, of one block, one request and one row, are any numbers",
            call(
                pool.cache(1, 2),
                [[0]],
                [0],
                1,
                [1],
                strides={"src_cache": [3, 352, 1], "block_table": [7, 1], "dst": [5, 1]},
            ),
        ),
        Vector("PAGE-1", ("BlockSize",), "blocks of 1", call(of_1, [[7, 0, 11, 3]], [0], 3, [1])),
        Vector("PAGE-1", ("BlockSize",), "blocks of 3", call(of_3, [[1, 3]], [0], 4, [2])),
    ]


NOTES = (
    "src_cache is [num_blocks][block_size] records and dst [rows] rows, T = rows. The call is "
    "cp_gather_...(src_cache, dst, block_table, workspace_starts, batch_size, seq_starts); seq_starts null is none."
    " strides, in elements, are those of the arrays that are not packed. Compare every bit of dst; null is a row "
    "that still holds what it held before the call. A call with refused is to raise an error that names one of "
    "these arguments, with nothing written."
)


def _operator(layout: str, vectors: list[Vector]) -> Operator:
    return Operator(
        OF[layout],
        NOTES,
        partial(golden.gathered, layout),
        partial(golden.of_the_second_model, OF[layout], layout),
        vectors,
        layout,
        {
            "src_cache": ("u8", ["num_blocks", "block_size", NBYTES[layout]]),
            "dst": ("bf16", ["rows", LAYOUTS[layout].row]),
        },
    )


_POOLS = {layout: Pool(nbytes) for layout, nbytes in NBYTES.items()}

OPERATORS = [
    _operator("nvfp4_ds_mla", [*_essential(_POOLS["nvfp4_ds_mla"]), *_more(_POOLS["nvfp4_ds_mla"])]),
    _operator("fp8_ds_mla", _essential(_POOLS["fp8_ds_mla"])),
]
