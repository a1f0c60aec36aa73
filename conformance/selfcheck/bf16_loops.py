"""Steps of loops over chunks that keep intermediate results in bf16, which a target may declare (ATTEND-2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.faults.loop_steps import rounded
from reference import context, merging
from reference.context_metadata import ContextChunk
from reference.merging import Partial


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


def attend_with_a_sum_of_rounded_weights(chunk: ContextChunk, q: Any, k: Any, v: Any, scale: float) -> Partial:
    """In bf16 too: values and their sum have the same weights, so that the LSE is off by a rounding."""
    parts = []
    for i in range(len(chunk.seq_lens)):
        mine, keys = slice(*chunk.query_start_loc[i : i + 2]), slice(*chunk.cu_seq_lens[i : i + 2])
        scores = np.einsum("thd,nhd->htn", q[mine], k[keys]) * np.float32(scale)
        most = scores.max(axis=2)
        weights = rounded(np.exp(scores - most[..., None]))
        total = weights.sum(axis=2)
        output = rounded(np.einsum("htn,nhv->thv", weights, v[keys]) / total.T[..., None])
        parts.append(Partial(output, most + np.log(total)))
    return Partial(np.concatenate([p.output for p in parts]), np.concatenate([p.lse for p in parts], axis=1))


def merge_in_bf16(prefix: Partial, suffix: Partial) -> Partial:
    merged = merging.merge(prefix, suffix)
    return Partial(rounded(merged.output), merged.lse)


BF16 = {"project": keys_of_bf16, "attend": attend_in_bf16, "merge": merge_in_bf16}
