"""Judge the CUDA sources of this project as targets: built for the CPU (`host`) or run on a GPU (`cuda`)."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

from conformance.memory import ArrayMemory, Memory
from conformance.targets.base import (
    GATHER,
    GATHER_FP8,
    GATHER_FP8_STARTS,
    GATHER_GENERIC,
    GATHER_GENERIC_STARTS,
    GATHER_STARTS,
    MERGE,
    WRITES,
    Target,
)
from kernels.catalog import DEFAULT
from kernels.ops import Operators
from kernels.quantization import Quantization
from kernels.sources import sources_root
from kernels.writer import Writer
from reference.profiles import DEFAULT as RELEASED
from reference.profiles import Profile


class KernelTarget(Target):
    """Run the project's operators with one gather kernel and one quantization.

    With a parameter, as in `host:DIR` and `cuda-plain:DIR`, the sources come from that folder.
    """

    capabilities = frozenset(
        {
            *(GATHER, GATHER_STARTS),
            *(GATHER_FP8, GATHER_FP8_STARTS),
            *(GATHER_GENERIC, GATHER_GENERIC_STARTS),
            *WRITES.values(),
            MERGE,
        }
    )

    def __init__(self, place: str, memory: Memory, sources: str | None, kernel: str, profile: Profile) -> None:
        """Take `sources`, a folder with cuda/ and host/ as in kernels/, or None for the project's sources."""
        variants = ([] if kernel == DEFAULT else [kernel]) + ([] if profile == RELEASED else [profile.name])
        name = "-".join([place, *variants])
        self.name = name if sources is None else f"{name}:{sources}"
        self.memory, self.profile = memory, profile
        self.crash_prone = sources is not None
        root = None if sources is None else sources_root(Path(sources))
        self.operators = Operators(root, kernel)
        self.writer = Writer(root, quantization_of(profile))

    def receipt(self) -> dict[str, Any]:
        """See Target."""
        return {**self.operators.receipt(), "writer": self.writer.receipt()}

    def launches(self) -> dict[str, int]:
        """See Target."""
        return {**self.operators.launches(), **self.writer.launches()}

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """See Target."""
        self.operators.cp_gather_and_upconvert_nvfp4_kv_cache(
            src_cache, dst, block_table, workspace_starts, batch_size, seq_starts
        )

    def cp_gather_and_upconvert_fp8_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """See Target."""
        self.operators.cp_gather_and_upconvert_fp8_kv_cache(
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
        self.operators.gather_and_maybe_dequant_cache(
            src_cache, dst, block_table, cu_seq_lens, token_to_seq, num_tokens, kv_cache_dtype, scale, seq_starts
        )

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
        self.operators.merge_attn_states(output, prefix_output, prefix_lse, suffix_output, suffix_lse, output_lse)

    def concat_and_cache_mla(
        self, kv_c: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, kv_cache_dtype: str, scale: Any
    ) -> None:
        """See Target."""
        self.writer.concat_and_cache_mla(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale)


def quantization_of(profile: Profile) -> Quantization:
    """Return the Quantization of kernels/ for a profile."""
    return Quantization(profile.nan, profile.sixth, profile.scale, profile.normalisation, profile.tile)


class HostTarget(KernelTarget):
    """Run the CUDA sources on the CPU, built as C++."""

    def __init__(self, sources: str | None = None, *, kernel: str = DEFAULT, profile: Profile = RELEASED) -> None:
        """See KernelTarget."""
        super().__init__("host", ArrayMemory(), sources, kernel, profile)

    def unavailable(self) -> str | None:
        """See Target."""
        from kernels.headers import MissingHeaders, host_include_dirs
        from kernels.host_build import BuildError, compiler_version

        try:
            compiler_version()
            host_include_dirs()
        except (BuildError, MissingHeaders) as error:
            return str(error)
        return None

    def describe(self) -> str:
        """See Target."""
        from kernels.host_build import compiler_version

        return f"the CUDA sources on the CPU, {compiler_version()}, {platform.machine()}"


class CudaTarget(KernelTarget):
    """Run the CUDA sources on the current device, built by CuPy's RawModule."""

    is_gpu_code = True  # also where there is no device: "not judged" is the word for that

    def __init__(self, sources: str | None = None, *, kernel: str = DEFAULT, profile: Profile = RELEASED) -> None:
        """See KernelTarget."""
        super().__init__("cuda", _cupy_memory(), sources, kernel, profile)

    def unavailable(self) -> str | None:
        """See Target."""
        return why_no_device()

    def offers(self) -> frozenset[str]:
        """See Target."""
        import cupy

        return self.capabilities | {"cuda", f"sm_{cupy.cuda.Device().compute_capability}"}

    def describe(self) -> str:
        """See Target."""
        import cupy

        device = cupy.cuda.Device()
        name = cupy.cuda.runtime.getDeviceProperties(device.id)["name"].decode()
        return f"{name}, sm_{device.compute_capability}"


def why_no_device() -> str | None:
    """Return why CuPy has no CUDA device, in one line, or None if it has one."""
    try:
        import cupy
    except ImportError as error:
        return f"cupy cannot be imported: {error}"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CUDA says: {error}"
    return None if count else "no CUDA device is visible"


def _cupy_memory() -> Memory:
    if why_no_device() is not None:
        return ArrayMemory()  # never used: an unavailable target is asked nothing
    import cupy

    return ArrayMemory("cupy", cupy)
