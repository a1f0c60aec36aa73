"""Define vectors of sharding: the rank that holds each token of a request, and the token's index there."""

from __future__ import annotations

import numpy as np

from conformance.vectors.vector import THIS_SUITE, Json, Operator, Vector
from reference.shards import Sharding


def _shards(
    clause: str,
    flags: tuple[str, ...],
    comment: str,
    tokens: int,
    ranks: int,
    turn: int,
    start: int,
    source: str = THIS_SUITE,
) -> Vector:
    given = {"tokens": tokens, "dcp_world_size": ranks, "interleave": turn, "piece_start": start}
    return Vector(clause, flags, comment, given, source)


_VECTORS = [
    _shards("SHARD-1", ("Basic",), "two ranks take turns of one token", 7, 2, 1, 4),
    _shards("SHARD-1", ("LocalStart",), "two ranks take turns of two tokens, the last turn cut short", 9, 2, 2, 4),
    _shards(
        "SHARD-2",
        ("ShortRank", "PaddedRows"),
        "one token over: every rank gathers a row for it",
        33,
        2,
        1,
        32,
        "vllm 28514",
    ),
    _shards("SHARD-2", ("PaddedRows",), "one token on eight ranks: seven gather nothing but padding", 1, 8, 1, 0),
    _shards("SHARD-1", ("ShortRank",), "three ranks, turns of 4, the second rank's turn cut short", 18, 3, 4, 12),
    _shards("SHARD-1", ("Basic",), "one rank holds all, whatever its turns", 5, 1, 3, 3),
    _shards(
        "SHARD-7",
        ("LocalStart", "UnalignedStart"),
        "a local start that no block of 4 aligns: 6 tokens before are 3 rows",
        12,
        2,
        1,
        6,
    ),
]


def _located(vector: Vector) -> Json:
    given = vector.input
    sharding, tokens = Sharding(given["dcp_world_size"], given["interleave"]), np.arange(given["tokens"])
    piece = given["tokens"] - given["piece_start"]
    return {
        "rank": sharding.rank_of(tokens).tolist(),
        "local_index": sharding.local_index(tokens).tolist(),
        "local_lens": [sharding.local_length(given["tokens"], rank) for rank in range(sharding.ranks)],
        "local_start": sharding.padded_rows(given["piece_start"]),
        "padded_rows": sharding.padded_rows(piece),
        "gathered_row": [
            [int(sharding.rank_of(tokens)[j]), int(sharding.local_index(tokens)[j])] for j in range(piece)
        ],
    }


def _by_dealing(vector: Vector, expected: Json) -> list[str]:
    """Return the differences to an answer that deals tokens out to the ranks one by one, as lines."""
    ranks, turn = vector.input["dcp_world_size"], vector.input["interleave"]
    hands = _dealt(vector.input["tokens"], ranks, turn)
    places = {token: (rank, place) for rank, hand in enumerate(hands) for place, token in enumerate(hand)}
    tokens = range(vector.input["tokens"])
    start = vector.input["piece_start"]
    piece = _dealt(len(tokens) - start, ranks, turn)
    rows = {token: [rank, place] for rank, hand in enumerate(piece) for place, token in enumerate(hand)}
    found = {
        "rank": [places[token][0] for token in tokens],
        "local_index": [places[token][1] for token in tokens],
        "local_lens": [len(hand) for hand in hands],
        "local_start": len(_dealt(start, ranks, turn)[0]),  # a piece starts where every rank's turn is over
        "padded_rows": _whole_turns(len(piece[0]), turn),
        "gathered_row": [rows[token] for token in range(len(tokens) - start)],
    }
    return [f"{name}: dealt {found[name]}, not {expected[name]}" for name in found if found[name] != expected[name]]


def _dealt(tokens: int, ranks: int, turn: int) -> list[list[int]]:
    hands: list[list[int]] = [[] for _ in range(ranks)]
    rank = 0
    for token in range(tokens):
        hands[rank].append(token)
        if len(hands[rank]) % turn == 0:
            rank = (rank + 1) % ranks
    return hands


def _whole_turns(rows: int, turn: int) -> int:
    """Return the rows of rank 0, which holds most tokens, with its last turn filled up."""
    while rows % turn:
        rows += 1
    return rows


NOTES = (
    "Of a request's tokens 0 to tokens - 1: rank is the rank that holds each, local_index its number among that "
    "rank's own, local_lens how many each rank has. Of its last piece, from piece_start on: local_start is the "
    "start of every rank's gather, padded_rows the rows of each, and gathered_row the [rank, row] of those gathers "
    "that each token of the piece is in. Compare all."
)

OPERATORS = [Operator("shards_of_context", NOTES, _located, _by_dealing, _VECTORS)]
