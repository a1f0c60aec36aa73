"""Compute attention over a batch's cached context, chunk by chunk (SPEC.md ATTEND-1 to ATTEND-6)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reference import merging
from reference.context_metadata import ContextChunk, ContextMetadata
from reference.gather import gather as gather_rows
from reference.merging import Partial
from reference.records import FP8_DS_MLA, GENERIC, NVFP4_DS_MLA
from reference.scalars import Bf16Bits, f32_from_bf16

Reals = npt.NDArray[np.floating[Any]]
Gather = Callable[[ContextChunk], Bf16Bits]
"""A function that gathers the rows of a chunk: uint16 bf16 encodings [num_context_tokens, 576]."""
Merge = Callable[[Partial, Partial], Partial]
"""A function that merges the earlier partial of some tokens with the new partial of the same tokens."""

LATENT, ROPE = 512, 64
ROW = LATENT + ROPE

LAYOUTS = {
    "nvfp4_ds_mla": NVFP4_DS_MLA,
    "fp8_ds_mla": FP8_DS_MLA,
    "auto": GENERIC["auto", ROW],
    "fp8": GENERIC["fp8", ROW],
}
"""The layout of the records of a cache, by kv_cache_dtype."""


class Seen(NamedTuple):
    """Hold one chunk and the arrays that its query tokens attend to.

    rows: uint16 bf16 encodings [n, 576]; q: [tokens, H, D]; k: [n, H, D]; v: [n, H, v_head_dim]. q, k and v have the
    dtype of the computation.
    """

    chunk: ContextChunk
    rows: Bf16Bits
    q: Reals
    k: Reals
    v: Reals


def compute_prefill_context(
    q: Reals,
    gather: Gather,
    chunked_context: ContextMetadata,
    kv_b_proj: Reals,
    softmax_scale: float,
    dtype: type[np.floating[Any]] = np.float32,
    merge: Merge = merging.merge,
    record: Callable[[Seen], None] | None = None,
) -> Partial:
    """Attend to all of a batch's context, in `dtype`, float32 or float64.

    q: [tokens, H, qk_nope_head_dim + 64]; kv_b_proj: [H, qk_nope_head_dim + v_head_dim, 512]. `record` is called with
    each chunk.

    Returns:
        output [tokens, H, v_head_dim] and LSE [H, tokens]. A token of no request stays NaN.

    """
    tokens, heads, head_size = q.shape
    v_head_dim = kv_b_proj.shape[1] - (head_size - ROPE)
    result = undefined(tokens, heads, v_head_dim, dtype)
    for tokens_without in chunked_context.empty_token_slices:
        write_empty(result, tokens_without)
    for chunk in chunked_context.chunks:
        rows = gather(chunk)
        queries = q[chunk.token_slice].astype(dtype)
        k, v = keys_and_values(rows, kv_b_proj, v_head_dim, dtype)
        if record:
            record(Seen(chunk, rows, queries, k, v))
        accumulate(result, chunk, attend(chunk, queries, k, v, softmax_scale), merge)
    return result


def gather_from(
    kv_cache: npt.NDArray[Any], kv_cache_dtype: str, scale: float, block_table: npt.NDArray[np.int32]
) -> Gather:
    """Return a gather of GATHER and TWIN for the chunks of one rank.

    kv_cache: [num_blocks, block_size, n] of the kv_cache_dtype; block_table: int32 [requests, max_blocks]; scale: that
    of "fp8".

    Returns:
        A function from a chunk to its rows, uint16 bf16 encodings [num_context_tokens, 576].

    """

    def gather(chunk: ContextChunk) -> Bf16Bits:
        starts, workspace_starts = np.array(chunk.starts, np.int32), np.array(chunk.cu_seq_lens, np.int32)
        table = block_table[chunk.request_slice]
        rows, layout = chunk.num_context_tokens, LAYOUTS[kv_cache_dtype]
        return gather_rows(kv_cache, table, workspace_starts, len(starts), rows, starts, layout, scale)

    return gather


def undefined(tokens: int, heads: int, v_head_dim: int, dtype: type[np.floating[Any]]) -> Partial:
    """Return a partial filled with NaN, which stands for memory that was never written.

    Returns:
        output of `dtype` [tokens, heads, v_head_dim], and LSE of `dtype` [heads, tokens].

    """
    return Partial(np.full((tokens, heads, v_head_dim), np.nan, dtype), np.full((heads, tokens), np.nan, dtype))


def write_empty(result: Partial, tokens: slice) -> None:
    """Write the partial of no key into the tokens of `tokens`: output 0, LSE -inf (ATTEND-3)."""
    result.output[tokens] = 0
    result.lse[:, tokens] = -np.inf


def keys_and_values(
    rows: Bf16Bits, kv_b_proj: Reals, v_head_dim: int, dtype: type[np.floating[Any]]
) -> tuple[Reals, Reals]:
    """Return the keys and values of rows, uint16 bf16 encodings [n, 576].

    kv_b_proj: [H, qk_nope_head_dim + v_head_dim, 512]. The product is computed in binary64 and rounded once to `dtype`.

    Returns:
        k [n, H, D] and v [n, H, v_head_dim].

    """
    numbers = f32_from_bf16(rows).astype(np.float64)
    heads, outputs, _ = kv_b_proj.shape
    projected = (numbers[:, :LATENT] @ kv_b_proj.astype(np.float64).reshape(heads * outputs, LATENT).T).reshape(
        len(rows), heads, outputs
    )
    k_nope, v = np.split(projected, [outputs - v_head_dim], axis=2)
    k_pe = np.broadcast_to(numbers[:, None, LATENT:], (len(rows), heads, ROPE))
    return np.concatenate([k_nope, k_pe], axis=2).astype(dtype), v.astype(dtype)


def attend(chunk: ContextChunk, q: Reals, k: Reals, v: Reals, softmax_scale: float) -> Partial:
    """Return the partial of each request's query tokens over its own piece of the chunk.

    q: [tokens, H, D]; k: [n, H, D]; v: [n, H, v_head_dim].

    Returns:
        output [tokens, H, v_head_dim] and LSE [H, tokens].

    """
    requests = zip(pairwise(chunk.query_start_loc), pairwise(chunk.cu_seq_lens), strict=True)
    parts = [softmax(q[first:end], k[row:stop], v[row:stop], softmax_scale) for (first, end), (row, stop) in requests]
    return Partial(
        np.concatenate([part.output for part in parts]), np.concatenate([part.lse for part in parts], axis=1)
    )


def softmax(q: Reals, k: Reals, v: Reals, softmax_scale: float) -> Partial:
    """Return unmasked attention of queries [t, H, D] over keys [n, H, D], n > 0, and values [n, H, v_head_dim]."""
    scores = np.matmul(q.transpose(1, 0, 2), k.transpose(1, 2, 0)) * q.dtype.type(softmax_scale)
    most = scores.max(axis=2, keepdims=True)
    weights = np.exp(scores - most)
    total = weights.sum(axis=2, keepdims=True)
    output = np.matmul(weights, v.transpose(1, 0, 2)) / total
    return Partial(output.transpose(1, 0, 2), (most + np.log(total))[..., 0])


def accumulate(result: Partial, chunk: ContextChunk, partial: Partial, merge: Merge) -> None:
    """Write a chunk's partial into `result`. The tokens of a continued request are merged with `merge` (ATTEND-5).

    partial: output [tokens of the chunk, H, v_head_dim] and LSE [H, tokens of the chunk].
    """
    first, end = chunk.token_slice.start, chunk.token_slice.stop
    boundary = chunk.continuation_token_end if chunk.is_continuation else first
    merged, written = slice(first, boundary), slice(boundary, end)
    if chunk.is_continuation:
        before = Partial(result.output[merged], result.lse[:, merged])
        own = Partial(partial.output[: boundary - first], partial.lse[:, : boundary - first])
        result.output[merged], result.lse[:, merged] = merge(before, own)
    result.output[written] = partial.output[boundary - first :]
    result.lse[:, written] = partial.lse[:, boundary - first :]
