"""Define wrong steps of a loop over chunks, by the name of the step that each replaces (see loop.STEPS).

rows: returns uint16 bf16 encodings [num_context_tokens, 576] of a chunk.
project: returns keys k, float32 [N, H, D], and values v, float32 [N, H, V], of N rows.
attend: takes queries q, float32 [t, H, D], and k and v. Returns Partial(output [t, H, V], lse [H, t]), float32.
memory: returns a Partial for all query tokens. accumulate: writes the Partial of a chunk into it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np

from conformance.faults.loop import right_rows
from reference import context, merging
from reference.context_metadata import ContextChunk
from reference.merging import Partial
from reference.scalars import bf16_from_f32, f32_from_bf16


def without_starts(call: SimpleNamespace, chunk: ContextChunk) -> Any:
    """Return the rows from the first token of each request on: `starts` is ignored."""
    return right_rows(call, replace(chunk, starts=(0,) * len(chunk.starts)))


def from_the_top_of_the_table(call: SimpleNamespace, chunk: ContextChunk) -> Any:
    """Return the rows of the first requests of the batch instead of the chunk's requests."""
    return right_rows(call, replace(chunk, request_slice=slice(0, len(chunk.starts))))


def of_the_first_chunk(call: SimpleNamespace, chunk: ContextChunk) -> Any:
    """Return the rows of the first chunk for every chunk, cut or repeated to its length."""
    first = call.before[0] if call.before else right_rows(call, chunk)
    return np.resize(first, (chunk.num_context_tokens, 576))


def with_a_row_of_the_chunk_before(call: SimpleNamespace, chunk: ContextChunk) -> Any:
    """Return the rows with the last one from the chunk before, if that had as many rows."""
    rows = right_rows(call, chunk)
    if call.before and len(call.before[-1]) >= len(rows):
        rows[-1] = call.before[-1][len(rows) - 1]
    return rows


def with_a_row_behind_its_own(call: SimpleNamespace, chunk: ContextChunk) -> Any:
    """Return one row more than the chunk has, if the chunk before was longer."""
    before = call.before[-1] if call.before else np.empty((0, 576), np.uint16)
    return np.concatenate([right_rows(call, chunk), before[chunk.num_context_tokens :][:1]])


