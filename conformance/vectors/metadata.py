"""Define vectors of the metadata around a plan, on one rank and on several."""

from __future__ import annotations

from dataclasses import asdict
from itertools import accumulate
from typing import Any

from conformance.metadata import MetadataCase, golden, seen_in
from conformance.metadata_rules import Seen, violations
from conformance.vectors.answers import listed, metadata_asked, metadata_told
from conformance.vectors.golden import Disputed
from conformance.vectors.vector import THIS_SUITE, Json, Operator, Vector


def _metadata(
    clause: str,
    flags: tuple[str, ...],
    comment: str,
    contexts: tuple[int, ...],
    queries: tuple[int, ...],
    rows: int,
    block: int,
    source: str = THIS_SUITE,
    aligned: bool = True,
    ranks: int = 1,
    turn: int = 1,
    refused: tuple[str, ...] = (),
) -> Vector:
    case = MetadataCase(contexts, tuple(accumulate(queries, initial=0)), rows, block, aligned, ranks, turn)
    return Vector(clause, flags, comment, listed(asdict(case)), source, refused)


_TOO_FEW = ("workspace_rows",)
_METADATA = [
    _metadata(
        "PLAN-10",
        ("Basic", "Continuation"),
        "the acceptance test of the original change, an eighth of it",
        (125, 12, 8, 0),
        (8, 4, 6, 5),
        64,
        8,
    ),
    _metadata(
        "PLAN-9",
        ("UnalignedBudget",),
        "a workspace that is no multiple of the block",
        (20, 3),
        (1, 1),
        10,
        4,
        "vllm 46114",
    ),
    _metadata("PLAN-8", ("NoContext",), "no request has context: none", (0, 0, 0), (4, 2, 1), 64, 16, "vllm 53603"),
    _metadata("PLAN-8", ("NoContext",), "nor does the workspace matter then", (0, 0), (4, 2), 15, 16),
    _metadata(
        "PLAN-13",
        ("Continuation",),
        "contexts of twice the budget and 1: continuation_token_end is the first request's end in each chunk",
        (16, 1),
        (3, 2),
        8,
        4,
        "vllm 49294",
    ),
    _metadata(
        "PLAN-19",
        ("NoContext",),
        "a request without context beside one with 5: somebody has to write its tokens",
        (0, 5),
        (2, 3),
        64,
        16,
        "sglang 22291",
    ),
    _metadata(
        "PLAN-12",
        ("ClosedChunk",),
        "requests without context between two that fit together, and queries of all lengths",
        (3, 0, 0, 3),
        (1, 2, 4, 8),
        64,
        16,
    ),
    _metadata("PLAN-15", ("Continuation",), "the longest query is outside of the chunk", (5, 2, 0), (1, 2, 9), 4, 4),
    _metadata("PLAN-14", ("Continuation",), "a request without query tokens", (5, 2, 3), (1, 0, 2), 8, 4),
    _metadata(
        "PLAN-9",
        ("LargestPiece",),
        "align_chunk_to_block is false: cuts anywhere",
        (7, 4),
        (1, 1),
        5,
        4,
        aligned=False,
    ),
    _metadata("PLAN-11", ("TooFewRows",), "15 rows, blocks of 16", (100, 0), (1, 1), 15, 16, refused=_TOO_FEW),
    _metadata(
        "PLAN-11", ("TooFewRows",), "15 rows, where no request need be cut", (5, 0), (1, 1), 15, 16, refused=_TOO_FEW
    ),
    _metadata(
        "SHARD-6",
        ("UnalignedBudget", "PaddedRows"),
        "three ranks, and a workspace that is no multiple of lcm(block, N * I)",
        (50, 5, 4),
        (8, 4, 6),
        31,
        4,
        "vllm 41229",
        ranks=3,
    ),
    _metadata(
        "SHARD-11",
        ("ShortRank",),
        "two ranks, the second short of a token, two chunks",
        (33, 1),
        (2, 2),
        32,
        16,
        "vllm 28514",
        ranks=2,
    ),
    _metadata(
        "PLAN-8", ("NoContext",), "no context over two ranks", (0, 0, 0), (4, 2, 1), 64, 16, "vllm 53603", ranks=2
    ),
    _metadata(
        "SHARD-7",
        ("LocalStart",),
        "starts are a rank's own: half of the tokens before",
        (20, 1),
        (3, 2),
        16,
        4,
        ranks=2,
    ),
    _metadata(
        "SHARD-6",
        ("PaddedRows", "LargestPiece"),
        "two ranks and blocks of 4: the alignment is 4, the least common multiple, and not 8",
        (40, 3),
        (1, 2),
        20,
        4,
        ranks=2,
    ),
    _metadata(
        "SHARD-8",
        ("PaddedRows", "LocalStart"),
        "turns of 3 share no factor with blocks of 4: alignment 12",
        (29, 1, 0, 8),
        (1, 2, 3, 4),
        26,
        4,
        turn=3,
        ranks=2,
    ),
    _metadata(
        "SHARD-10",
        ("ShortRank", "PaddedRows"),
        "eight ranks, most of them without a token: each gathers a row all the same",
        (9, 1, 3),
        (1, 2, 3),
        128,
        16,
        ranks=8,
    ),
    _metadata(
        "PLAN-11",
        ("TooFewRows", "PaddedRows"),
        "47 rows for an alignment of 48: blocks of 16, two ranks, turns of 3",
        (100, 0),
        (1, 1),
        47,
        16,
        refused=_TOO_FEW,
        turn=3,
        ranks=2,
    ),
]


def _made(vector: Vector) -> Json:
    case = metadata_asked(vector.input)
    try:
        answer = golden(case)
    except ValueError as error:
        if any(name in str(error) for name in vector.refused):
            return {"refused": [*vector.refused]}
        raise
    if vector.refused:
        raise Disputed(f"{vector.comment}: not refused")
    return metadata_told(seen_in(answer, case.sharded))


def _against_metadata(vector: Vector, expected: Json) -> list[str]:
    case = metadata_asked(vector.input)
    if "refused" in expected:
        refusable = any(case.context_lens) and case.workspace_rows < case.alignment
        return [] if refusable else ["PLAN-11: a workspace that is large enough is refused"]
    told = _tuples(expected["metadata"])
    return violations(case, None if told is None else Seen(**told))


def _tuples(told: Any) -> Any:
    if isinstance(told, dict):
        return {name: _tuples(one) for name, one in told.items()}
    return tuple(map(_tuples, told)) if isinstance(told, list) else told


NOTES = (
    "The call is build_mla_chunked_context_metadata with the arguments of input in their order. Slices are [start, "
    "stop]. Compare all fields; metadata null is none. A call with refused is to raise an error."
)

OPERATORS = [Operator("build_mla_chunked_context_metadata", NOTES, _made, _against_metadata, _METADATA)]
