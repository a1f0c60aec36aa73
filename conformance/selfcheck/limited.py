"""Targets that can do less than others, or get one thing wrong: what else they do is right."""

from typing import Any

from conformance.targets.base import GATHER, WRITE_NVFP4
from conformance.targets.kernels import HostTarget
from conformance.targets.models import NumpyTarget


class BareGather(HostTarget):
    """As vLLM's released gather: it takes no seq_starts."""

    name = "bare gather"
    capabilities = frozenset({GATHER})


class BareGatherAndWriter(HostTarget):
    """The same beside the writer of its records."""

    name = "bare gather and writer"
    capabilities = frozenset({GATHER, WRITE_NVFP4})


class LaunchesEmptyGrids(NumpyTarget):
    """Raises where there is no row, request or token."""

    name = "launches empty grids"

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, *, dst: Any, batch_size: int, **more: Any) -> None:  # type: ignore[override]
        _launch(len(dst) * batch_size)
        super().cp_gather_and_upconvert_nvfp4_kv_cache(dst=dst, batch_size=batch_size, **more)

    def cp_gather_and_upconvert_fp8_kv_cache(self, *, dst: Any, batch_size: int, **more: Any) -> None:  # type: ignore[override]
        _launch(len(dst) * batch_size)
        super().cp_gather_and_upconvert_fp8_kv_cache(dst=dst, batch_size=batch_size, **more)

    def gather_and_maybe_dequant_cache(self, *, num_tokens: int, **more: Any) -> None:  # type: ignore[override]
        _launch(num_tokens)
        super().gather_and_maybe_dequant_cache(num_tokens=num_tokens, **more)

    def concat_and_cache_mla(self, *, slot_mapping: Any, **more: Any) -> None:  # type: ignore[override]
        _launch(len(slot_mapping))
        super().concat_and_cache_mla(slot_mapping=slot_mapping, **more)

    def merge_attn_states(self, *, output: Any, **more: Any) -> None:  # type: ignore[override]
        _launch(len(output))
        super().merge_attn_states(output=output, **more)


def _launch(grid: int) -> None:
    if grid == 0:
        raise RuntimeError("invalid configuration argument")


class IgnoresStarts(NumpyTarget):
    """Gathers from the first token on, whatever the start."""

    name = "ignores starts"

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, *, seq_starts: Any = None, **more: Any) -> None:  # type: ignore[override]
        super().cp_gather_and_upconvert_nvfp4_kv_cache(**more)


class RoundsStarts(NumpyTarget):
    """Rounds a start down to its block."""

    name = "rounds starts"

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, *, src_cache: Any, seq_starts: Any = None, **more: Any) -> None:  # type: ignore[override]
        size = src_cache.shape[1]
        first = None if seq_starts is None else seq_starts // size * size
        super().cp_gather_and_upconvert_nvfp4_kv_cache(src_cache=src_cache, seq_starts=first, **more)


class TakesRowsToBePacked(NumpyTarget):
    """Writes a wrong number where rows of dst stand apart."""

    name = "takes rows to be packed"

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, *, dst: Any, **more: Any) -> None:  # type: ignore[override]
        super().cp_gather_and_upconvert_nvfp4_kv_cache(dst=dst, **more)
        if len(dst) and dst.strides[0] != dst.shape[1] * dst.itemsize:
            dst[0, 0] ^= 1
