"""PLAN-8 to PLAN-19 and SHARD-6 to SHARD-12 as predicates on metadata, without building any."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, takewhile
from math import lcm
from typing import Any

import numpy as np

from conformance import plan_rules
from reference.chunks import Chunk

Fields = Mapping[str, Any]
"""A chunk's fields: numbers, tuples of numbers, and slices as (start, stop)."""


@dataclass(frozen=True)
class Seen:
    """Metadata as numbers and tuples."""

    context_lens: tuple[int, ...]
    empty_token_slices: tuple[tuple[int, int], ...]
    chunks: tuple[Fields, ...]


@dataclass(frozen=True)
class Asked:
    """What the metadata were asked for."""

    context_lens: tuple[int, ...]
    query_start_loc: tuple[int, ...]
    workspace_rows: int
    block_size: int
    align_chunk_to_block: bool
    dcp_world_size: int = 1
    interleave: int = 1

    @property
    def sharded(self) -> bool:
        """Whether SHARD-6 and what follows it count."""
        return self.dcp_world_size > 1

    @property
    def alignment(self) -> int:
        """PLAN's and SHARD-6's."""
        unsharded = self.block_size if self.align_chunk_to_block else 1
        return lcm(unsharded, self.dcp_world_size * self.interleave) if self.sharded else unsharded

    @property
    def row_budget(self) -> int:
        """Of a chunk, on each rank (PLAN-9, SHARD-6)."""
        return self.workspace_rows // self.dcp_world_size

    def padded_rows(self, tokens: int) -> int:
        """SHARD-2."""
        if not self.sharded:
            return tokens
        stripes = -(-tokens // (self.dcp_world_size * self.interleave))
        return stripes * self.interleave


Broken = Iterator[str]

CLAUSE = re.compile(r"[A-Z]+-\d+")


def violations(asked: Asked, seen: Seen | None) -> list[str]:
    """The clauses that metadata break, a line each with the first place; none for what SPEC.md leaves."""
    if seen is None or not any(asked.context_lens):
        right = (seen is None) == (not any(asked.context_lens))
        return [] if right else [f"PLAN-8: the contexts are {asked.context_lens}, and there is {told(seen)}"]
    if malformed := list(_malformed(asked, seen)):
        return malformed[:1]
    lines = [*_plan(asked, seen), *_batch(asked, seen)]
    for number, chunk in enumerate(seen.chunks):
        checks = [_queries(asked, chunk), _rows(chunk), *([_local(asked, chunk)] if asked.sharded else [])]
        lines += [line.replace(": ", f": chunk {number}: ", 1) for check in checks for line in check]
    first = {_clauses(line): line for line in reversed(lines)}
    return [first[clauses] for clauses in sorted(first)]


def told(seen: Seen | None) -> str:
    """Whether there is anything, in words."""
    return "none" if seen is None else f"metadata of {len(seen.chunks)} chunks"


def _clauses(line: str) -> tuple[tuple[str, int], ...]:
    """Those that a line begins with."""
    told = takewhile(CLAUSE.fullmatch, line.split(": "))
    return tuple((chapter, int(number)) for chapter, number in (clause.split("-") for clause in told))


def _malformed(asked: Asked, seen: Seen) -> Broken:
    for number, chunk in enumerate(seen.chunks):
        first, end = chunk["request_slice"]
        if not 0 <= first < end <= len(asked.context_lens):
            yield f"PLAN-10: chunk {number}: request_slice is {first, end} in a batch of {len(asked.context_lens)}"
        elif not len(chunk["starts"]) == len(chunk["seq_lens"]) == end - first:
            entries = f"{len(chunk['starts'])} starts and {len(chunk['seq_lens'])} seq_lens"
            yield f"PLAN-10: chunk {number}: {entries} for request_slice {first, end}"


def _plan(asked: Asked, seen: Seen) -> Broken:
    # The plan's own starts are not among the fields for N > 1: they are the tokens that came before.
    done = [0] * len(asked.context_lens)
    plan = []
    for number, chunk in enumerate(seen.chunks):
        first, end = chunk["request_slice"]
        before = tuple(done[first:end])
        for request, length in zip(range(first, end), chunk["seq_lens"], strict=True):
            done[request] += length
        plan.append(Chunk(first, end, before, chunk["seq_lens"]))
        for name in ("starts", "local_starts") if asked.sharded else ("starts",):
            expected = tuple(asked.padded_rows(tokens) for tokens in before)
            if chunk[name] != expected:
                clause = "SHARD-7" if asked.sharded else "PLAN-10"
                yield f"{clause}: chunk {number}: {name} is {chunk[name]}, after {before} tokens"
        if chunk["is_continuation"] != (before[0] > 0):
            yield f"PLAN-10: chunk {number}: is_continuation is {chunk['is_continuation']}, after {before[0]} tokens"
    most = asked.workspace_rows // asked.alignment * asked.alignment
    call = plan_rules.Call(asked.context_lens, asked.row_budget, most, asked.alignment, asked.padded_rows)
    for line in plan_rules.violations(call, plan):
        yield f"{'SHARD-6' if asked.sharded else 'PLAN-9'}: {line}"


def _batch(asked: Asked, seen: Seen) -> Broken:
    if seen.context_lens != asked.context_lens:
        yield f"PLAN-18: context_lens is {seen.context_lens}"
    at = asked.query_start_loc
    unseen = list(seen.empty_token_slices)
    for request, length in enumerate(asked.context_lens):
        if length == 0 and (not unseen or unseen.pop(0) != (at[request], at[request + 1])):
            yield f"PLAN-19: empty_token_slices is {seen.empty_token_slices}, amiss at request {request}"
    if unseen:
        yield f"PLAN-19: empty_token_slices has {unseen} beyond the requests without context"


def _queries(asked: Asked, chunk: Fields) -> Broken:
    first, end = chunk["request_slice"]
    at = asked.query_start_loc
    if chunk["token_slice"] != (at[first], at[end]):
        yield f"PLAN-12: token_slice is {chunk['token_slice']}, the requests' tokens are {at[first : end + 1]}"
    if chunk["continuation_token_end"] != at[first + 1]:
        yield f"PLAN-13: continuation_token_end is {chunk['continuation_token_end']}, not {at[first + 1]}"
    counted = [place + at[first] for place in chunk["query_start_loc"]]
    if counted != list(at[first : end + 1]):
        yield f"PLAN-14: query_start_loc is {chunk['query_start_loc']} for tokens {at[first : end + 1]}"
    queries = [at[request + 1] - at[request] for request in range(first, end)]
    if not _is_largest(chunk["max_query_len"], queries):
        yield f"PLAN-15: max_query_len is {chunk['max_query_len']} of {queries}"


def _rows(chunk: Fields) -> Broken:
    lengths = chunk["seq_lens"]
    if not _is_largest(chunk["max_seq_len"], lengths):
        yield f"PLAN-15: max_seq_len is {chunk['max_seq_len']} of {lengths}"
    if not _rises_by(chunk["cu_seq_lens"], lengths):
        yield f"PLAN-16: cu_seq_lens is {chunk['cu_seq_lens']} for seq_lens {lengths}"
    if chunk["num_context_tokens"] != sum(lengths):
        yield f"PLAN-16: num_context_tokens is {chunk['num_context_tokens']} for seq_lens {lengths}"
    if not _names_pieces(chunk["token_to_seq"], lengths):
        yield f"PLAN-17: token_to_seq is {chunk['token_to_seq'][:50]} for seq_lens {lengths}"


def _local(asked: Asked, chunk: Fields) -> Broken:
    rows, turn = chunk["padded_local_seq_lens"], (asked.dcp_world_size, asked.interleave)
    if rows != tuple(asked.padded_rows(length) for length in chunk["seq_lens"]):
        yield f"SHARD-8: padded_local_seq_lens is {rows} for seq_lens {chunk['seq_lens']}"
    if not _rises_by(chunk["padded_local_cu_seq_lens"], rows):
        yield f"SHARD-9: padded_local_cu_seq_lens is {chunk['padded_local_cu_seq_lens']} for {rows}"
    if not _names_pieces(chunk["padded_local_token_to_seq"], rows):
        yield f"SHARD-10: padded_local_token_to_seq is {chunk['padded_local_token_to_seq'][:50]} for {rows}"
    contexts = asked.context_lens[slice(*chunk["request_slice"])]
    if chunk["local_context_lens_allranks"] != tuple(_held(length, *turn) for length in contexts):
        yield f"SHARD-11: local_context_lens_allranks is {chunk['local_context_lens_allranks']} for {contexts}"
    if chunk["num_local_context_tokens"] != sum(rows):
        yield f"SHARD-12: num_local_context_tokens is {chunk['num_local_context_tokens']} for {rows}"


def _is_largest(number: int, of: Sequence[int]) -> bool:
    return number in of and all(other <= number for other in of)


def _rises_by(boundaries: Sequence[int], lengths: Sequence[int]) -> bool:
    steps = [after - before for before, after in pairwise(boundaries)]
    return boundaries[:1] == (0,) and steps == list(lengths)


def _names_pieces(pieces: Sequence[int], lengths: Sequence[int]) -> bool:
    counts = Counter(pieces)
    known = all(0 <= piece < len(lengths) for piece in counts)
    return known and [*pieces] == sorted(pieces) and [counts[piece] for piece in range(len(lengths))] == [*lengths]


@cache
def _held(tokens: int, ranks: int, interleave: int) -> tuple[int, ...]:
    """Of that many tokens, how many each rank holds, by asking every token (SHARD-1)."""
    holders = np.arange(tokens) // interleave % ranks
    return tuple(np.bincount(holders, minlength=ranks).tolist())
