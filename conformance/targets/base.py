"""What a target is: a name, what it can do, where its arrays live, and the operators themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

from conformance.memory import Memory
from reference.profiles import DEFAULT, Profile

GATHER = "gather.nvfp4"
GATHER_STARTS = "gather.nvfp4.seq_starts"
WRITE_NVFP4, WRITE_FP8, WRITE_GENERIC = "write.nvfp4", "write.fp8", "write.generic"

PLAN = "plan"

WRITES = {"nvfp4_ds_mla": WRITE_NVFP4, "fp8_ds_mla": WRITE_FP8, "auto": WRITE_GENERIC, "fp8": WRITE_GENERIC}
"""What a writer needs for each kv_cache_dtype."""


class Target:
    """A judged implementation. Derive from it, name the capabilities, and implement their operators.

    An operator gets arrays of `memory` and either works, or raises. Only a call that SPEC.md calls malformed may raise.
    """

    name: str
    capabilities: ClassVar[frozenset[str]] = frozenset()
    nan: Literal["canonical", "any"] = "canonical"
    """Whether each NaN read must be 0x7FFF, or may be any NaN (SPEC.md READ-6)."""
    profile: Profile = DEFAULT
    """How its writers quantize (SPEC.md WRITE)."""
    memory: Memory
    most_workers: int | None = None
    """How many processes may run the target at a time on one machine, where `-n auto` would start more; None: any."""

    @property
    def is_gpu_code(self) -> bool:
        """Whether SPEC.md's chapter DEVICE binds it: as a rule, if its arrays lie on a CUDA device."""
        return self.memory.on_device

    def unavailable(self) -> str | None:
        """Why this machine cannot run the target, in one line; None if it can."""
        return None

    def describe(self) -> str:
        """Where it runs, for people: a device or a compiler and processor."""
        raise NotImplementedError

    def offers(self) -> frozenset[str]:
        """What --require may ask for: the capabilities, and on a GPU `cuda` and its architecture, such as sm_100."""
        return self.capabilities

    def receipt(self) -> dict[str, Any]:
        """What really ran, for reports: versions, device, hashes, launches; JSON types only."""
        return {}

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """SPEC.md GATHER; needs the capability gather.nvfp4, and gather.nvfp4.seq_starts if seq_starts is not None."""
        raise NotImplementedError

    def concat_and_cache_mla(
        self, kv_c: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, kv_cache_dtype: str, scale: Any
    ) -> None:
        """SPEC.md WRITE; needs the capability that WRITES names for kv_cache_dtype."""
        raise NotImplementedError

    def plan_mla_context_chunks(
        self,
        context_lens: Sequence[int],
        row_budget: int,
        max_context_chunk: int,
        split_alignment: int,
        padded_rows: Callable[[int], int],
    ) -> Sequence[Any]:
        """SPEC.md PLAN; needs the capability plan. The chunks have the attributes that PLAN names."""
        raise NotImplementedError
