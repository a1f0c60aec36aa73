"""Allocators, schedulers, writers and gathers that are wrong in one way each, for scenarios to catch."""

from typing import Any

import numpy as np

from conformance.scenarios.blocks import BlockPool
from conformance.scenarios.scheduler import Piece, Running, Scheduler, Step
from conformance.targets.models import NumpyTarget
from reference.scalars import bf16_from_f32, f32_from_bf16


class SharesAPartialBlock(Scheduler):
    """Hands a request the block in which it parts from another one, into which it then writes its own tokens."""

    def _start(self, running: Running, shared: list[int]) -> None:
        super()._start(running, shared)
        mine, first = running.request.tokens, running.computed
        for other in self.running:
            theirs = other.request.tokens
            if len(other.blocks) > len(shared) and (mine[: first + 1] == theirs[: first + 1]).all():
                block = other.blocks[len(shared)]
                self.pool.share([block])
                running.blocks.append(block)
                return


class HashesHalfABlock(Scheduler):
    """Takes a block for a request's own whose first half is."""

    def __init__(self, requests: Any, pool: BlockPool, block_size: int, *settings: Any) -> None:
        super().__init__(requests, pool, block_size, *settings)
        for request in requests:
            starts = range(0, len(request.tokens) - block_size + 1, block_size)
            halves = [request.tokens[: start + block_size // 2].tobytes() for start in starts]
            self.hashes[id(request)] = halves


class HashesABlockAlone(Scheduler):
    """Leaves what comes before a block out of its hash."""

    def __init__(self, requests: Any, pool: BlockPool, block_size: int, *settings: Any) -> None:
        super().__init__(requests, pool, block_size, *settings)
        for request in requests:
            starts = range(0, len(request.tokens) - block_size + 1, block_size)
            self.hashes[id(request)] = [request.tokens[start : start + block_size].tobytes() for start in starts]


class FreesEarly(Scheduler):
    """Gives a request's blocks back with its first generated token, and goes on using them."""

    def update(self, step: Step) -> list[Piece]:
        ended = super().update(step)
        for running in self.running:
            if running.known == running.request.prompt + 1 and running.computed == running.request.prompt:
                self.pool.release(running.blocks)
        return ended


class CountsOneUser(BlockPool):
    """Frees a block when the first of its users ends."""

    def release(self, blocks: Any) -> None:
        for block in reversed(blocks):
            self.free[block] = None
            self.users[block] = 0


class ForgetsToEvict(BlockPool):
    """Goes on offering a prefix whose blocks somebody else has overwritten."""

    def forget(self, block: int) -> None:
        pass


class TakesUsedBlocks(BlockPool):
    """Shares a free block and leaves it among the free ones."""

    def share(self, blocks: Any) -> None:
        for block in blocks:
            self.users[block] += 1


class FaultyWriter(NumpyTarget):
    """Changes what the golden writer is told."""

    def concat_and_cache_mla(
        self, kv_c: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, kv_cache_dtype: str, scale: Any
    ) -> None:
        kv_c, k_pe, slots = self.told(kv_c, k_pe, kv_cache, slot_mapping)
        kept = np.sort(np.unique(slots[::-1], return_index=True)[1])  # of tokens with one slot the last one
        order = len(slots) - 1 - kept
        super().concat_and_cache_mla(kv_c[order], k_pe[order], kv_cache, slots[order], kv_cache_dtype, scale)

    def told(self, kv_c: Any, k_pe: Any, kv_cache: Any, slots: Any) -> tuple[Any, Any, Any]:
        return kv_c, k_pe, slots


class WrapsPadding(FaultyWriter):
    """Takes slot -1 for the last record."""

    def told(self, kv_c: Any, k_pe: Any, kv_cache: Any, slots: Any) -> tuple[Any, Any, Any]:
        return kv_c, k_pe, slots % (kv_cache.shape[0] * kv_cache.shape[1])


class PadsIntoSlot0(FaultyWriter):
    """ATOM 2008: takes slot -1 for the first record."""

    def told(self, kv_c: Any, k_pe: Any, kv_cache: Any, slots: Any) -> tuple[Any, Any, Any]:
        return kv_c, k_pe, np.maximum(slots, 0)


class SharesAnAmax(FaultyWriter):
    """Clamps each token to half the largest element of its batch, so that a record depends on the split."""

    def told(self, kv_c: Any, k_pe: Any, kv_cache: Any, slots: Any) -> tuple[Any, Any, Any]:
        numbers = f32_from_bf16(kv_c[: len(slots)][slots >= 0])
        if numbers.size:
            most = np.abs(numbers).max() / 2
            kv_c = bf16_from_f32(np.clip(np.nan_to_num(f32_from_bf16(kv_c)), -most, most))
        return kv_c, k_pe, slots


class DropsTheOddToken(FaultyWriter):
    """Writes tokens in pairs and forgets the last of an odd number."""

    def told(self, kv_c: Any, k_pe: Any, kv_cache: Any, slots: Any) -> tuple[Any, Any, Any]:
        held = np.flatnonzero(slots >= 0)
        if len(held) % 2 and len(held) > 1:
            slots = slots.copy()
            slots[held[-1]] = -1
        return kv_c, k_pe, slots


class WritesWholeBlocks(FaultyWriter):
    """Writes zeros to what it has no token for in the blocks that it touches."""

    def told(self, kv_c: Any, k_pe: Any, kv_cache: Any, slots: Any) -> tuple[Any, Any, Any]:
        kv_cache[slots[slots >= 0] // kv_cache.shape[1]] = 0
        return kv_c, k_pe, slots


class ScalesZerosOtherwise(NumpyTarget):
    """Gives a block of zeros another scale, which reads the same."""

    def concat_and_cache_mla(
        self, kv_c: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, kv_cache_dtype: str, scale: Any
    ) -> None:
        super().concat_and_cache_mla(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale)
        for slot in slot_mapping[slot_mapping >= 0]:
            record = kv_cache[slot // kv_cache.shape[1], slot % kv_cache.shape[1]]
            zeros = np.flatnonzero((record[:256].reshape(32, 8) == 0).all(axis=1))
            record[320 + 8 * (zeros & 3) + (zeros >> 2)] = 0x38


class OverwritesSlots(NumpyTarget):
    """Uses slot_mapping as scratch memory."""

    def concat_and_cache_mla(
        self, kv_c: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, kv_cache_dtype: str, scale: Any
    ) -> None:
        super().concat_and_cache_mla(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale)
        slot_mapping[:] = 0


class WritesBetweenBlocks(NumpyTarget):
    """Writes to the byte behind the first block."""

    def concat_and_cache_mla(
        self, kv_c: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, kv_cache_dtype: str, scale: Any
    ) -> None:
        super().concat_and_cache_mla(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale)
        np.lib.stride_tricks.as_strided(kv_cache[0, 0], (kv_cache.strides[0],), (1,))[kv_cache[0].size] = 1


class FaultyGather(NumpyTarget):
    """Changes what the golden gather is told."""

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        block_table, seq_starts = self.told(src_cache, block_table, seq_starts)
        super().cp_gather_and_upconvert_nvfp4_kv_cache(
            src_cache, dst[: self.rows(len(dst))], block_table, workspace_starts, batch_size, seq_starts
        )

    def rows(self, due: int) -> int:
        return due

    def told(self, src_cache: Any, block_table: Any, seq_starts: Any) -> tuple[Any, Any]:
        return block_table, seq_starts


class IgnoresStarts(FaultyGather):
    def told(self, src_cache: Any, block_table: Any, seq_starts: Any) -> tuple[Any, Any]:
        return block_table, np.zeros_like(seq_starts)


class RoundsStartsDown(FaultyGather):
    def told(self, src_cache: Any, block_table: Any, seq_starts: Any) -> tuple[Any, Any]:
        return block_table, seq_starts // src_cache.shape[1] * src_cache.shape[1]


class LeavesTheLastRowStale(FaultyGather):
    def rows(self, due: int) -> int:
        return max(due - 1, min(due, 1))


class TakesTheNextRequestsTable(FaultyGather):
    def told(self, src_cache: Any, block_table: Any, seq_starts: Any) -> tuple[Any, Any]:
        return np.roll(block_table, -1, axis=0) % len(src_cache), seq_starts


class OverwritesItsTable(FaultyGather):
    def told(self, src_cache: Any, block_table: Any, seq_starts: Any) -> tuple[Any, Any]:
        told = block_table.copy()
        block_table[:] = 0
        return told, seq_starts


class RemembersTables(FaultyGather):
    """Reads through the table of the call before, where that had the same shape."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Any = None

    def told(self, src_cache: Any, block_table: Any, seq_starts: Any) -> tuple[Any, Any]:
        before, self.before = self.before, block_table.copy()
        return (block_table if before is None or before.shape != block_table.shape else before), seq_starts


class KeepsTheLastChunkAlone(NumpyTarget):
    """Takes the second of two partial results for both."""

    def merge_attn_states(
        self,
        output: Any,
        prefix_output: Any,
        prefix_lse: Any,
        suffix_output: Any,
        suffix_lse: Any,
        output_lse: Any = None,
    ) -> None:
        output[:] = suffix_output
        if output_lse is not None:
            output_lse[:] = suffix_lse
