"""Provide stand-ins for the objects that vLLM's prefill code reads before a gather. Needs no model and no GPU."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

import torch

from conformance.targets.vllm_release.names import TOPK_WORKSPACE
from fixtures.serve_cases import Context, cumulated
from reference.chunks import Chunk

HEADS, NOPE, VALUE, RANK, ROPE = 1, 2, 2, 512, 64
BLOCKS = 1  # the cache is never read

RECORD = {"nvfp4_ds_mla": (352, torch.uint8), "fp8_ds_mla": (656, torch.uint8), "auto": (576, torch.bfloat16)}
RECORD |= {"bfloat16": RECORD["auto"], "fp8": (576, torch.float8_e4m3fn), "fp8_e4m3": (576, torch.float8_e4m3fn)}


def _two(*_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(1), torch.zeros(1)


def _reorganised(*_: Any, sum_seq_len: int, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(sum_seq_len, 1, RANK), torch.zeros(sum_seq_len, 1, ROPE)


INERT: dict[str, Any] = {
    "init_mla_context_partial": _two,
    "accumulate_mla_context_chunk": _two,
    "neutralize_empty_context_partials": _two,
    "reorg_kvcache": _reorganised,
    "fused_mla_kv_concat": _two,
    "fused_mla_kv_concat_quant_fp8": _two,
    "triton_convert_req_index_to_global_index": lambda request, table, topk, *_, **__: (topk, topk[:, 0]),
    "_fp8_kv_pages": lambda cache, block_size: (cache, None),
    "get_flash_attn_version": lambda *_, **__: 4,
    "current_workspace_manager": None,  # by prepare, which knows how large
}
"""Replacements for functions that come after the gather, or that ask a device."""


class Platform:
    """Stand for a GPU of compute capability 10.0. Other questions go to the real platform."""

    def __init__(self, real: Any) -> None:
        """Take the release's platform."""
        self.real = real

    def is_cpu(self) -> bool:
        """Return False."""
        return False

    def is_device_capability_family(self, family: int) -> bool:
        """Return whether the device is of a family such as 100."""
        return family == 100

    def fp8_dtype(self) -> torch.dtype:
        """Return the dtype that CUDA uses."""
        return torch.float8_e4m3fn

    def __getattr__(self, name: str) -> Any:
        """Return the real platform's attribute."""
        return getattr(self.real, name)


