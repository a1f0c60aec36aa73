"""Run vLLM's loop over chunks of context, and its merge, on a CPU with golden gathers and plain attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.targets.base import ATTEND, MERGE
from conformance.targets.vllm_release import names
from conformance.targets.vllm_release.replacing import replaced
from reference.context_metadata import ContextMetadata

LATENT = 512


class Attending:
    """Serve `attend` and `merge` with the code of the installed release.

    The release's code chooses the gather operators and their arguments, slices the workspace, and accumulates the
    partial results. The gathers, the projection and the attention of a chunk are the suite's.
    """

    def attend_capabilities(self) -> frozenset[str]:
        """Return merge and attend, if the release has their code."""
        found = {MERGE} if names.first_of(names.MERGING) else set()
        return frozenset(found | ({ATTEND} if names.first_of(names.GATHER_SITES["dense"]) else set()))

    def attend_receipt(self) -> dict[str, Any]:
        """Return the qualified names of the functions that will run."""
        found = {"merge": names.first_of(names.MERGING), "attend": names.first_of(names.GATHER_SITES["dense"])}
        return {name: f"{f.__module__}.{f.__qualname__}" if f else None for name, f in found.items()}

    def merge_attn_states(
        self,
        output: Any,
        prefix_output: Any,
        prefix_lse: Any,
        suffix_output: Any,
        suffix_lse: Any,
        output_lse: Any = None,
    ) -> None:
        """See Target. It runs the release's choice for this platform, which without a device is torch's arithmetic."""
        merge = names.first_of(names.MERGING)
        with on_a_cpu_if_there_is_no_device(merge):
            merge(output, prefix_output, prefix_lse, suffix_output, suffix_lse, output_lse)

    def compute_prefill_context(
        self,
        q: npt.NDArray[np.float32],
        kv_cache: npt.NDArray[Any],
        kv_cache_dtype: str,
        scale: float,
        block_table: npt.NDArray[np.int32],
        chunked_context: ContextMetadata,
        kv_b_proj: npt.NDArray[np.float32],
        softmax_scale: float,
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """See Target."""
        import torch

        from conformance.targets.vllm_release import stand_ins

        method = names.first_of(names.GATHER_SITES["dense"])
        module = method.__globals__
        owner = names.first_of([(method.__module__, method.__qualname__.rpartition(".")[0])])
        layer = _Layer(owner, kv_cache_dtype, kv_b_proj, q.shape[-1] - (576 - LATENT))
        rows = max(chunk.num_context_tokens for chunk in chunked_context.chunks)
        metadata = _metadata(chunked_context, block_table, softmax_scale, rows)
        cache = torch.from_numpy(kv_cache)
        if kv_cache.dtype == np.uint16:
            cache = torch.from_numpy(kv_cache.view(np.int16)).view(torch.bfloat16)
        instead = {names.GATHER_OPERATORS: GoldenOperators(), "get_flash_attn_version": lambda *_, **__: 4}
        if "current_platform" in module:
            instead["current_platform"] = stand_ins.Platform(module["current_platform"])
        merging = module.get("merge_attn_states")
        with replaced(module, instead), on_a_cpu_if_there_is_no_device(merging):
            output, lse = method(layer, torch.from_numpy(q), cache, metadata, torch.tensor([scale]))
        return output.numpy(), lse.numpy()


class GoldenOperators:
    """Provide the golden gathers under the names that the release calls, for CPU tensors."""

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, *arguments: Any, **named: Any) -> None:
        """Gather nvfp4_ds_mla records (SPEC.md GATHER)."""
        from reference.gather import cp_gather_and_upconvert_nvfp4_kv_cache as gather

        _on_arrays(gather, arguments, named)

    def cp_gather_and_upconvert_fp8_kv_cache(self, *arguments: Any, **named: Any) -> None:
        """Gather fp8_ds_mla records (SPEC.md TWIN-1 to TWIN-4)."""
        from reference.gather import cp_gather_and_upconvert_fp8_kv_cache as gather

        _on_arrays(gather, arguments, named)

    def gather_and_maybe_dequant_cache(self, *arguments: Any, **named: Any) -> None:
        """Gather generic records (SPEC.md TWIN-5 to TWIN-9). Raises ValueError for an unknown kv_cache_dtype."""
        from reference.gather import gather_and_maybe_dequant_cache as gather

        _on_arrays(gather, arguments, named)


def _on_arrays(gather: Callable[..., None], arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    gather(*map(_array, arguments), **{name: _array(each) for name, each in named.items()})


def _array(value: Any) -> Any:
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    bf16 = value.dtype == torch.bfloat16
    return value.view(torch.int16).numpy().view(np.uint16) if bf16 else value.numpy()


class _Layer:
    """Stand for `self` of the release's method: the sizes of a small layer, a projection, and the other methods."""

    def __init__(self, owner: type, kv_cache_dtype: str, kv_b_proj: npt.NDArray[np.float32], nope: int) -> None:
        import torch

        self.owner, self.kv_cache_dtype = owner, kv_cache_dtype
        self.num_heads, both, self.kv_lora_rank = kv_b_proj.shape
        self.num_local_heads = self.num_heads
        self.qk_rope_head_dim, self.qk_nope_head_dim, self.v_head_dim = 576 - LATENT, nope, both - nope
        self._use_flashinfer_concat_mla_k = False
        weight = torch.from_numpy(kv_b_proj).reshape(-1, LATENT).double()
        self.kv_b_proj = _Projection(weight)

    def __getattr__(self, name: str) -> Any:
        """Return another method of the class, bound to this layer."""
        found = getattr(self.owner, name)
        return found.__get__(self) if isinstance(found, FunctionType) else found


