"""Steps of a loop over chunks of context that are wrong in one way each."""

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
    """Every chunk from its requests' first tokens on."""
    return right_rows(call, replace(chunk, starts=(0,) * len(chunk.starts)))


def from_the_top_of_the_table(call: SimpleNamespace, chunk: ContextChunk) -> Any:
    """Those of the first requests of the batch."""
    return right_rows(call, replace(chunk, request_slice=slice(0, len(chunk.starts))))


def of_the_first_chunk(call: SimpleNamespace, chunk: ContextChunk) -> Any:
    """Those of the first chunk, over and over."""
    first = call.before[0] if call.before else right_rows(call, chunk)
    return np.resize(first, (chunk.num_context_tokens, 576))


def with_a_row_of_the_chunk_before(call: SimpleNamespace, chunk: ContextChunk) -> Any:
    """The last one is left from the chunk before, if that was as long."""
    rows = right_rows(call, chunk)
    if call.before and len(call.before[-1]) >= len(rows):
        rows[-1] = call.before[-1][len(rows) - 1]
    return rows


def with_a_row_behind_its_own(call: SimpleNamespace, chunk: ContextChunk) -> Any:
    """One more than the chunk has."""
    before = call.before[-1] if call.before else np.empty((0, 576), np.uint16)
    return np.concatenate([right_rows(call, chunk), before[chunk.num_context_tokens :][:1]])