class Layer:
    """Stand for `self` in a method of vLLM: the sizes of a small layer, and the other methods of its class."""

    def __init__(self, owner: type, kv_cache_dtype: str, case: Context) -> None:
        """Take `owner`, the class whose methods the layer has."""
        width, dtype = RECORD[kv_cache_dtype]
        self.owner = owner
        self.kv_cache_dtype = kv_cache_dtype
        self.kv_cache = torch.zeros(BLOCKS, case.block_size, width, dtype=dtype)
        ranks = case.sharding.ranks
        # Under decode context parallelism the workspace ends with room for all ranks' rows.
        rows = case.workspace_rows // ranks * (ranks + 1) if ranks > 1 else case.workspace_rows
        self.rows_dtype = {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}[case.workspace]
        self.workspace = torch.zeros(rows, RANK + ROPE, dtype=self.rows_dtype)
        self.kv_lora_rank, self.qk_rope_head_dim, self.qk_nope_head_dim, self.v_head_dim = RANK, ROPE, NOPE, VALUE
        self.num_heads = self.num_local_heads = HEADS
        self.dcp_world_size = ranks
        self.kv_b_proj = Projection()
        self._k_scale = torch.ones(1)
        self.index_group = None
        self.pcp_dcp_kv_gather = False
        self.workspace_specs: list[Any] = []

    def _attn_read_kv_cache(self) -> torch.Tensor:
        return self.kv_cache

    def _concat_k_nope_k_pe(self, k_nope: torch.Tensor, k_pe: torch.Tensor) -> torch.Tensor:
        return k_nope

    _project_kv = staticmethod(_two)
    _run_masked_mha = staticmethod(_two)

    def _remap_topk_to_ranges(self, *_: Any) -> list[Any]:
        return []

    def _bf16_flash_mla_kernel(self, q: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(q.shape[0], HEADS, RANK), torch.zeros(1)

    def __getattr__(self, name: str) -> Any:
        """Return another method of the class, bound to this layer."""
        found = getattr(self.owner, name)
        return found.__get__(self) if isinstance(found, FunctionType) else found


class Projection:
    """Stand for kv_b_proj."""

    weight = torch.zeros(1, dtype=torch.bfloat16)

    def __call__(self, latent: torch.Tensor) -> tuple[torch.Tensor]:
        """Return zeros in the shape of keys and values, bf16 [n, HEADS * (NOPE + VALUE)]."""
        return (torch.zeros(latent.shape[0], HEADS * (NOPE + VALUE), dtype=torch.bfloat16),)


class Attention:
    """Stand for a prefill backend."""

    def run_prefill_context_chunk(self, **_: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Return two dummy tensors [1]."""
        return torch.zeros(1), torch.zeros(1)

    def supports_out(self) -> bool:
        """Return False, since the backend returns new tensors."""
        return False


def prepare(site: str, method: Callable[..., Any], layer: Layer, case: Context) -> Callable[[], object] | None:
    """Return a call of a site's method with stand-ins, or None if the site never serves that kv_cache_dtype."""
    queries = torch.zeros(sum(case.query_lens), HEADS, NOPE + ROPE, dtype=layer.rows_dtype)
    if site == "sparse_topk":
        return _topk(method, layer, case, queries)
    prefill = SimpleNamespace(
        q_data_type=layer.rows_dtype,
        output_dtype=torch.bfloat16,
        block_table=torch.tensor(case.block_table, dtype=torch.int32),
        prefill_backend=Attention(),
        topk_mask_workspace=None,
        chunked_context=SimpleNamespace(
            workspace=layer.workspace,
            chunks=[_chunk(case, number, chunk) for number, chunk in enumerate(case.chunks(site))],
            context_lens_list=list(case.context_lens),
            empty_token_slices=[],
            dcp_manager=SimpleNamespace(kv_gather=lambda gathered, local: None),
        ),
    )
    metadata = SimpleNamespace(prefill=prefill)
    cache, scale = layer.kv_cache, layer._k_scale
    if site == "kimi_k3":
        return lambda: method(layer, queries, metadata)
    if site == "sparse_masked":
        serves = method.__globals__.get("_is_masked_mha_available", lambda *_: True)
        if not serves(128, RANK, 128, ROPE, 128, layer.kv_cache_dtype):
            return None
        requests = len(case.query_lens)
        none: list[None] = [None] * requests
        return lambda: method(layer, queries, cache, prefill, scale, list(case.query_lens), none)
    if site == "dcp":
        return lambda: method(layer, queries, cache, metadata, scale, case.sharding.ranks)
    return lambda: method(layer, queries, cache, metadata, scale)


def _chunk(case: Context, number: int, chunk: Chunk) -> SimpleNamespace:
    starts, rows = case.local(chunk)
    first, end = chunk.request_start, chunk.request_end
    before, sharding = cumulated(case.query_lens), case.sharding
    requests = range(end - first)
    return SimpleNamespace(
        index=number,
        num_requests=end - first,
        request_slice=slice(first, end),
        token_slice=slice(before[first], before[end]),
        continuation_token_end=before[first + 1],
        is_continuation=chunk.is_continuation,
        num_context_tokens=sum(chunk.seq_lens),
        query_start_loc=_ints([n - before[first] for n in before[first : end + 1]]),
        max_query_len=max(case.query_lens[first:end]),
        cu_seq_lens=_ints(cumulated(chunk.seq_lens)),
        starts=_ints(starts),
        max_seq_len=max(chunk.seq_lens),
        seq_lens=_ints(chunk.seq_lens),
        token_to_seq=_ints([r for r in requests for _ in range(chunk.seq_lens[r])]),
        all_rows_active=True,
        padded_local_seq_lens=list(rows),
        local_context_lens_allranks=[
            [sharding.local_length(case.context_lens[request], rank) for rank in range(sharding.ranks)]
            for request in range(first, end)
        ],
        padded_local_cu_seq_lens=_ints(cumulated(rows)),
        padded_local_token_to_seq=_ints([r for r in requests for _ in range(rows[r])]),
        num_local_context_tokens=sum(rows),
        local_starts=list(starts),
    )


def _topk(
    method: Callable[..., Any], layer: Layer, case: Context, queries: torch.Tensor
) -> Callable[[], object] | None:
    names = method.__globals__
    if layer.kv_cache_dtype not in names["QUANTIZED_DS_MLA_CACHE_FORMATS"]:
        return None
    extra = names["FlashMLASparseMetadata"].FP8SeparatePrefillDecode
    table, before = torch.tensor(case.block_table, dtype=torch.int32), cumulated(case.query_lens)
    chunks = [
        SimpleNamespace(
            tokens_slice=slice(before[chunk.request_start], before[chunk.request_end]),
            block_table=table[chunk.request_start : chunk.request_end],
            req_start_idx=chunk.request_start,
            workspace_starts=_ints(cumulated(chunk.seq_lens)[:-1]),
            chunk_tot_seqlen=sum(chunk.seq_lens),
            seq_lens=None,
        )
        for chunk in case.chunks("sparse_topk")
    ]
    tokens = queries.shape[0]
    prefill = SimpleNamespace(request_ids=None, workspace_starts=None, chunks=chunks)
    metadata = SimpleNamespace(
        fp8_extra_metadata=extra(len(chunks), 0, tokens, 0, None, prefill),
        block_size=case.block_size,
        block_table=table,
        req_id_per_token=torch.zeros(tokens, dtype=torch.int32),
    )
    out = torch.zeros(tokens, HEADS, RANK)
    layer.workspace = torch.zeros(max(chunk.chunk_tot_seqlen for chunk in chunks), RANK + ROPE, dtype=torch.bfloat16)
    setattr(layer, TOPK_WORKSPACE, layer.workspace)
    room = (None, layer.workspace, None, out, out)
    names["current_workspace_manager"] = lambda: SimpleNamespace(get_simultaneous=lambda *_: room)
    topk = torch.zeros(tokens, 1, dtype=torch.int32)
    return lambda: method(layer, queries, layer.kv_cache, topk, metadata)


def _ints(values: Any) -> torch.Tensor:
    return torch.tensor(list(values), dtype=torch.int32)
