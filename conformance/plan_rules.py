"""PLAN-1 to PLAN-7 as predicates on a plan, without planning: which clause a plan breaks, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from reference.chunks import Chunk


@dataclass(frozen=True)
class Piece:
    """The tokens [start, end) of a request, as piece `place` of chunk `chunk`."""

    chunk: int
    place: int
    request: int
    start: int
    end: int


@dataclass(frozen=True)
class Call:
    """What a planner was asked."""

    context_lens: Sequence[int]
    row_budget: int
    max_context_chunk: int
    split_alignment: int
    padded_rows: Callable[[int], int]


def violations(call: Call, plan: Sequence[Chunk]) -> list[str]:
    """The clauses that a plan breaks, a line each with the first place; none for the plan that SPEC.md leaves."""
    malformed = [
        f"PLAN-4: chunk {number} has {len(chunk.starts)} starts and {len(chunk.seq_lens)} lengths for the requests "
        f"[{chunk.request_start}, {chunk.request_end})"
        for number, chunk in enumerate(plan)
        if not len(chunk.starts) == len(chunk.seq_lens) == chunk.request_end - chunk.request_start > 0
    ]
    if malformed:
        return malformed[:1]
    pieces = [
        Piece(number, place, chunk.request_start + place, start, start + length)
        for number, chunk in enumerate(plan)
        for place, (start, length) in enumerate(zip(chunk.starts, chunk.seq_lens, strict=True))
    ]
    checks = (_coverage, _pieces, _budget, _cuts, _ends)
    return [found for check in checks if (found := next(check(call, plan, pieces), None))]


Found = Iterator[str]


def _coverage(call: Call, plan: Sequence[Chunk], pieces: Sequence[Piece]) -> Found:
    done = [0] * len(call.context_lens)
    for piece in pieces:
        if not 0 <= piece.request < len(done):
            yield f"PLAN-1: chunk {piece.chunk} has request {piece.request} of {len(done)}"
            return
        if piece.start != done[piece.request]:
            yield f"PLAN-1: {_told(piece)} begins at {piece.start} where {done[piece.request]} tokens are done"
        done[piece.request] = piece.end
    for request, (tokens, length) in enumerate(zip(done, call.context_lens, strict=True)):
        if tokens != length:
            yield f"PLAN-1: {tokens} of the {length} tokens of request {request} are in chunks"


def _pieces(call: Call, plan: Sequence[Chunk], pieces: Sequence[Piece]) -> Found:
    for piece in pieces:
        if piece.end <= piece.start:
            yield f"{'PLAN-4' if call.context_lens[piece.request] else 'PLAN-6'}: {_told(piece)} is empty"
        if piece.place > 0 and piece.start > 0:
            yield f"PLAN-5: {_told(piece)} continues a request, and is not its chunk's first"


def _budget(call: Call, plan: Sequence[Chunk], pieces: Sequence[Piece]) -> Found:
    for number, chunk in enumerate(plan):
        rows = sum(call.padded_rows(length) for length in chunk.seq_lens)
        if rows > call.row_budget:
            yield f"PLAN-2: chunk {number} has {rows} rows, the budget is {call.row_budget}"


def _cuts(call: Call, plan: Sequence[Chunk], pieces: Sequence[Piece]) -> Found:
    for piece in pieces:
        length, rest = piece.end - piece.start, call.context_lens[piece.request] - piece.start
        if piece.end == call.context_lens[piece.request]:
            continue
        if length % call.split_alignment or length > call.max_context_chunk:
            yield f"PLAN-3: {_told(piece)} is cut after {length} tokens"
        more = length + call.split_alignment
        room = _room(call, plan[piece.chunk], piece.place)
        if more < rest and more <= call.max_context_chunk and call.padded_rows(more) <= room:
            yield f"PLAN-3: {_told(piece)} is cut after {length} tokens where {more} have room"
        if call.padded_rows(rest) <= room:
            yield f"PLAN-7: {_told(piece)} is cut where all of its request has room"


def _ends(call: Call, plan: Sequence[Chunk], pieces: Sequence[Piece]) -> Found:
    for number, chunk in enumerate(plan):
        last = chunk.request_end - 1
        if chunk.starts[-1] + chunk.seq_lens[-1] < call.context_lens[last]:
            if number + 1 < len(plan) and plan[number + 1].request_start != last:
                yield f"PLAN-1: request {last} is not continued behind chunk {number}"
            continue
        following = chunk.request_end
        if following == len(call.context_lens) or call.context_lens[following] == 0:
            continue
        rest, room = call.context_lens[following], _room(call, chunk, len(chunk.starts))
        part = call.split_alignment
        cuttable = part < rest and part <= call.max_context_chunk and call.padded_rows(part) <= room
        if call.padded_rows(rest) <= room or cuttable:
            yield f"PLAN-7: chunk {number} ends with room for {room} rows, before request {following}"


def _room(call: Call, chunk: Chunk, place: int) -> int:
    return call.row_budget - sum(call.padded_rows(length) for length in chunk.seq_lens[:place])


def _told(piece: Piece) -> str:
    return f"piece {piece.place} of chunk {piece.chunk}, of request {piece.request},"
