"""Define planners that are wrong in one way each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from conformance.faults.defect import Defect
from conformance.faults.planners import FaultyPlanner, Planner, a_plan, at_most, cutting, instead, told
from conformance.plan_rules import Call
from reference.chunks import Chunk

with_an_alignment_of_one = instead(split_alignment=lambda call: 1)
with_a_row_more = instead(row_budget=lambda call: call.row_budget + 1)


def reaching_over_requests_without_context(call: Call) -> list[Chunk]:
    """Return a plan that packs requests as if those without context were not in the batch."""
    kept = [request for request, length in enumerate(call.context_lens) if length]
    dense = a_plan(replace(call, context_lens=[call.context_lens[request] for request in kept]))
    return [replace(c, request_start=kept[c.request_start], request_end=kept[c.request_end - 1] + 1) for c in dense]


def an_empty_piece_for_a_request_without_context(call: Call) -> list[Chunk]:
    """Return a plan in which a chunk also holds the next request if that has no context."""
    lengths = (*call.context_lens, -1)
    return [
        replace(c, request_end=c.request_end + 1, starts=(*c.starts, 0), seq_lens=(*c.seq_lens, 0))
        if lengths[c.request_end] == 0
        else c
        for c in a_plan(call)
    ]


def an_empty_piece_without_room(call: Call) -> list[Chunk]:
    """Return a plan in which a chunk also holds an empty piece of the request that begins in the next one."""
    plan = a_plan(call)
    for number, (chunk, after) in enumerate(pairwise(plan)):
        if (after.request_start, after.starts[0]) == (chunk.request_end, 0):
            requests = (chunk.request_start, chunk.request_end + 1)
            plan[number] = Chunk(*requests, (*chunk.starts, 0), (*chunk.seq_lens, 0))
    return plan


def every_request_a_share(call: Call) -> list[Chunk]:
    """Return a plan of equal shares of every chunk. Raises OverflowError for more than 1,000 chunks."""
    requests = len(call.context_lens)
    if not any(call.context_lens):
        return []
    share = call.row_budget // requests // call.split_alignment * call.split_alignment
    if share * 1000 < max(call.context_lens):
        raise OverflowError("too many chunks")  # these would take a minute to judge and show nothing new
    plan = []
    for start in range(0, max(call.context_lens), share):
        lengths = tuple(max(0, min(share, length - start)) for length in call.context_lens)
        plan.append(Chunk(0, requests, (start,) * requests, lengths))
    return plan


def without_the_last_token(call: Call) -> list[Chunk]:
    """Return a plan whose last piece ends one token early."""
    plan = a_plan(call)
    for last in plan[-1:]:
        plan[-1] = replace(last, seq_lens=(*last.seq_lens[:-1], last.seq_lens[-1] - 1))
    return plan


def from_the_beginning(call: Call) -> list[Chunk]:
    """Return a plan that reads the first tokens of a request again in each continuation."""
    return [replace(chunk, starts=(0,) * len(chunk.starts)) for chunk in a_plan(call)]


def cut_at_the_largest_piece(call: Call) -> list[Chunk]:
    """Return a plan that cuts one long request at max_context_chunk, not at a multiple of the alignment."""
    length, most = max(call.context_lens, default=0), call.max_context_chunk
    if len(call.context_lens) > 1 or length <= call.row_budget or most % call.split_alignment == 0:
        return a_plan(call)
    return [Chunk(0, 1, (start,), (min(most, length - start),)) for start in range(0, length, most)]


def into_one_list() -> FaultyPlanner:
    """Return a planner that returns one list for all calls and overwrites it."""
    plan: list[Chunk] = []

    def planner(call: Call) -> list[Chunk]:
        plan[:] = a_plan(call)
        return plan

    return FaultyPlanner(planner)


def consuming(call: Call) -> list[Chunk]:
    """Return the golden plan, and clear the caller's context_lens if it is a list."""
    plan, lengths = a_plan(call), call.context_lens
    if isinstance(lengths, list):
        lengths.clear()
    return plan