class _Projection:
    """Apply kv_b_proj, summed in binary64 and rounded once to binary32."""

    def __init__(self, weight: Any) -> None:
        self.wide, self.weight = weight, weight.float()

    def __call__(self, latent: Any) -> tuple[Any]:
        return ((latent.double() @ self.wide.T).float(),)


def _metadata(context: ContextMetadata, block_table: npt.NDArray[np.int32], softmax_scale: float, rows: int) -> Any:
    import torch

    workspace = torch.full((rows + 3, 576), torch.nan, dtype=torch.bfloat16)
    chunked = SimpleNamespace(
        workspace=workspace,
        chunks=[_chunk(chunk) for chunk in context.chunks],
        context_lens_list=list(context.context_lens),
        empty_token_slices=list(context.empty_token_slices),
    )
    prefill = SimpleNamespace(
        q_data_type=torch.bfloat16,  # not fp8, which is all that is asked
        output_dtype=torch.float32,
        block_table=torch.from_numpy(block_table),
        prefill_backend=_Backend(softmax_scale),
        chunked_context=chunked,
    )
    return SimpleNamespace(prefill=prefill)


_TENSORS = ("query_start_loc", "cu_seq_lens", "starts", "seq_lens", "token_to_seq")


def _chunk(chunk: Any) -> SimpleNamespace:
    import torch

    whole = ("request_slice", "token_slice", "continuation_token_end", "is_continuation", "num_context_tokens")
    figures = {name: getattr(chunk, name) for name in (*whole, "max_query_len", "max_seq_len")}
    tensors = {name: torch.tensor(list(getattr(chunk, name)), dtype=torch.int32) for name in _TENSORS}
    return SimpleNamespace(**figures, **tensors, num_requests=len(chunk.seq_lens), all_rows_active=True)


class _Backend:
    """Attend from a chunk's queries to its keys, request by request, without a mask."""

    def __init__(self, softmax_scale: float) -> None:
        self.softmax_scale = softmax_scale

    def run_prefill_context_chunk(self, chunk: Any, q: Any, k: Any, v: Any, **_: Any) -> tuple[Any, Any]:
        import torch

        outputs, lses = [], []
        queries, rows = chunk.query_start_loc.tolist(), chunk.cu_seq_lens.tolist()
        for piece in range(chunk.num_requests):
            mine = q[queries[piece] : queries[piece + 1]]
            keys = slice(rows[piece], rows[piece + 1])
            scores = torch.einsum("thd,nhd->htn", mine, k[keys]) * self.softmax_scale
            lses.append(torch.logsumexp(scores, dim=-1))
            outputs.append(torch.einsum("htn,nhd->thd", torch.softmax(scores, dim=-1), v[keys]))
        return torch.cat(outputs), torch.cat(lses, dim=1)

    def supports_out(self) -> bool:
        """Return False, since the backend returns new tensors."""
        return False


class _CpuPlatform:
    """Stand for a platform that is a CPU."""

    def __getattr__(self, name: str) -> Callable[..., bool]:
        return lambda *_, **__: name == "is_cpu"


@contextmanager
def on_a_cpu_if_there_is_no_device(merge: Any) -> Iterator[None]:
    """Make a merge function's module see a CPU if torch sees no device. vLLM's platform is unspecified then."""
    import torch

    module = getattr(merge, "__globals__", {})
    instead = {} if torch.cuda.is_available() else {"current_platform": _CpuPlatform()}
    with replaced(module, instead):
        yield
