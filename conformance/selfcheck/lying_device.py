"""Targets on a GPU whose receipts, or silence, hide that something else ran. All gather rightly."""

from typing import Any

import numpy as np

from conformance.targets.kernels import CudaTarget
from kernels.ops import Operators
from reference.gather import cp_gather_and_upconvert_nvfp4_kv_cache


class OnTheCPU(CudaTarget):
    """Copies everything to the host and back, and counts no launches."""

    def launches(self) -> None:  # type: ignore[override]
        return None

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        import cupy

        rows = np.empty(dst.shape, np.uint16)
        cache, table, rows_of = (cupy.asnumpy(array) for array in (src_cache, block_table, workspace_starts))
        starts = None if seq_starts is None else cupy.asnumpy(seq_starts)
        cp_gather_and_upconvert_nvfp4_kv_cache(cache, rows, table, rows_of, batch_size, starts)
        for number in range(len(rows) if batch_size else 0):
            dst[number].set(rows[number])  # a copy, for which no kernel runs


class AnotherKernel(CudaTarget):
    """Says that it is the tuned kernel, and is the plain one."""

    def __init__(self) -> None:
        super().__init__()
        self.operators = Operators(None, "plain")

    def receipt(self) -> dict[str, Any]:
        return {**super().receipt(), "kernel": "nvfp4_gather_tuned"}


class AnotherInTheEnd(CudaTarget):
    """Is another kernel from its 40th call on."""

    calls = 0

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, *args: Any, **more: Any) -> None:
        self.calls += 1
        if self.calls == 40:
            self.operators = Operators(None, "plain")
        super().cp_gather_and_upconvert_nvfp4_kv_cache(*args, **more)

    def launches(self) -> None:  # type: ignore[override]
        return None

    def receipt(self) -> dict[str, Any]:
        return {"device": "the first GPU"}
