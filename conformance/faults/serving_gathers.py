"""Define gathers whose mistake a batch of context or a workload shows, in one way each."""

from typing import Any

import numpy as np

from conformance.targets.models import NumpyTarget
from reference.paging import row_owners


class GathersOtherwise(NumpyTarget):
    """Call the golden gather with a changed table, changed starts, or fewer rows."""

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """Gather with the changed arguments."""
        block_table, seq_starts = self._told(src_cache, block_table, seq_starts)
        super().cp_gather_and_upconvert_nvfp4_kv_cache(
            src_cache, dst[: self._rows(len(dst))], block_table, workspace_starts, batch_size, seq_starts
        )

    def _rows(self, due: int) -> int:
        return due

    def _told(self, src_cache: Any, block_table: Any, seq_starts: Any) -> tuple[Any, Any]:
        return block_table, seq_starts


class IgnoresStarts(GathersOtherwise):
    """Read every request from its first token on: seq_starts are ignored."""

    def _told(self, src_cache: Any, block_table: Any, seq_starts: Any) -> tuple[Any, Any]:
        return block_table, np.zeros_like(seq_starts)


class RoundsStartsDown(GathersOtherwise):
    """Round seq_starts down to multiples of the block size."""

    def _told(self, src_cache: Any, block_table: Any, seq_starts: Any) -> tuple[Any, Any]:
        return block_table, seq_starts // src_cache.shape[1] * src_cache.shape[1]


class LeavesTheLastRowStale(GathersOtherwise):
    """Leave the last row unwritten if there are several."""

    def _rows(self, due: int) -> int:
        return max(due - 1, min(due, 1))


class TakesTheNextRequestsTable(GathersOtherwise):
    """Read each request through the table row of the next request."""

    def _told(self, src_cache: Any, block_table: Any, seq_starts: Any) -> tuple[Any, Any]:
        return np.roll(block_table, -1, axis=0) % len(src_cache), seq_starts


class OverwritesItsTable(GathersOtherwise):
    """Set the caller's block_table to 0, as if it were scratch memory."""

    def _told(self, src_cache: Any, block_table: Any, seq_starts: Any) -> tuple[Any, Any]:
        told = block_table.copy()
        block_table[:] = 0
        return told, seq_starts


class RemembersTables(GathersOtherwise):
    """Read through the table of the call before, if that had the same shape."""

    def __init__(self) -> None:
        """Start without a remembered table."""
        super().__init__()
        self.before: Any = None

    def _told(self, src_cache: Any, block_table: Any, seq_starts: Any) -> tuple[Any, Any]:
        before, self.before = self.before, block_table.copy()
        return (block_table if before is None or before.shape != block_table.shape else before), seq_starts


class KeepsWhatItRead(NumpyTarget):
    """Read each record of a cache once, and use a copy of it in later calls."""

    def __init__(self) -> None:
        """Start without copies."""
        super().__init__()
        self.kept: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """Gather from the copies, after records that were not read before are copied."""
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