def attend_to_all_rows(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    """The last request's keys go on to the last row."""
    return context.attend(replace(chunk, cu_seq_lens=(*chunk.cu_seq_lens[:-1], len(k))), q, k, v, scale)


def without_fp8_scale(call: SimpleNamespace, chunk: ContextChunk) -> Any:
    """A scale of 1."""
    return right_rows(SimpleNamespace(**{**vars(call), "scale": 1.0}), chunk)


def with_the_scale_in_bf16(call: SimpleNamespace, chunk: ContextChunk) -> Any:
    """A scale rounded to bf16."""
    scale = float(rounded(np.array([call.scale]))[0])
    return right_rows(SimpleNamespace(**{**vars(call), "scale": scale}), chunk)


def values_first(rows: Any, kv_b_proj: Any, v_head_dim: int, dtype: Any) -> tuple[Any, Any]:
    """The first rows of kv_b_proj make values."""
    return context.keys_and_values(rows, np.roll(kv_b_proj, v_head_dim, axis=1), v_head_dim, dtype)


def rope_for_head_0_alone(rows: Any, kv_b_proj: Any, v_head_dim: int, dtype: Any) -> tuple[Any, Any]:
    """Other heads have zeros there."""
    k, v = context.keys_and_values(rows, kv_b_proj, v_head_dim, dtype)
    k[:, 1:, -64:] = 0
    return k, v


def without_softmax_scale(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    """A softmax_scale of 1."""
    return context.attend(chunk, q, k, v, 1.0)


def with_queries_scaled_in_bf16(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    """Queries are scaled, and rounded, before the product."""
    return context.attend(chunk, rounded(q * np.float32(scale)), k, v, 1.0)


def without_a_maximum(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    """Exponentials of the scores themselves."""
    parts = []
    for i in range(len(chunk.seq_lens)):
        mine, keys = slice(*chunk.query_start_loc[i : i + 2]), slice(*chunk.cu_seq_lens[i : i + 2])
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            weights = np.exp(np.einsum("thd,nhd->htn", q[mine], k[keys]) * np.float32(scale))
            total = weights.sum(axis=2)
            parts.append(Partial(np.einsum("htn,nhv->thv", weights, v[keys]) / total.T[..., None], np.log(total)))
    return Partial(np.concatenate([p.output for p in parts]), np.concatenate([p.lse for p in parts], axis=1))


def with_64_queries_of_a_request(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    """The others' output is 0."""
    partial = context.attend(chunk, q, k, v, scale)
    for first, end in pairwise(chunk.query_start_loc):
        partial.output[first + 64 : end] = 0
    return partial


def with_the_first_four_heads(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    """The others' output is 0."""
    partial = context.attend(chunk, q, k, v, scale)
    partial.output[:, 4:] = 0
    return partial


def with_the_batch_s_query_start_loc(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    """Query tokens counted from the first of the batch."""
    first = chunk.token_slice.start
    moved = replace(chunk, query_start_loc=tuple(min(first + at, len(q)) for at in chunk.query_start_loc))
    return context.attend(moved if len(chunk.starts) > 1 else chunk, q, k, v, scale)


def with_a_causal_mask(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    """Each request's last row of a chunk is hidden."""
    shorter = [max(1, length - 1) for length in chunk.seq_lens]
    parts = []
    for i, n in enumerate(shorter):
        mine, keys = slice(*chunk.query_start_loc[i : i + 2]), slice(chunk.cu_seq_lens[i], chunk.cu_seq_lens[i] + n)
        parts.append(context.softmax(q[mine], k[keys], v[keys], scale))
    return Partial(np.concatenate([p.output for p in parts]), np.concatenate([p.lse for p in parts], axis=1))


def to_base_2(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    """An LSE to the base 2."""
    partial = context.attend(chunk, q, k, v, scale)
    return Partial(partial.output, partial.lse / np.float32(np.log(2)))


def boundary_moved(by: int) -> Any:
    """The end of what is merged, later by some tokens."""

    def accumulate(result: Partial, chunk: ContextChunk, partial: Partial, merge: Any) -> None:
        end = min(chunk.continuation_token_end + by, chunk.token_slice.stop)
        context.accumulate(result, replace(chunk, continuation_token_end=end), partial, merge)

    return accumulate


def overwritten(result: Partial, chunk: ContextChunk, partial: Partial, merge: Any) -> None:
    """Nothing is merged."""
    context.accumulate(result, replace(chunk, is_continuation=False), partial, merge)


def merged_everywhere(result: Partial, chunk: ContextChunk, partial: Partial, merge: Any) -> None:
    """All tokens are merged with what was there."""
    whole = replace(chunk, is_continuation=True, continuation_token_end=chunk.token_slice.stop)
    context.accumulate(result, whole, partial, merge)


def average(prefix: Partial, suffix: Partial) -> Partial:
    """Both partials have one weight."""
    return Partial((prefix.output + suffix.output) / 2, np.logaddexp(prefix.lse, suffix.lse))


def lse_of_the_last(prefix: Partial, suffix: Partial) -> Partial:
    """The right output, and the suffix's LSE."""
    return Partial(merging.merge(prefix, suffix).output, suffix.lse)


def inf_as_weight(prefix: Partial, suffix: Partial) -> Partial:
    """+inf is the largest weight."""
    with np.errstate(invalid="ignore"):
        share = (1 / (1 + np.exp(suffix.lse - prefix.lse))).T[..., None]
        lse = np.logaddexp(prefix.lse, suffix.lse)
    return Partial(share * prefix.output + (1 - share) * suffix.output, lse)


def merge_without_a_maximum(prefix: Partial, suffix: Partial) -> Partial:
    """Exponentials of the LSEs themselves."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        first, second = np.exp(prefix.lse), np.exp(suffix.lse)
        share = (first / (first + second)).T[..., None]
        return Partial(share * prefix.output + (1 - share) * suffix.output, np.log(first + second))


def whatever_was_there(tokens: int, heads: int, size: int, dtype: Any) -> Partial:
    """Memory as it is allocated."""
    return Partial(np.empty((tokens, heads, size), dtype), np.empty((heads, tokens), dtype))


def zeros(tokens: int, heads: int, size: int, dtype: Any) -> Partial:
    """Memory of zeros, LSEs included."""
    return Partial(np.zeros((tokens, heads, size), dtype), np.zeros((heads, tokens), dtype))


def infinities(tokens: int, heads: int, size: int, dtype: Any) -> Partial:
    """As from an attention that says +inf for no keys: without weight, whatever the output."""
    return Partial(np.full((tokens, heads, size), np.nan, dtype), np.full((heads, tokens), np.inf, dtype))


def untouched(result: Partial, tokens: slice) -> None:
    """Nothing is written."""


def rounded(numbers: Any) -> Any:
    """The nearest numbers of bf16, as float32."""
    return f32_from_bf16(bf16_from_f32(numbers.astype(np.float32)))


def with_the_first_softmax_scale() -> Any:
    """The softmax_scale of the call that came first."""
    first: list[float] = []

    def attend(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
        first.append(scale)
        return context.attend(chunk, q, k, v, first[0])

    return attend


def with_one_maximum(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    """The maximum over all query tokens and rows of the chunk, the pairs of two requests included."""
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
