"""Loops over chunks that are wrong in one way each: the golden model's steps, one of them replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from conformance.targets.models import NumpyTarget
from reference import context, merging
from reference.context_metadata import ContextChunk
from reference.merging import Partial
from reference.scalars import bf16_from_f32, f32_from_bf16

Rows = Callable[[SimpleNamespace, ContextChunk], Any]


def right_rows(call: SimpleNamespace, chunk: ContextChunk) -> Any:
    return context.gather_from(call.kv_cache, call.kv_cache_dtype, call.scale, call.block_table)(chunk)


STEPS: dict[str, Any] = {
    "memory": context.undefined,
    "write_empty": context.write_empty,
    "rows": right_rows,
    "project": context.keys_and_values,
    "attend": context.attend,
    "accumulate": context.accumulate,
    "merge": merging.merge,
}


class Loop(NumpyTarget):
    """A target whose loop over chunks has the golden steps but for those given."""

    def __init__(self, **steps: Any) -> None:
        super().__init__()
        self.steps = SimpleNamespace(**{**STEPS, **steps})

    def compute_prefill_context(self, *arguments: Any, **named: Any) -> tuple[Any, Any]:
        call, steps = SimpleNamespace(**named), self.steps
        call.before = []  # the rows of the chunks so far
        tokens, heads, size = call.q.shape
        v_head_dim = call.kv_b_proj.shape[1] - (size - 64)
        result = steps.memory(tokens, heads, v_head_dim, np.float32)
        for without in call.chunked_context.empty_token_slices:
            steps.write_empty(result, without)
        for chunk in call.chunked_context.chunks:
            call.before.append(steps.rows(call, chunk))
            k, v = steps.project(call.before[-1], call.kv_b_proj, v_head_dim, np.float32)
            q = call.q[chunk.token_slice]
            partial = steps.attend(chunk, q, k, v, call.softmax_scale)
            steps.accumulate(result, chunk, partial, steps.merge)
        return result.output, result.lse


def without_starts(call: SimpleNamespace, chunk: ContextChunk) -> Any:
    return right_rows(call, replace(chunk, starts=(0,) * len(chunk.starts)))


def from_the_top_of_the_table(call: SimpleNamespace, chunk: ContextChunk) -> Any:
    return right_rows(call, replace(chunk, request_slice=slice(0, len(chunk.starts))))


def of_the_first_chunk(call: SimpleNamespace, chunk: ContextChunk) -> Any:
    first = call.before[0] if call.before else right_rows(call, chunk)
    return np.resize(first, (chunk.num_context_tokens, 576))


def with_a_row_of_the_chunk_before(call: SimpleNamespace, chunk: ContextChunk) -> Any:
    rows = right_rows(call, chunk)
    if call.before and len(call.before[-1]) >= len(rows):
        rows[-1] = call.before[-1][len(rows) - 1]
    return rows


def with_a_row_behind_its_own(call: SimpleNamespace, chunk: ContextChunk) -> Any:
    before = call.before[-1] if call.before else np.empty((0, 576), np.uint16)
    return np.concatenate([right_rows(call, chunk), before[chunk.num_context_tokens :][:1]])


def attend_to_all_rows(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    return context.attend(replace(chunk, cu_seq_lens=(*chunk.cu_seq_lens[:-1], len(k))), q, k, v, scale)


def without_fp8_scale(call: SimpleNamespace, chunk: ContextChunk) -> Any:
    return right_rows(SimpleNamespace(**{**vars(call), "scale": 1.0}), chunk)


def values_first(rows: Any, kv_b_proj: Any, v_head_dim: int, dtype: Any) -> tuple[Any, Any]:
    return context.keys_and_values(rows, np.roll(kv_b_proj, v_head_dim, axis=1), v_head_dim, dtype)


def rope_for_head_0_alone(rows: Any, kv_b_proj: Any, v_head_dim: int, dtype: Any) -> tuple[Any, Any]:
    k, v = context.keys_and_values(rows, kv_b_proj, v_head_dim, dtype)
    k[:, 1:, -64:] = 0
    return k, v


def without_softmax_scale(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    return context.attend(chunk, q, k, v, 1.0)


def with_the_batch_s_query_start_loc(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    first = chunk.token_slice.start
    moved = replace(chunk, query_start_loc=tuple(min(first + at, len(q)) for at in chunk.query_start_loc))
    return context.attend(moved if len(chunk.starts) > 1 else chunk, q, k, v, scale)


def with_a_causal_mask(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    shorter = [max(1, length - 1) for length in chunk.seq_lens]
    parts = []
    for i, n in enumerate(shorter):
        mine, keys = slice(*chunk.query_start_loc[i : i + 2]), slice(chunk.cu_seq_lens[i], chunk.cu_seq_lens[i] + n)
        parts.append(context.softmax(q[mine], k[keys], v[keys], scale))
    return Partial(np.concatenate([p.output for p in parts]), np.concatenate([p.lse for p in parts], axis=1))


def to_base_2(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    partial = context.attend(chunk, q, k, v, scale)
    return Partial(partial.output, partial.lse / np.float32(np.log(2)))


def boundary_moved(by: int) -> Any:
    def accumulate(result: Partial, chunk: ContextChunk, partial: Partial, merge: Any) -> None:
        end = min(chunk.continuation_token_end + by, chunk.token_slice.stop)
        context.accumulate(result, replace(chunk, continuation_token_end=end), partial, merge)

    return accumulate


def overwritten(result: Partial, chunk: ContextChunk, partial: Partial, merge: Any) -> None:
    context.accumulate(result, replace(chunk, is_continuation=False), partial, merge)


def merged_everywhere(result: Partial, chunk: ContextChunk, partial: Partial, merge: Any) -> None:
    whole = replace(chunk, is_continuation=True, continuation_token_end=chunk.token_slice.stop)
    context.accumulate(result, whole, partial, merge)


def average(prefix: Partial, suffix: Partial) -> Partial:
    return Partial((prefix.output + suffix.output) / 2, np.logaddexp(prefix.lse, suffix.lse))


def lse_of_the_last(prefix: Partial, suffix: Partial) -> Partial:
    return Partial(merging.merge(prefix, suffix).output, suffix.lse)


def inf_as_weight(prefix: Partial, suffix: Partial) -> Partial:
    with np.errstate(invalid="ignore"):
        share = (1 / (1 + np.exp(suffix.lse - prefix.lse))).T[..., None]
        lse = np.logaddexp(prefix.lse, suffix.lse)
    return Partial(share * prefix.output + (1 - share) * suffix.output, lse)


def whatever_was_there(tokens: int, heads: int, size: int, dtype: Any) -> Partial:
    return Partial(np.empty((tokens, heads, size), dtype), np.empty((heads, tokens), dtype))


def zeros(tokens: int, heads: int, size: int, dtype: Any) -> Partial:
    return Partial(np.zeros((tokens, heads, size), dtype), np.zeros((heads, tokens), dtype))


def infinities(tokens: int, heads: int, size: int, dtype: Any) -> Partial:
    """As from an attention that says +inf for no keys: without weight, whatever the output."""
    return Partial(np.full((tokens, heads, size), np.nan, dtype), np.full((heads, tokens), np.inf, dtype))


def untouched(result: Partial, tokens: slice) -> None:
    """Nothing is written."""


def rounded(numbers: Any) -> Any:
    return f32_from_bf16(bf16_from_f32(numbers.astype(np.float32)))


def keys_of_bf16(rows: Any, kv_b_proj: Any, v_head_dim: int, dtype: Any) -> tuple[Any, Any]:
    k, v = context.keys_and_values(rows, kv_b_proj, v_head_dim, dtype)
    return rounded(k), rounded(v)


def attend_in_bf16(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    parts = []
    for i in range(len(chunk.seq_lens)):
        mine, keys = slice(*chunk.query_start_loc[i : i + 2]), slice(*chunk.cu_seq_lens[i : i + 2])
        scores = np.einsum("thd,nhd->htn", q[mine], k[keys]) * np.float32(scale)
        most = scores.max(axis=2, keepdims=True)
        weights = np.exp(scores - most)
        output = rounded(np.einsum("htn,nhv->thv", rounded(weights), v[keys]) / weights.sum(axis=2).T[..., None])
        parts.append(Partial(output, (most[..., 0] + np.log(weights.sum(axis=2)))))
    return Partial(np.concatenate([p.output for p in parts]), np.concatenate([p.lse for p in parts], axis=1))


def merge_in_bf16(prefix: Partial, suffix: Partial) -> Partial:
    merged = merging.merge(prefix, suffix)
    return Partial(rounded(merged.output), merged.lse)


BF16 = {"project": keys_of_bf16, "attend": attend_in_bf16, "merge": merge_in_bf16}