def attend_to_all_rows(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    """Attend, with the last request's keys up to the last row of k."""
    return context.attend(replace(chunk, cu_seq_lens=(*chunk.cu_seq_lens[:-1], len(k))), q, k, v, scale)


def without_fp8_scale(call: SimpleNamespace, chunk: ContextChunk) -> Any:
    """Return the rows under a scale of 1."""
    return right_rows(SimpleNamespace(**{**vars(call), "scale": 1.0}), chunk)


def with_the_scale_in_bf16(call: SimpleNamespace, chunk: ContextChunk) -> Any:
    """Return the rows under a scale rounded to bf16."""
    scale = float(rounded(np.array([call.scale]))[0])
    return right_rows(SimpleNamespace(**{**vars(call), "scale": scale}), chunk)


def values_first(rows: Any, kv_b_proj: Any, v_head_dim: int, dtype: Any) -> tuple[Any, Any]:
    """Return keys and values, with values taken from the first rows of kv_b_proj."""
    return context.keys_and_values(rows, np.roll(kv_b_proj, v_head_dim, axis=1), v_head_dim, dtype)


def rope_for_head_0_alone(rows: Any, kv_b_proj: Any, v_head_dim: int, dtype: Any) -> tuple[Any, Any]:
    """Return keys and values; the RoPE elements of all heads but head 0 are 0."""
    k, v = context.keys_and_values(rows, kv_b_proj, v_head_dim, dtype)
    k[:, 1:, -64:] = 0
    return k, v


def without_softmax_scale(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    """Attend with a softmax_scale of 1."""
    return context.attend(chunk, q, k, v, 1.0)


def with_queries_scaled_in_bf16(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    """Attend with queries that were scaled and rounded to bf16 before the product."""
    return context.attend(chunk, rounded(q * np.float32(scale)), k, v, 1.0)


def without_a_maximum(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    """Attend without subtracting the maximum from the scores, so that exponentials overflow."""
    parts = []
    for i in range(len(chunk.seq_lens)):
        mine, keys = slice(*chunk.query_start_loc[i : i + 2]), slice(*chunk.cu_seq_lens[i : i + 2])
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            weights = np.exp(np.einsum("thd,nhd->htn", q[mine], k[keys]) * np.float32(scale))
            total = weights.sum(axis=2)
            parts.append(Partial(np.einsum("htn,nhv->thv", weights, v[keys]) / total.T[..., None], np.log(total)))
    return Partial(np.concatenate([p.output for p in parts]), np.concatenate([p.lse for p in parts], axis=1))


def with_64_queries_of_a_request(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    """Attend, and set the output of each request's queries from the 65th on to 0."""
    partial = context.attend(chunk, q, k, v, scale)
    for first, end in pairwise(chunk.query_start_loc):
        partial.output[first + 64 : end] = 0
    return partial


def with_the_first_four_heads(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    """Attend, and set the output of the heads from the fifth on to 0."""
    partial = context.attend(chunk, q, k, v, scale)
    partial.output[:, 4:] = 0
    return partial


def with_the_batch_s_query_start_loc(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    """Attend with query_start_loc counted from the first token of the batch, if the chunk has several requests."""
    first = chunk.token_slice.start
    moved = replace(chunk, query_start_loc=tuple(min(first + at, len(q)) for at in chunk.query_start_loc))
    return context.attend(moved if len(chunk.starts) > 1 else chunk, q, k, v, scale)


def with_a_causal_mask(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    """Attend without the last row of each request, as under a causal mask."""
    shorter = [max(1, length - 1) for length in chunk.seq_lens]
    parts = []
    for i, n in enumerate(shorter):
        mine, keys = slice(*chunk.query_start_loc[i : i + 2]), slice(chunk.cu_seq_lens[i], chunk.cu_seq_lens[i] + n)
        parts.append(context.softmax(q[mine], k[keys], v[keys], scale))
    return Partial(np.concatenate([p.output for p in parts]), np.concatenate([p.lse for p in parts], axis=1))


def to_base_2(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    """Attend, and return the LSE to the base 2."""
    partial = context.attend(chunk, q, k, v, scale)
    return Partial(partial.output, partial.lse / np.float32(np.log(2)))


def boundary_moved(by: int) -> Any:
    """Return an `accumulate` that merges `by` more tokens. A negative `by` merges fewer."""

    def accumulate(result: Partial, chunk: ContextChunk, partial: Partial, merge: Any) -> None:
        end = min(chunk.continuation_token_end + by, chunk.token_slice.stop)
        context.accumulate(result, replace(chunk, continuation_token_end=end), partial, merge)

    return accumulate


def overwritten(result: Partial, chunk: ContextChunk, partial: Partial, merge: Any) -> None:
    """Overwrite the tokens of a chunk instead of merging them."""
    context.accumulate(result, replace(chunk, is_continuation=False), partial, merge)


def merged_everywhere(result: Partial, chunk: ContextChunk, partial: Partial, merge: Any) -> None:
    """Merge all tokens of a chunk with the result so far."""
    whole = replace(chunk, is_continuation=True, continuation_token_end=chunk.token_slice.stop)
    context.accumulate(result, whole, partial, merge)


def average(prefix: Partial, suffix: Partial) -> Partial:
    """Return a merge in which both partials have the weight 1/2."""
    return Partial((prefix.output + suffix.output) / 2, np.logaddexp(prefix.lse, suffix.lse))


def lse_of_the_last(prefix: Partial, suffix: Partial) -> Partial:
    """Return the right output with the suffix's LSE."""
    return Partial(merging.merge(prefix, suffix).output, suffix.lse)


def inf_as_weight(prefix: Partial, suffix: Partial) -> Partial:
    """Return a merge in which an LSE of +inf is the largest weight."""
    with np.errstate(invalid="ignore"):
        share = (1 / (1 + np.exp(suffix.lse - prefix.lse))).T[..., None]
        lse = np.logaddexp(prefix.lse, suffix.lse)
    return Partial(share * prefix.output + (1 - share) * suffix.output, lse)


def merge_without_a_maximum(prefix: Partial, suffix: Partial) -> Partial:
    """Return a merge that takes exponentials of the LSEs without subtracting their maximum."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        first, second = np.exp(prefix.lse), np.exp(suffix.lse)
        share = (first / (first + second)).T[..., None]
        return Partial(share * prefix.output + (1 - share) * suffix.output, np.log(first + second))


def whatever_was_there(tokens: int, heads: int, size: int, dtype: Any) -> Partial:
    """Return uninitialized memory: output [tokens, heads, size], LSE [heads, tokens]."""
    return Partial(np.empty((tokens, heads, size), dtype), np.empty((heads, tokens), dtype))


def zeros(tokens: int, heads: int, size: int, dtype: Any) -> Partial:
    """Return zeros for output [tokens, heads, size] and LSE [heads, tokens]. An LSE of 0 is a weight."""
    return Partial(np.zeros((tokens, heads, size), dtype), np.zeros((heads, tokens), dtype))


def infinities(tokens: int, heads: int, size: int, dtype: Any) -> Partial:
    """Return output NaN [tokens, heads, size] and LSE +inf [heads, tokens], as some kernels report no keys."""
    return Partial(np.full((tokens, heads, size), np.nan, dtype), np.full((heads, tokens), np.inf, dtype))


def untouched(result: Partial, tokens: slice) -> None:
    """Write nothing for a request without context."""


def rounded(numbers: Any) -> Any:
    """Return the numbers rounded to bf16, as float32 of the same shape."""
    return f32_from_bf16(bf16_from_f32(numbers.astype(np.float32)))


def with_the_first_softmax_scale() -> Any:
    """Return an `attend` that uses the softmax_scale of its first call in every call."""
    first: list[float] = []

    def attend(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
        first.append(scale)
        return context.attend(chunk, q, k, v, first[0])

    return attend


def with_one_maximum(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    """Attend with one maximum over all scores of the chunk, pairs of different requests included."""
    with np.errstate(all="ignore"):
        most = (np.einsum("thd,nhd->htn", q, k) * np.float32(scale)).max()
        parts = []
        for i in range(len(chunk.seq_lens)):
            mine, keys = slice(*chunk.query_start_loc[i : i + 2]), slice(*chunk.cu_seq_lens[i : i + 2])
            weights = np.exp(np.einsum("thd,nhd->htn", q[mine], k[keys]) * np.float32(scale) - most)
            total = weights.sum(axis=2)
            output = np.einsum("htn,nhv->thv", weights, v[keys]) / total.T[..., None]
            parts.append(Partial(output, most + np.log(total)))
    return Partial(np.concatenate([p.output for p in parts]), np.concatenate([p.lse for p in parts], axis=1))
