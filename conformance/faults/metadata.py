"""Define builders of metadata for one rank that are wrong in one way each."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np

from conformance.faults.builders import (
    Builder,
    FaultyBuilder,
    arrays,
    batch_setting,
    changed,
    lax,
    loosened,
    modulo,
    planned,
    raising,
    setting,
    with_case,
)
from conformance.faults.builders import unsharded_defect as _defect
from conformance.faults.defect import Defect
from conformance.faults.plans import with_an_alignment_of_one
from conformance.metadata import MetadataCase, golden


def an_empty_result(case: MetadataCase) -> Any:
    """Return empty metadata where None is due."""
    return loosened(case) or SimpleNamespace(context_lens=[], empty_token_slices=[], chunks=[])


def counted_among_those_with_context(case: MetadataCase, chunk: Any) -> slice:
    """Return a request_slice that counts only requests with context."""
    first = sum(length > 0 for length in case.context_lens[: chunk.request_slice.start])
    return slice(first, first + len(chunk.seq_lens))


def tokens_of_requests_that_end(case: MetadataCase, chunk: Any) -> slice:
    """Return a token_slice without the last request if that request is cut."""
    last = chunk.request_slice.stop - 1
    cut = chunk.starts[-1] + chunk.seq_lens[-1] < case.context_lens[last]
    return slice(case.query_start_loc[chunk.request_slice.start], case.query_start_loc[last + (not cut)])


def narrow_slice(case: MetadataCase, chunk: Any) -> slice:
    """Return the token_slice with both ends cut to int16."""
    at = np.array([chunk.token_slice.start, chunk.token_slice.stop]).astype(np.int16)
    return slice(*at.tolist())


def longest_query(case: MetadataCase, chunk: Any) -> int:
    """Return the longest query of the whole batch instead of the chunk."""
    return max(after - before for before, after in pairwise(case.query_start_loc))


def over_the_batch(case: MetadataCase, answer: Any) -> None:
    """Set max_seq_len of every chunk to the largest one of all chunks."""
    longest = max(chunk.max_seq_len for chunk in answer.chunks)
    for chunk in answer.chunks:
        chunk.max_seq_len = longest


def rows_counted_on(case: MetadataCase, answer: Any) -> None:
    """Let cu_seq_lens of each chunk begin where the one of the chunk before ended."""
    done = 0
    for chunk in answer.chunks:
        chunk.cu_seq_lens = [done + rows for rows in chunk.cu_seq_lens]
        done = chunk.cu_seq_lens[-1]


def without_the_last_request(case: MetadataCase, answer: Any) -> list[slice]:
    """Return empty_token_slices without the batch's last request."""
    return list(answer.empty_token_slices[: len(answer.empty_token_slices) - (case.context_lens[-1] == 0)])


def in_one_buffer(name: str) -> Builder:
    """Return a builder that keeps the int32 array `name` in one buffer, which the next call overwrites."""
    rows = np.zeros(1 << 18, np.int32)

    def move(case: MetadataCase, answer: Any) -> None:
        first = 0
        for chunk in answer.chunks:
            array = getattr(chunk, name, ())
            end = first + len(array)
            rows[first:end] = array
            setattr(chunk, name, rows[first:end])
            first = end

    return changed(move)


def consuming(case: MetadataCase) -> Any:
    """Return the golden metadata, and remove the last entry of the caller's query_start_loc if it is a list."""
    answer, boundaries = golden(case), case.query_start_loc
    if isinstance(boundaries, list):
        boundaries.pop()
    return answer


