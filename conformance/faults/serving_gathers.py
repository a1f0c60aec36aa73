"""Gathers that are wrong in what a batch of context or a workload shows, in one way each."""

from typing import Any

import numpy as np

from conformance.targets.models import NumpyTarget
from reference.paging import row_owners


class GathersOtherwise(NumpyTarget):
    """A golden gather that is told something else."""

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """See Target."""
        block_table, seq_starts = self._told(src_cache, block_table, seq_starts)
        super().cp_gather_and_upconvert_nvfp4_kv_cache(
            src_cache, dst[: self._rows(len(dst))], block_table, workspace_starts, batch_size, seq_starts
        )

    def _rows(self, due: int) -> int:
        return due

    def _told(self, src_cache: Any, block_table: Any, seq_starts: Any) -> tuple[Any, Any]:
        return block_table, seq_starts


class IgnoresStarts(GathersOtherwise):
    """Has every request begin with its first token."""

    def _told(self, src_cache: Any, block_table: Any, seq_starts: Any) -> tuple[Any, Any]:
        return block_table, np.zeros_like(seq_starts)


class RoundsStartsDown(GathersOtherwise):
    """Has every request begin with a block."""

    def _told(self, src_cache: Any, block_table: Any, seq_starts: Any) -> tuple[Any, Any]:
        return block_table, seq_starts // src_cache.shape[1] * src_cache.shape[1]


class LeavesTheLastRowStale(GathersOtherwise):
    """Gathers one row too few, if there are several."""

    def _rows(self, due: int) -> int:
        return max(due - 1, min(due, 1))


class TakesTheNextRequestsTable(GathersOtherwise):
    """Reads each request through the table row below its own."""

    def _told(self, src_cache: Any, block_table: Any, seq_starts: Any) -> tuple[Any, Any]:
        return np.roll(block_table, -1, axis=0) % len(src_cache), seq_starts


class OverwritesItsTable(GathersOtherwise):
    """Uses block_table as scratch memory."""

    def _told(self, src_cache: Any, block_table: Any, seq_starts: Any) -> tuple[Any, Any]:
        told = block_table.copy()
        block_table[:] = 0
        return told, seq_starts


class RemembersTables(GathersOtherwise):
    """Reads through the table of the call before, where that had the same shape."""

    def __init__(self) -> None:
        """No call was seen yet."""
        super().__init__()
        self.before: Any = None

    def _told(self, src_cache: Any, block_table: Any, seq_starts: Any) -> tuple[Any, Any]:
        before, self.before = self.before, block_table.copy()
        return (block_table if before is None or before.shape != block_table.shape else before), seq_starts


class KeepsWhatItRead(NumpyTarget):
    """Reads each record of a cache once, and has it from its own copy from then on."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        super().__init__()
        self.kept: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """See Target."""
        key = (src_cache.ctypes.data, src_cache.shape)
        copy, read = self.kept.setdefault(key, (np.zeros_like(src_cache), np.zeros(src_cache.shape[:2], bool)))
        firsts = workspace_starts[:batch_size].astype(np.int64)
        owners = row_owners(firsts, len(dst))
        tokens = np.arange(len(dst)) - firsts[owners] + (0 if seq_starts is None else seq_starts[owners])
        column, record = np.divmod(tokens, src_cache.shape[1])
        block = block_table[owners, column]
        new = ~read[block, record]
        copy[block[new], record[new]] = src_cache[block[new], record[new]]
        read[block[new], record[new]] = True
        super().cp_gather_and_upconvert_nvfp4_kv_cache(copy, dst, block_table, workspace_starts, batch_size, seq_starts)
