"""Judge the two golden models as targets: they must pass the gate."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from conformance.memory import ArrayMemory, TorchMemory
from conformance.targets.base import (
    ATTEND,
    GATHER,
    GATHER_FP8,
    GATHER_FP8_STARTS,
    GATHER_GENERIC,
    GATHER_GENERIC_STARTS,
    GATHER_STARTS,
    MERGE,
    PLANNING,
    WRITES,
    Target,
)
from reference import chunks, context, context_metadata, gather, merging, workspace, writing
from reference.profiles import DEFAULT, Profile
from reference.shards import Sharding

EVERY_GATHER = frozenset({GATHER, GATHER_STARTS, GATHER_FP8, GATHER_FP8_STARTS, GATHER_GENERIC, GATHER_GENERIC_STARTS})


class NumpyTarget(Target):
    """Run the golden model in NumPy."""

    name = "numpy"
    capabilities = frozenset({*EVERY_GATHER, *WRITES.values(), *PLANNING, MERGE, ATTEND})

    def __init__(self, *, profile: Profile = DEFAULT) -> None:
        """Use NumPy arrays on the CPU, and write with `profile`."""
        self.slow, self.crash_prone = True, False  # and right by definition
        self.memory = ArrayMemory()
        self.profile = profile

    def describe(self) -> str:
        """See Target."""
        return f"the golden model, NumPy {np.__version__}, {platform.machine()}"

    def receipt(self) -> dict[str, Any]:
        """See Target."""
        return {"device": "cpu", "numpy": np.__version__}

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """See Target."""
        gather.cp_gather_and_upconvert_nvfp4_kv_cache(
            src_cache, dst, block_table, workspace_starts, batch_size, seq_starts
        )

    def cp_gather_and_upconvert_fp8_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """See Target."""
        gather.cp_gather_and_upconvert_fp8_kv_cache(
            src_cache, dst, block_table, workspace_starts, batch_size, seq_starts
        )

    def gather_and_maybe_dequant_cache(
        self,
        src_cache: Any,
        dst: Any,
        block_table: Any,
        cu_seq_lens: Any,
        token_to_seq: Any,
        num_tokens: int,
        kv_cache_dtype: str,
        scale: Any,
        seq_starts: Any = None,
    ) -> None:
        """See Target."""
        gather.gather_and_maybe_dequant_cache(
            src_cache, dst, block_table, cu_seq_lens, token_to_seq, num_tokens, kv_cache_dtype, scale, seq_starts
        )

    def concat_and_cache_mla(
        self, kv_c: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, kv_cache_dtype: str, scale: Any
    ) -> None:
        """See Target."""
        writing.concat_and_cache_mla(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale, self.profile)

    def compute_prefill_context(
        self,
        q: Any,
        kv_cache: Any,
        kv_cache_dtype: str,
        scale: float,
        block_table: Any,
        chunked_context: Any,
        kv_b_proj: Any,
        softmax_scale: float,
    ) -> tuple[Any, Any]:
        """See Target."""
        rows = context.gather_from(kv_cache, kv_cache_dtype, scale, block_table)
        return context.compute_prefill_context(q, rows, chunked_context, kv_b_proj, softmax_scale)

    def merge_attn_states(
        self,
        output: Any,
        prefix_output: Any,
        prefix_lse: Any,
        suffix_output: Any,
        suffix_lse: Any,
        output_lse: Any = None,
    ) -> None:
        """See Target."""
        merging.merge_attn_states(output, prefix_output, prefix_lse, suffix_output, suffix_lse, output_lse)

    def plan_mla_context_chunks(
        self,
        context_lens: Sequence[int],
        row_budget: int,
        max_context_chunk: int,
        split_alignment: int,
        padded_rows: Callable[[int], int],
    ) -> Sequence[Any]:
        """See Target."""
        return chunks.plan_mla_context_chunks(context_lens, row_budget, max_context_chunk, split_alignment, padded_rows)

    def build_mla_chunked_context_metadata(
        self,
        context_lens: Sequence[int],
        query_start_loc: Sequence[int],
        workspace_rows: int,
        block_size: int,
        align_chunk_to_block: bool,
        dcp_world_size: int,
        interleave: int,
    ) -> Any:
        """See Target."""
        sharding = Sharding(dcp_world_size, interleave)
        return context_metadata.build_mla_chunked_context_metadata(
            context_lens, query_start_loc, workspace_rows, block_size, align_chunk_to_block, sharding
        )

    def determine_chunked_prefill_workspace_size(
        self,
        builder: Literal["dense", "sparse"],
        max_model_len: int,
        max_num_seqs: int,
        block_size: int,
        index_topk: int,
        dcp_world_size: int,
        interleave: int,
    ) -> int:
        """See Target."""
        sharding = Sharding(dcp_world_size, interleave)
        return workspace.determine_chunked_prefill_workspace_size(
            builder, max_model_len, max_num_seqs, block_size, index_topk, sharding
        )


class TorchTarget(Target):
    """Run the second model, on the CPU or, as `torch:cuda`, on a GPU."""

    is_gpu_code = False  # a model may allocate, wait and look at numbers, wherever its arrays lie
    capabilities = frozenset({*EVERY_GATHER, *WRITES.values(), MERGE, ATTEND})

    def __init__(self, device: str = "cpu", *, profile: Profile = DEFAULT) -> None:
        """Take torch's name of the device."""
        self.device, self.profile = device, profile
        self.slow, self.crash_prone = device == "cpu", False
        self.name = "torch" if device == "cpu" else f"torch:{device}"
        self.memory = TorchMemory(device)

    def unavailable(self) -> str | None:
        """See Target."""
        try:
            import torch
        except ImportError as error:
            return f"torch cannot be imported: {error}"
        if self.device.startswith("cuda") and not torch.cuda.is_available():
            return "torch sees no CUDA device"
        return None

    def describe(self) -> str:
        """See Target."""
        import torch

        return f"the second model, torch {torch.__version__} on {self.device}"

    def receipt(self) -> dict[str, Any]:
        """See Target."""
        import torch

        return {"device": self.device, "torch": str(torch.__version__)}

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """See Target."""
        from reference import torch_model

        torch_model.cp_gather_and_upconvert_nvfp4_kv_cache(
            src_cache, dst, block_table, workspace_starts, batch_size, seq_starts
        )

    def cp_gather_and_upconvert_fp8_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """See Target."""
        from reference import torch_twins

        torch_twins.cp_gather_and_upconvert_fp8_kv_cache(
            src_cache, dst, block_table, workspace_starts, batch_size, seq_starts
        )

    def gather_and_maybe_dequant_cache(
        self,
        src_cache: Any,
        dst: Any,
        block_table: Any,
        cu_seq_lens: Any,
        token_to_seq: Any,
        num_tokens: int,
        kv_cache_dtype: str,
        scale: Any,
        seq_starts: Any = None,
    ) -> None:
        """See Target."""
        from reference import torch_twins

        torch_twins.gather_and_maybe_dequant_cache(
            src_cache, dst, block_table, cu_seq_lens, token_to_seq, num_tokens, kv_cache_dtype, scale, seq_starts
        )

    def concat_and_cache_mla(
        self, kv_c: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, kv_cache_dtype: str, scale: Any
    ) -> None:
        """See Target."""
        from reference import torch_writer

        torch_writer.concat_and_cache_mla(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale, self.profile)

    def compute_prefill_context(
        self,
        q: Any,
        kv_cache: Any,
        kv_cache_dtype: str,
        scale: float,
        block_table: Any,
        chunked_context: Any,
        kv_b_proj: Any,
        softmax_scale: float,
    ) -> tuple[Any, Any]:
        """See Target."""
        import torch

        from reference import torch_context

        bf16 = kv_cache.dtype == np.uint16
        cache = torch.from_numpy(kv_cache.view(np.int16)).view(torch.bfloat16) if bf16 else torch.from_numpy(kv_cache)
        queries, table, weights = (torch.from_numpy(a).to(self.device) for a in (q, block_table, kv_b_proj))
        output, lse = torch_context.compute_prefill_context(
            queries, cache.to(self.device), kv_cache_dtype, scale, table, chunked_context, weights, softmax_scale
        )
        return output.cpu().numpy(), lse.cpu().numpy()

    def merge_attn_states(
        self,
        output: Any,
        prefix_output: Any,
        prefix_lse: Any,
        suffix_output: Any,
        suffix_lse: Any,
        output_lse: Any = None,
    ) -> None:
        """See Target."""
        from reference import torch_merging

        torch_merging.merge_attn_states(output, prefix_output, prefix_lse, suffix_output, suffix_lse, output_lse)