def _in_binary32(lengths: Sequence[int]) -> list[int]:
    return [int(np.float32(length)) for length in lengths]


contexts_in_binary32 = instead(context_lens=lambda call: _in_binary32(call.context_lens))


def _defect(name: str, clause: str, planner: Planner, sentence: str, source: str = "") -> Defect:
    return Defect(name, sentence, clause, "plan", partial(FaultyPlanner, planner), source)


DEFECTS = (
    _defect(
        "last-token-not-planned", "PLAN-1", without_the_last_token, "the last token of the last request is in no piece"
    ),
    _defect(
        "piece-from-the-beginning", "PLAN-1", from_the_beginning, "a request that continues begins at token 0 again"
    ),
    _defect("contexts-in-binary32", "PLAN-1", contexts_in_binary32, "lengths of contexts pass through binary32"),
    _defect("budget-a-row-more", "PLAN-2", with_a_row_more, "a chunk has room for a row more than row_budget"),
    _defect(
        "padding-not-counted",
        "PLAN-2",
        instead(padded_rows=lambda call: lambda tokens: min(tokens, call.padded_rows(tokens))),
        "a row is counted for each token, without the padding of pieces",
    ),
    _defect(
        "cut-unaligned",
        "PLAN-3",
        with_an_alignment_of_one,
        "a request is cut wherever the chunk is full, off the block boundaries",
        "vllm 46114",
    ),
    _defect(
        "largest-piece-ignored",
        "PLAN-3",
        instead(max_context_chunk=lambda call: max(call.max_context_chunk, sum(call.context_lens))),
        "max_context_chunk is ignored",
    ),
    _defect(
        "cut-at-the-largest-piece",
        "PLAN-3",
        cut_at_the_largest_piece,
        "a request is cut at max_context_chunk itself, which is no multiple of the alignment",
    ),
    _defect(
        "cut-short-of-a-full-chunk",
        "PLAN-3",
        cutting(
            lambda piece, run, alignment: piece - alignment if piece > alignment and not run.fits(piece + 1) else piece
        ),
        "a piece that would fill its chunk exactly is cut an alignment shorter",
    ),
    _defect(
        "rows-at-least-the-tokens",
        "PLAN-3",
        instead(padded_rows=lambda call: lambda tokens: max(tokens, call.padded_rows(tokens))),
        "a piece is counted with at least a row a token, though each rank needs fewer",
    ),
    _defect(
        "empty-piece-without-room",
        "PLAN-4",
        an_empty_piece_without_room,
        "a request of which nothing has room gets an empty piece, and begins in the next chunk",
    ),
    _defect(
        "empty-piece-without-context",
        "PLAN-6",
        an_empty_piece_for_a_request_without_context,
        "a request without context gets an empty piece in the chunk before it",
    ),
    _defect(
        "every-request-a-share",
        "PLAN-5",
        every_request_a_share,
        "every request gets the same share of every chunk, so that all of them continue and short ones run dry",
        "vllm 49294",
    ),
    _defect(
        "plan-never-continues",
        "PLAN-5",
        told(is_continuation=lambda said: False),
        "is_continuation of a plan is false throughout",
    ),
    _defect(
        "chunk-over-a-request-without-context",
        "PLAN-6",
        reaching_over_requests_without_context,
        "a request without context closes no chunk, which reaches over it",
    ),
    _defect(
        "budget-a-row-less",
        "PLAN-7",
        instead(row_budget=lambda call: call.row_budget - 1),
        "a chunk has room for a row less than row_budget",
    ),
    _defect("one-request-a-chunk", "PLAN-7", at_most(1), "every request has a chunk of its own"),
    _defect(
        "rest-of-a-chunk-unused",
        "PLAN-7",
        cutting(lambda piece, run, alignment: 0 if run.starts else piece),
        "a request that has no room as a whole waits for the next chunk, though a piece of it has",
    ),
    Defect("plans-in-one-list", "the plan before is overwritten with the next one", "PLAN-22", "plan", into_one_list),
    _defect("context-lens-consumed", "PLAN-23", consuming, "the caller's context_lens are used up"),
)