DEFECTS = (
    _defect("empty-metadata", "PLAN-8", an_empty_result, "metadata without chunks instead of none for no context"),
    _defect(
        "no-context-without-a-plan",
        "PLAN-8",
        raising(lambda case: not any(case.context_lens)),
        "the first chunk of a plan without chunks is looked at",
        "vllm 53603",
    ),
    _defect(
        "none-beside-a-request-without-context",
        "PLAN-8",
        lambda case: golden(case) if all(case.context_lens) else None,
        "none as soon as one request is without context",
        "sglang 22291",
    ),
    _defect(
        "workspace-checked-without-context",
        "PLAN-8",
        raising(lambda case: case.workspace_rows < case.alignment),
        "a small workspace is refused before anybody looks whether there is context",
    ),
    _defect(
        "metadata-cut-unaligned",
        "PLAN-9",
        planned(with_an_alignment_of_one),
        "requests are cut wherever the workspace is full, off the block boundaries",
        "vllm 46114",
    ),
    _defect(
        "always-cut-on-blocks",
        "PLAN-9",
        with_case(align_chunk_to_block=lambda c: c.align_chunk_to_block or c.workspace_rows >= c.block_size),
        "requests are cut on block boundaries also where they need not be",
    ),
    _defect(
        "requests-counted-among-those-with-context",
        "PLAN-10",
        setting(request_slice=counted_among_those_with_context),
        "request_slice counts only the requests with context",
    ),
    _defect(
        "metadata-starts-zero",
        "PLAN-10",
        setting(starts=lambda case, c: [0] * len(c.starts)),
        "starts of a later chunk are those of the first",
    ),
    _defect(
        "metadata-never-continue",
        "PLAN-10",
        setting(is_continuation=lambda case, c: False),
        "is_continuation of a chunk is false throughout",
    ),
    _defect(
        "small-workspace-taken-if-all-fits",
        "PLAN-11",
        lax(lambda case: max(case.context_lens) <= case.workspace_rows),
        "a workspace below the alignment is taken where no request must be cut",
    ),
    _defect(
        "query-tokens-of-the-batch",
        "PLAN-12",
        setting(token_slice=lambda case, c: slice(0, case.query_start_loc[-1])),
        "token_slice holds the query tokens of the whole batch",
    ),
    _defect(
        "query-tokens-where-requests-end",
        "PLAN-12",
        setting(token_slice=tokens_of_requests_that_end),
        "token_slice leaves out the query tokens of a request that is cut",
    ),
    _defect(
        "continuation-end-of-the-chunk",
        "PLAN-13",
        setting(continuation_token_end=lambda case, c: c.token_slice.stop),
        "continuation_token_end is the end of the last request's query tokens",
    ),
    _defect(
        "continuation-end-only-in-continuations",
        "PLAN-13",
        setting(
            continuation_token_end=lambda case, c: (
                c.continuation_token_end if c.is_continuation else c.token_slice.start
            )
        ),
        "continuation_token_end is the beginning of the query tokens unless the chunk continues",
    ),
    _defect(
        "query-start-loc-of-the-batch",
        "PLAN-14",
        setting(query_start_loc=lambda case, c: [n + c.token_slice.start for n in c.query_start_loc]),
        "query_start_loc of a chunk counts from the first query token of the batch",
    ),
    _defect(
        "max-query-len-of-the-batch",
        "PLAN-15",
        setting(max_query_len=longest_query),
        "max_query_len is the largest of the batch",
    ),
    _defect("max-seq-len-of-the-batch", "PLAN-15", changed(over_the_batch), "max_seq_len is the largest of all chunks"),
    _defect(
        "cu-seq-lens-without-the-end",
        "PLAN-16",
        setting(cu_seq_lens=lambda case, c: c.cu_seq_lens[:-1]),
        "cu_seq_lens lacks its last entry",
    ),
    _defect(
        "cu-seq-lens-counted-on", "PLAN-16", changed(rows_counted_on), "cu_seq_lens counts on from the chunk before"
    ),
    _defect(
        "token-to-seq-of-the-batch",
        "PLAN-17",
        setting(token_to_seq=lambda case, c: c.token_to_seq + np.int32(c.request_slice.start)),
        "token_to_seq counts requests of the batch, not pieces of the chunk",
    ),
    _defect("token-to-seq-in-8-bits", "PLAN-17", modulo(1 << 8, "token_to_seq"), "token_to_seq is held in 8 bits"),
    _defect(
        "context-lens-without-zeros",
        "PLAN-18",
        batch_setting(context_lens=lambda case, a: [length for length in case.context_lens if length]),
        "context_lens leaves out the requests without context",
    ),
    _defect(
        "no-empty-token-slices",
        "PLAN-19",
        batch_setting(empty_token_slices=lambda case, a: []),
        "no request without context is noted, so that nobody writes their result",
        "sglang 22291",
    ),
    _defect(
        "last-empty-token-slice-missing",
        "PLAN-19",
        batch_setting(empty_token_slices=without_the_last_request),
        "a last request without context is forgotten",
    ),
    Defect(
        "token-to-seq-in-one-buffer",
        "token_to_seq lies in a buffer that the next call fills",
        "PLAN-22",
        "plan",
        lambda: FaultyBuilder(in_one_buffer("token_to_seq")),
    ),
    _defect("query-start-loc-consumed", "PLAN-23", consuming, "the caller's query_start_loc loses its last entry"),
    _defect("token-to-seq-int64", "PLAN-24", arrays(np.int64, "token_to_seq"), "token_to_seq is an array of int64"),
)
