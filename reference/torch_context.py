"""Attend to cached context in torch: the second model of SPEC.md's ATTEND clauses, without the gathers.

It is written from SPEC.md and shares neither code nor method with the NumPy model. A piece of a request is read
straight from its records. Each request has running sums, to which its pieces are added: no partial is merged, and chunk
borders have no effect. A request without pieces has no sums.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from reference.torch_model import decode_records
from reference.torch_twins import decode_alike, decode_fp8_ds_mla

_LATENT, _ROPE = 512, 64


class _Sums(NamedTuple):
    """Hold the running sums of queries [t] and heads [H]: largest score [H, t], weights [H, t], values [H, t, v]."""

    most: Tensor
    weights: Tensor
    values: Tensor


def read(records: Tensor, kv_cache_dtype: str, scale: float) -> Tensor:
    """Read records [N, n] into rows: the values of their bf16 numbers (READ, TWIN).

    records is bfloat16 [N, 576] for "auto", else uint8 with n = 352 for "nvfp4_ds_mla", 656 for "fp8_ds_mla" and 576
    for "fp8". `scale` counts only for "fp8".

    Returns:
        float32 [N, 576].

    Raises:
        ValueError: If the kv_cache_dtype is another one.

    """
    if kv_cache_dtype == "nvfp4_ds_mla":
        return decode_records(records).float()
    if kv_cache_dtype == "fp8_ds_mla":
        return decode_fp8_ds_mla(records).float()
    if kv_cache_dtype not in ("auto", "fp8"):
        raise ValueError(f"kv_cache_dtype: found {kv_cache_dtype!r}, allowed nvfp4_ds_mla, fp8_ds_mla, auto, fp8")
    return decode_alike(records, torch.tensor(scale, dtype=torch.float32, device=records.device)).float()


def _add(sums: _Sums, scores: Tensor, v: Tensor) -> _Sums:
    """Return the sums with keys added: scores [H, t, n] and values [H, n, v]."""
    most = torch.maximum(sums.most, scores.amax(dim=2))
    before, now = torch.exp(sums.most - most), torch.exp(scores - most[..., None])
    return _Sums(most, before * sums.weights + now.sum(dim=2), before[..., None] * sums.values + now @ v)


def _piece(kv_cache: Tensor, table_row: Tensor, start: int, length: int) -> Tensor:
    """Return the records of tokens [start, start + length) of the request with that row of the block table (PAGE-1)."""
    tokens = torch.arange(start, start + length, device=kv_cache.device)
    return kv_cache[table_row[tokens // kv_cache.shape[1]].long(), tokens % kv_cache.shape[1]]


def compute_prefill_context(
    q: Tensor,
    kv_cache: Tensor,
    kv_cache_dtype: str,
    scale: float,
    block_table: Tensor,
    chunked_context: Any,
    kv_b_proj: Tensor,
    softmax_scale: float,
) -> tuple[Tensor, Tensor]:
    """Attend to a batch's cached context, ATTEND-1 to ATTEND-6, on one rank.

    q is float32 [tokens, H, qk_nope_head_dim + 64]; kv_cache [num_blocks, block_size, n] as `read` takes it;
    block_table int32 [requests, max_blocks]; kv_b_proj float32 [H, qk_nope_head_dim + v_head_dim, 512]. chunked_context
    has the fields of PLAN.

    Returns:
        output float32 [tokens, H, v_head_dim] and LSE float32 [H, tokens] on the device of q.

    """
    nope = q.shape[2] - _ROPE
    size = kv_b_proj.shape[1] - nope
    of_request: dict[int, tuple[slice, _Sums]] = {}
    for chunk in chunked_context.chunks:
        first = chunk.token_slice.start
        for i, request in enumerate(range(chunk.request_slice.start, chunk.request_slice.stop)):
            mine = slice(first + chunk.query_start_loc[i], first + chunk.query_start_loc[i + 1])
            queries = q[mine].permute(1, 0, 2)
            rows = read(
                _piece(kv_cache, block_table[request], int(chunk.starts[i]), int(chunk.seq_lens[i])),
                kv_cache_dtype,
                scale,
            )
            made = kv_b_proj @ rows[:, :_LATENT].T  # [H, nope + size, n]
            scores = queries[..., :nope] @ made[:, :nope] + queries[..., nope:] @ rows[:, _LATENT:].T
            nothing = queries.new_zeros(queries.shape[:2])
            empty = _Sums(nothing - torch.inf, nothing, queries.new_zeros((*queries.shape[:2], size)))
            _, sums = of_request.get(request, (mine, empty))
            of_request[request] = (mine, _add(sums, scores * softmax_scale, made[:, nope:].transpose(1, 2)))
    output, lse = q.new_zeros((q.shape[0], q.shape[1], size)), q.new_full((q.shape[1], q.shape[0]), -torch.inf)
    for mine, sums in of_request.values():
        output[mine] = (sums.values / sums.weights[..., None]).permute(1, 0, 2)
        lse[:, mine] = sums.most + sums.weights.log()
    return output, lse
