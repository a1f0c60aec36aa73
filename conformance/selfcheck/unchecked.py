"""Gathers without argument checks."""

import os
import signal
from contextlib import suppress
from typing import Any

import numpy as np

from conformance.targets.base import GATHER
from conformance.targets.models import NumpyTarget


class Unchecked(NumpyTarget):
    """Gathers right, and accepts whatever is malformed."""

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, **call: Any) -> None:  # type: ignore[override]
        with suppress(Exception):
            super().cp_gather_and_upconvert_nvfp4_kv_cache(**call)


class UncheckedAndWrong(Unchecked):
    """Has a wrong element in calls of 18 rows besides."""

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, **call: Any) -> None:  # type: ignore[override]
        super().cp_gather_and_upconvert_nvfp4_kv_cache(**call)
        if len(call["dst"]) == 18 and call["dst"].dtype == np.uint16:
            call["dst"][-1, 0] ^= 1


class DiesOfInt32(NumpyTarget):
    """Is killed by a cache of int32."""

    def __init__(self) -> None:
        super().__init__()
        self.crash_prone = True

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, **call: Any) -> None:  # type: ignore[override]
        if call["src_cache"].dtype == np.int32:
            os.kill(os.getpid(), signal.SIGSEGV)
        super().cp_gather_and_upconvert_nvfp4_kv_cache(**call)


class WithoutStarts(NumpyTarget):
    """Claims the gather without seq_starts alone, and has no such argument."""

    capabilities = frozenset({GATHER})

    def cp_gather_and_upconvert_nvfp4_kv_cache(  # type: ignore[override]
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int
    ) -> None:
        super().cp_gather_and_upconvert_nvfp4_kv_cache(src_cache, dst, block_table, workspace_starts, batch_size)


class WithoutStartsUnchecked(WithoutStarts):
    """Does not check its arguments either."""

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, *arguments: Any, **call: Any) -> None:
        with suppress(Exception):
            super().cp_gather_and_upconvert_nvfp4_kv_cache(*arguments, **call)


class MisreadsShiftedCaches(NumpyTarget):
    """Has a wrong element where the cache is not aligned to 16 bytes."""

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, **call: Any) -> None:  # type: ignore[override]
        super().cp_gather_and_upconvert_nvfp4_kv_cache(**call)
        if call["src_cache"].ctypes.data % 16:
            call["dst"][-1, 0] ^= 1


class HeedsUnusedStrides(NumpyTarget):
    """Has a wrong element where block_table has a stride that no call of one column uses."""

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, **call: Any) -> None:  # type: ignore[override]
        super().cp_gather_and_upconvert_nvfp4_kv_cache(**call)
        if call["block_table"].strides[-1] != call["block_table"].itemsize:
            call["dst"][-1, 0] ^= 1
