"""The two golden models as targets: they must pass their own gate."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from conformance.memory import ArrayMemory, TorchMemory
from conformance.targets.base import GATHER, GATHER_FP8, GATHER_FP8_STARTS, GATHER_STARTS, PLANNING, WRITES, Target
from reference import chunks, context_metadata, gather, workspace, writing
from reference.profiles import DEFAULT, Profile
from reference.shards import Sharding


class NumpyTarget(Target):
    """The golden model itself."""

    name = "numpy"
    capabilities = frozenset({GATHER, GATHER_STARTS, GATHER_FP8, GATHER_FP8_STARTS, *WRITES.values(), *PLANNING})

    def __init__(self, *, profile: Profile = DEFAULT) -> None:
        """NumPy arrays on the CPU."""
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

    def concat_and_cache_mla(
        self, kv_c: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, kv_cache_dtype: str, scale: Any
    ) -> None:
        """See Target."""
        writing.concat_and_cache_mla(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale, self.profile)

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
    """The second model, on the CPU or, as `torch:cuda`, on a GPU."""

    is_gpu_code = False  # a model may allocate, wait and look at numbers, wherever its arrays lie
    capabilities = frozenset({GATHER, GATHER_STARTS, *WRITES.values()})

    def __init__(self, device: str = "cpu", *, profile: Profile = DEFAULT) -> None:
        """`device` is torch's name of it."""
        self.device, self.profile = device, profile
        self.name = "torch" if device == "cpu" else f"torch:{device}"
        self.memory = TorchMemory(device)

    def unavailable(self) -> str | None:
        """See Target."""
        import torch

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

    def concat_and_cache_mla(
        self, kv_c: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, kv_cache_dtype: str, scale: Any
    ) -> None:
        """See Target."""
        from reference import torch_writer

        torch_writer.concat_and_cache_mla(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale, self.profile)
