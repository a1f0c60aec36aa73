"""Builders of metadata that are wrong in one way each, and the clause that each of them breaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import patch

from conformance.metadata import LOCAL_CLAUSE_OF, MetadataCase, golden
from conformance.plans import PlanCase
from conformance.selfcheck.test_chunks import (
    every_request_a_share,
    reaching_over_requests_without_context,
    with_a_row_more,
    with_an_alignment_of_one,
)
from conformance.targets.models import NumpyTarget
from conformance.workspaces import WorkspaceCase
from conformance.workspaces import golden as golden_rows
from reference import context_metadata
from reference.chunks import Chunk, plan_mla_context_chunks

Builder = Callable[[MetadataCase], Any]


class Faulty(NumpyTarget):
    """A target whose metadata come from a function of the case."""

    def __init__(self, builder: Builder) -> None:
        super().__init__()
        self.builder = builder

    def build_mla_chunked_context_metadata(self, context_lens: Any, query_start_loc: Any, *others: Any) -> Any:
        return self.builder(MetadataCase(tuple(context_lens), tuple(query_start_loc), *others))


class FaultyRows(NumpyTarget):
    """A target whose workspaces come from a function of the case."""

    def __init__(self, rows: Callable[[WorkspaceCase], int]) -> None:
        super().__init__()
        self.rows = rows

    def determine_chunked_prefill_workspace_size(self, *arguments: Any) -> int:
        return self.rows(WorkspaceCase(*arguments))


def loosened(case: MetadataCase) -> Any:
    """The right metadata, none or with fields that can be changed."""
    answer = golden(case)
    if answer is None:
        return None
    chunks = [SimpleNamespace(**{n: getattr(c, n) for n in LOCAL_CLAUSE_OF if hasattr(c, n)}) for c in answer.chunks]
    return SimpleNamespace(**{**vars(answer), "chunks": chunks})


def changed(change: Callable[[MetadataCase, Any], None]) -> Builder:
    """The right metadata, with something done to them."""

    def build(case: MetadataCase) -> Any:
        answer = loosened(case)
        if answer is not None:
            change(case, answer)
        return answer

    return build


def each(change: Callable[[MetadataCase, Any], None]) -> Builder:
    """The right metadata, with something done to each chunk."""

    def change_all(case: MetadataCase, answer: Any) -> None:
        for chunk in answer.chunks:
            change(case, chunk)

    return changed(change_all)


def planned(planner: Callable[[PlanCase], list[Chunk]]) -> Builder:
    """Metadata around the plan of a planner that is wrong."""

    def plan(lens: Sequence[int], budget: int, most: int, alignment: int, padded_rows: Any) -> list[Chunk]:
        return planner(PlanCase(tuple(lens), budget, most, alignment))

    def build(case: MetadataCase) -> Any:
        with patch.object(context_metadata, "plan_mla_context_chunks", plan):
            return golden(case)

    return build


def an_empty_piece_for_a_request_without_context(case: PlanCase) -> list[Chunk]:
    """Takes the request behind a chunk along if it has no context."""
    lengths = (*case.context_lens, -1)
    return [
        replace(c, request_end=c.request_end + 1, starts=(*c.starts, 0), seq_lens=(*c.seq_lens, 0))
        if lengths[c.request_end] == 0
        else c
        for c in plan_mla_context_chunks(*case.arguments)
    ]


def global_starts(case: MetadataCase, answer: Any, names: Sequence[str] = ("starts", "local_starts")) -> None:
    done = [0] * len(case.context_lens)
    for chunk in answer.chunks:
        starts = []
        for place, length in enumerate(chunk.seq_lens):
            starts.append(done[chunk.request_slice.start + place])
            done[chunk.request_slice.start + place] += length
        for name in names:
            setattr(chunk, name, starts)


def undivided_budget(case: MetadataCase) -> Any:
    return golden(replace(case, workspace_rows=case.workspace_rows * case.dcp_world_size))


def whole_lengths(case: MetadataCase, chunk: Any) -> None:
    mine = [chunk.local_context_lens_allranks[place][0] for place in range(len(chunk.seq_lens))]
    chunk.padded_local_seq_lens = [min(n, rows) for n, rows in zip(mine, chunk.padded_local_seq_lens, strict=True)]


def held_of_the_piece(case: MetadataCase, chunk: Any) -> None:
    as_context = golden(replace(case, context_lens=chunk.seq_lens, query_start_loc=(0,) * (len(chunk.seq_lens) + 1)))
    held = [row for part in as_context.chunks for row in part.local_context_lens_allranks]
    chunk.local_context_lens_allranks = held[: len(chunk.seq_lens)]


def over_the_batch(case: MetadataCase, answer: Any) -> None:
    longest = max(chunk.max_seq_len for chunk in answer.chunks)
    for chunk in answer.chunks:
        chunk.max_seq_len = longest


def setting(**values: Callable[[MetadataCase, Any], Any]) -> Builder:
    """Sets fields of each chunk."""
    return each(lambda case, chunk: vars(chunk).update({name: get(case, chunk) for name, get in values.items()}))


class Faults:
    """By name: a builder, and the clause that it breaks."""

    UNSHARDED: ClassVar[dict[str, tuple[Builder, str]]] = {
        "cut unaligned": (planned(with_an_alignment_of_one), "PLAN-9: PLAN-3"),
        "budget off by one": (planned(with_a_row_more), "PLAN-9: PLAN-2"),
        "a request without context does not close": (planned(reaching_over_requests_without_context), "PLAN-10"),
        "a request without context has an empty piece": (
            planned(an_empty_piece_for_a_request_without_context),
            "PLAN-9: PLAN-6",
        ),
        "a second request continues": (planned(every_request_a_share), "PLAN-9: PLAN-5"),
        "an empty result for a batch without context": (
            lambda case: loosened(case) or SimpleNamespace(context_lens=[], empty_token_slices=[], chunks=[]),
            "PLAN-8: the contexts are",
        ),
        "starts of the batch's first chunk": (setting(starts=lambda case, c: [0] * len(c.starts)), "PLAN-10"),
        "never a continuation": (setting(is_continuation=lambda case, c: False), "PLAN-10"),
        "query tokens of all requests": (setting(token_slice=lambda case, c: slice(0, 1)), "PLAN-12"),
        "continuation_token_end of the last request": (
            setting(continuation_token_end=lambda case, c: c.token_slice.stop),
            "PLAN-13",
        ),
        "query_start_loc of the batch": (
            setting(query_start_loc=lambda case, c: [n + c.token_slice.start for n in c.query_start_loc]),
            "PLAN-14",
        ),
        "max_query_len over the batch": (
            setting(max_query_len=lambda case, c: max(_steps(case.query_start_loc))),
            "PLAN-15: chunk .* max_query_len",
        ),
        "max_seq_len over the batch": (changed(over_the_batch), "PLAN-15: chunk .* max_seq_len"),
        "cu_seq_lens without its last entry": (setting(cu_seq_lens=lambda case, c: c.cu_seq_lens[:-1]), "PLAN-16"),
        "token_to_seq over the batch": (
            setting(token_to_seq=lambda case, c: c.token_to_seq + c.request_slice.start),
            "PLAN-17",
        ),
        "only contexts that are not empty": (
            changed(lambda case, a: vars(a).update(context_lens=[n for n in case.context_lens if n])),
            "PLAN-18",
        ),
        "a trailing request without context is forgotten": (
            changed(
                lambda case, a: vars(a).update(
                    empty_token_slices=a.empty_token_slices[: len(a.empty_token_slices) - (case.context_lens[-1] == 0)]
                )
            ),
            "PLAN-19",
        ),
    }

    SHARDED: ClassVar[dict[str, tuple[Builder, str]]] = {
        "row_budget is not divided by N": (undivided_budget, "SHARD-6: PLAN-2"),
        "global instead of local starts": (changed(global_starts), "SHARD-7: chunk 1: starts"),
        "local starts for the gather alone": (
            changed(lambda case, answer: global_starts(case, answer, ("local_starts",))),
            "SHARD-7: chunk 1: local_starts",
        ),
        "local lengths unpadded": (each(whole_lengths), "SHARD-8"),
        "padded_local_cu_seq_lens of all tokens": (
            setting(padded_local_cu_seq_lens=lambda case, c: c.cu_seq_lens),
            "SHARD-9",
        ),
        "padded_local_token_to_seq of all tokens": (
            setting(padded_local_token_to_seq=lambda case, c: c.token_to_seq),
            "SHARD-10",
        ),
        "what ranks hold of the piece, not the context": (each(held_of_the_piece), "SHARD-11"),
        "num_local_context_tokens of all ranks": (
            setting(num_local_context_tokens=lambda case, c: c.num_local_context_tokens * case.dcp_world_size),
            "SHARD-12",
        ),
    }


def not_rounded(case: WorkspaceCase) -> int:
    return min(max(8 * case.max_model_len, 4 * case.max_num_seqs * case.block_size), 65_536)


ROWS: dict[str, tuple[Callable[[WorkspaceCase], int], str]] = {
    "not rounded up to the block": (lambda case: max(not_rounded(case), case.block_size), "PLAN-20"),
    "not even a block": (lambda case: min(golden_rows(case), not_rounded(case) or 1), "PLAN-20"),
    "index_topk forgotten": (lambda case: golden_rows(replace(case, index_topk=1 << 30)), "PLAN-21"),
    "sparse rounded": (lambda case: -(-golden_rows(case) // case.block_size) * case.block_size, "PLAN-21"),
    "sparse without its block": (
        lambda case: min(not_rounded(case), case.max_num_seqs * case.index_topk),
        "PLAN-21",
    ),
    "rounded to the block alone under DCP": (lambda case: golden_rows(replace(case, dcp_world_size=1)), "SHARD-13"),
    "no cap": (lambda case: golden_rows(case) + (65_536 if 8 * case.max_model_len > 65_536 else 0), "PLAN-20"),
}


def _steps(boundaries: Sequence[int]) -> list[int]:
    return [after - before for before, after in pairwise(boundaries)]
