"""What attention over whole contexts is, in binary64 and without any gather, and how far a target may be from it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from conformance.context_generation import Batch
from reference.context import LAYOUTS
from reference.context_metadata import ContextMetadata
from reference.reading import read_records
from reference.scalars import Bf16Bits, f32_from_bf16
from reference.writing import LATENT, ROPE

Float64s = npt.NDArray[np.float64]

U = 2.0**-24
"""Half the distance between 1 and the next binary32."""
U_BF16 = 2.0**-8
"""The same for bf16."""

SIGNIFICAND = float.fromhex("0x1.a3d70ap-1")
"""Of softmax_scale, as binary32 holds it; with a power of two, scaled queries would need no rounding, even in bf16."""


@dataclass(frozen=True)
class Attended:
    """One request: rows uint16 [n, 576], q [t, H, D], k [n, H, D], v [n, H, v_head_dim], their sums of magnitudes.

    k_sums and v_sums are what k and v would be if all latent elements, RoPE elements and weights were positive.
    """

    rows: Bf16Bits
    q: Float64s
    k: Float64s
    v: Float64s
    k_sums: Float64s
    v_sums: Float64s


@dataclass(frozen=True)
class Whole:
    """One softmax for each query token over its whole context: output [tokens, H, v_head_dim] and LSE [H, tokens]."""

    requests: tuple[Attended, ...]
    query_start_loc: tuple[int, ...]
    softmax_scale: float
    output: Float64s
    lse: Float64s

    @property
    def largest_value(self) -> float:
        """max |V|."""
        return max(float(np.abs(request.v).max(initial=0)) for request in self.requests)


def attend_whole(batch: Batch, softmax_scale: float | None = None) -> Whole:
    """The answer to a batch. Without a softmax_scale: one that keeps every score below the case's largest_score."""
    requests = tuple(_attended(batch, request) for request in range(len(batch.case.context_lens)))
    if softmax_scale is None:
        largest = max(float(_sums(request, 1).max(initial=0)) for request in requests)
        softmax_scale = SIGNIFICAND * 2.0 ** int(np.floor(np.log2(batch.case.largest_score / largest)))
    heads, size = batch.case.heads, batch.case.v_head_dim
    output, lse = np.zeros((len(batch.q), heads, size)), np.full((heads, len(batch.q)), -np.inf)
    for request, (first, end) in zip(requests, pairwise(batch.case.query_start_loc), strict=True):
        if len(request.rows):
            scores = _scores(request, softmax_scale)
            lse[:, first:end] = _log_sum_exp(scores)
            weights = np.exp(scores - lse[:, first:end, None])
            output[first:end] = np.einsum("htn,nhv->thv", weights, request.v)
    return Whole(requests, batch.case.query_start_loc, softmax_scale, output, lse)


def rows_of(batch: Batch, request: int) -> Bf16Bits:
    """What each slot of a request's context reads as, in the order of tokens: uint16 [n, 576]."""
    sharding, tokens = batch.case.sharding, np.arange(batch.case.context_lens[request])
    records = np.empty((len(tokens), batch.caches[0].kv_cache.shape[2]), batch.caches[0].kv_cache.dtype)
    for rank, cache in enumerate(batch.caches):
        mine = sharding.rank_of(tokens) == rank
        records[mine] = cache.records_at(request, sharding.local_index(tokens[mine]))
    if len(records) == 0:
        return np.empty((0, LATENT + ROPE), np.uint16)
    return read_records(LAYOUTS[batch.case.kv_cache_dtype], records.view(np.uint8), batch.scale)


def _attended(batch: Batch, request: int) -> Attended:
    rows = rows_of(batch, request)
    first, end = batch.case.query_start_loc[request : request + 2]
    numbers, weights = f32_from_bf16(rows).astype(np.float64), batch.kv_b_proj.astype(np.float64)
    keys = []
    for values, matrix in ((numbers, weights), (np.abs(numbers), np.abs(weights))):
        made = np.einsum("ne,hoe->nho", values[:, :LATENT], matrix, optimize=True)
        k_pe = np.repeat(values[:, None, LATENT:], batch.case.heads, axis=1)
        size = batch.case.qk_nope_head_dim
        keys += [np.concatenate([made[..., :size], k_pe], axis=2), made[..., size:]]
    k, v, k_sums, v_sums = keys
    assert k.shape[2] == batch.case.qk_nope_head_dim + ROPE
    return Attended(rows, batch.q[first:end].astype(np.float64), k, v, k_sums, v_sums)


