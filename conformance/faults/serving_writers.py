"""Define writers whose mistake only a workload shows, in one way each."""

from typing import Any

import numpy as np

from conformance.targets.models import NumpyTarget
from reference.scalars import bf16_from_f32, f32_from_bf16


class ToldOtherwise(NumpyTarget):
    """Call the golden writer with changed inputs or slots."""

    def concat_and_cache_mla(
        self, kv_c: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, kv_cache_dtype: str, scale: Any
    ) -> None:
        """Write with the changed arguments. Of several tokens with one slot, write the last one."""
        kv_c, k_pe, slots = self._told(kv_c, k_pe, kv_cache, slot_mapping)
        kept = np.sort(np.unique(slots[::-1], return_index=True)[1])  # keep the last of the tokens with one slot
        order = len(slots) - 1 - kept
        super().concat_and_cache_mla(kv_c[order], k_pe[order], kv_cache, slots[order], kv_cache_dtype, scale)

    def _told(self, kv_c: Any, k_pe: Any, kv_cache: Any, slots: Any) -> tuple[Any, Any, Any]:
        return kv_c, k_pe, slots


class WrapsPadding(ToldOtherwise):
    """Write tokens of slot -1 to the last record."""

    def _told(self, kv_c: Any, k_pe: Any, kv_cache: Any, slots: Any) -> tuple[Any, Any, Any]:
        return kv_c, k_pe, slots % (kv_cache.shape[0] * kv_cache.shape[1])


class PadsIntoSlot0(ToldOtherwise):
    """Write tokens of slot -1 to the first record."""

    def _told(self, kv_c: Any, k_pe: Any, kv_cache: Any, slots: Any) -> tuple[Any, Any, Any]:
        return kv_c, k_pe, np.maximum(slots, 0)


class SharesAnAmax(ToldOtherwise):
    """Clamp each token to half the largest element of its batch, so that a record depends on the split."""

    def _told(self, kv_c: Any, k_pe: Any, kv_cache: Any, slots: Any) -> tuple[Any, Any, Any]:
        numbers = f32_from_bf16(kv_c[: len(slots)][slots >= 0])
        if numbers.size:
            most = np.abs(numbers).max() / 2
            kv_c = bf16_from_f32(np.clip(np.nan_to_num(f32_from_bf16(kv_c)), -most, most))
        return kv_c, k_pe, slots


class DropsTheOddToken(ToldOtherwise):
    """Leave out the last token of an odd number of tokens, as a writer of pairs may."""

    def _told(self, kv_c: Any, k_pe: Any, kv_cache: Any, slots: Any) -> tuple[Any, Any, Any]:
        held = np.flatnonzero(slots >= 0)
        if len(held) % 2 and len(held) > 1:
            slots = slots.copy()
            slots[held[-1]] = -1
        return kv_c, k_pe, slots


class WritesWholeBlocks(ToldOtherwise):
    """Clear each block that is written to, before its records are written."""

    def _told(self, kv_c: Any, k_pe: Any, kv_cache: Any, slots: Any) -> tuple[Any, Any, Any]:
        kv_cache[slots[slots >= 0] // kv_cache.shape[1]] = 0
        return kv_c, k_pe, slots


class ScalesZerosOtherwise(NumpyTarget):
    """Write the scale byte 0x38 for blocks of zeros, which read the same."""

    def concat_and_cache_mla(
        self, kv_c: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, kv_cache_dtype: str, scale: Any
    ) -> None:
        """Write, then replace the scale bytes of blocks of zeros."""
        super().concat_and_cache_mla(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale)
        for slot in slot_mapping[slot_mapping >= 0]:
            record = kv_cache[slot // kv_cache.shape[1], slot % kv_cache.shape[1]]
            zeros = np.flatnonzero((record[:256].reshape(32, 8) == 0).all(axis=1))
            record[320 + 8 * (zeros & 3) + (zeros >> 2)] = 0x38


class OverwritesSlots(NumpyTarget):
    """Set the caller's slot_mapping to 0, as if it were scratch memory."""

    def concat_and_cache_mla(
        self, kv_c: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, kv_cache_dtype: str, scale: Any
    ) -> None:
        """Write, then clear slot_mapping."""
        super().concat_and_cache_mla(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale)
        slot_mapping[:] = 0


class WritesBetweenBlocks(NumpyTarget):
    """Write to the byte behind the first block."""

    def concat_and_cache_mla(
        self, kv_c: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, kv_cache_dtype: str, scale: Any
    ) -> None:
        """Write, then change the byte behind the first block."""
        super().concat_and_cache_mla(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale)
        np.lib.stride_tricks.as_strided(kv_cache[0, 0], (kv_cache.strides[0],), (1,))[kv_cache[0].size] = 1
