"""Writers that are wrong in one way each, as targets that a gate can be pointed at."""

from typing import Any

import numpy as np

from conformance.identify.traits import Traits, records_of
from conformance.targets.models import NumpyTarget
from reference.profiles import PROFILES, Profile


class FaultyWriter(NumpyTarget):
    """Writes nvfp4_ds_mla records of some traits; everything else is the golden model's."""

    capabilities = frozenset({"write.nvfp4"})
    traits = Traits()
    declared: Profile = PROFILES["vllm-0.33"]

    def __init__(self) -> None:
        super().__init__(profile=self.declared)
        self.name = f"{type(self).__module__}:{type(self).__name__}"

    def concat_and_cache_mla(
        self, kv_c: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, kv_cache_dtype: str, scale: Any
    ) -> None:
        before = kv_cache.copy()
        super().concat_and_cache_mla(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale)
        tokens = np.flatnonzero(self.kept(slot_mapping))
        slots = self.slots(slot_mapping[tokens], before)
        block, record = np.divmod(slots, kv_cache.shape[1])
        kv_cache[block, record] = records_of(self.traits, kv_c[tokens], k_pe[tokens], float(scale.ravel()[0]))

    def kept(self, slot_mapping: Any) -> Any:
        return slot_mapping >= 0

    def slots(self, slots: Any, cache: Any) -> Any:
        return slots


class WritesFp8Only(NumpyTarget):
    """No faulty writer: one that claims a single format, and is to be asked for no other."""

    capabilities = frozenset({"write.fp8"})


class Divides(FaultyWriter):
    traits = Traits(normalisation="division")


class RoundsToNearest(FaultyWriter):
    declared = PROFILES["vllm-03b60164"]


class RoundsUp(FaultyWriter):
    traits = Traits(scale="up")


class HasNoFloor(FaultyWriter):
    traits = Traits(floor="none, codes 0 under a zero scale")


class LetsNanIntoAmax(FaultyWriter):
    traits = Traits(nan="spreads")


class WrapsNegativeSlots(FaultyWriter):
    """Takes -1 for the last record of the cache."""

    def kept(self, slot_mapping: Any) -> Any:
        return (slot_mapping >= 0) | (slot_mapping == -1)

    def slots(self, slots: Any, cache: Any) -> Any:
        return slots % (cache.shape[0] * cache.shape[1])


class WritesPaddingToSlot0(FaultyWriter):
    """Clamps a negative slot to 0."""

    def kept(self, slot_mapping: Any) -> Any:
        return np.ones(len(slot_mapping), np.bool_)

    def slots(self, slots: Any, cache: Any) -> Any:
        return np.maximum(slots, 0)


class LooksAt32BitsOfASlot(FaultyWriter):
    def kept(self, slot_mapping: Any) -> Any:
        return slot_mapping.astype(np.int32) >= 0

    def slots(self, slots: Any, cache: Any) -> Any:
        return slots.astype(np.int32)


class ScalesRope(FaultyWriter):
    traits = Traits(rope="divided by scale")


class SwapsNibbles(FaultyWriter):
    traits = Traits(nibbles="high first")


class KeepsScalesInOrder(FaultyWriter):
    traits = Traits(order=tuple(range(32)))