@dataclass(frozen=True)
class Arithmetic:
    """How a loop computes: `terms` roundings in an element of k or v, the type of k, v, weights and partials."""

    terms: int
    type: Literal["binary32", "bf16"] = "binary32"


def error_bounds(whole: Whole, chunked_context: ContextMetadata, how: Arithmetic) -> tuple[Float64s, Float64s]:
    """How far output [tokens, H, v_head_dim] and LSE [H, tokens] may be from `whole` (ATTEND-2 has the derivation)."""
    output, lse = np.zeros_like(whole.output), np.zeros_like(whole.lse)
    for number, (request, (first, end)) in enumerate(zip(whole.requests, pairwise(whole.query_start_loc), strict=True)):
        if len(request.rows):
            pieces = [
                chunk.seq_lens[number - chunk.request_slice.start]
                for chunk in chunked_context.chunks
                if chunk.request_slice.start <= number < chunk.request_slice.stop
            ]
            output[first:end], lse[:, first:end] = _bounds(request, whole, slice(first, end), pieces, how)
    return output, lse


def _bounds(
    request: Attended, whole: Whole, tokens: slice, pieces: list[int], how: Arithmetic
) -> tuple[Float64s, Float64s]:
    output, lse = whole.output[tokens].transpose(1, 0, 2), whole.lse[:, tokens]
    scores, v = _scores(request, whole.softmax_scale), request.v.transpose(1, 0, 2)
    p = np.exp(scores - lse[..., None])
    m, c, coarse = max(pieces), len(pieces), U_BF16 if how.type == "bf16" else 0.0
    below = scores.max(axis=2, keepdims=True) - scores
    level = np.abs(scores).max() + np.log(len(request.rows)) + 32
    of_sum = gamma(m + 4) + c * U * level + coarse
    e = gamma(how.terms + request.q.shape[2] + 4) * _sums(request, whole.softmax_scale) + (4 * below + 40) * U
    e += coarse * whole.softmax_scale * np.einsum("thd,nhd->htn", np.abs(request.q), np.abs(request.k), optimize=True)
    e += of_sum if c > 1 else 0
    apart = np.abs(v[:, None] - output[:, :, None])
    moved = np.exp(e.max(axis=2))[..., None] * np.einsum("htn,htnv->htv", p * np.expm1(e), apart, optimize=True)
    magnitude = p @ np.abs(v)
    of_values = gamma(how.terms) * (p @ request.v_sums.transpose(1, 0, 2)) + coarse * (2 * magnitude + np.abs(output))
    sums = gamma(m + 4) * (magnitude + np.abs(output))
    partials = (32 * U * (c - 1) + (2 * c - 1) * coarse) * np.abs(v).max(axis=1, keepdims=True)
    of_lse = np.log1p((p * np.expm1(e)).sum(axis=2)) + of_sum
    return 1.1 * (moved + of_values + sums + partials).transpose(1, 0, 2), 1.1 * of_lse


def gamma(terms: int) -> float:
    """The relative error of that many roundings."""
    return terms * U / (1 - terms * U)


def _scores(request: Attended, softmax_scale: float) -> Float64s:
    """[H, t, n]."""
    scores: Float64s = softmax_scale * np.einsum("thd,nhd->htn", request.q, request.k, optimize=True)
    return scores


def _sums(request: Attended, softmax_scale: float) -> Float64s:
    """[H, t, n]: the scores, if everything were positive."""
    sums: Float64s = softmax_scale * np.einsum("thd,nhd->htn", np.abs(request.q), request.k_sums, optimize=True)
    return sums


def _log_sum_exp(scores: Float64s) -> Float64s:
    most = scores.max(axis=2)
    total: Float64s = most + np.log(np.exp(scores - most[..., None]).sum(axis=2))
    return total
