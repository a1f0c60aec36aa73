"""A target that ruins its process's CUDA context, as an illegal access does: everything fails from then on."""

from typing import Any

from conformance.memory import ArrayMemory
from conformance.targets.models import NumpyTarget


class RuinedMemory(ArrayMemory):
    def __init__(self) -> None:
        super().__init__()
        self.on_device, self.ruined = True, False

    def synchronize(self) -> None:
        if self.ruined:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")


class Losing(NumpyTarget):
    """Right until a record of the cache holds a NaN scale everywhere."""

    is_gpu_code = False

    def __init__(self) -> None:
        super().__init__()
        self.memory: RuinedMemory = RuinedMemory()

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, src_cache: Any, dst: Any, *others: Any, **more: Any) -> None:
        self.memory.synchronize()
        super().cp_gather_and_upconvert_nvfp4_kv_cache(src_cache, dst, *others, **more)
        self.memory.ruined = self.ruins(src_cache, dst)

    def ruins(self, src_cache: Any, dst: Any) -> bool:
        return bool((src_cache[..., 320:] == 0x7F).all(-1).any() and len(dst) < 100)


class LosingOnce(Losing):
    """Right until a call of 35 rows."""

    def ruins(self, src_cache: Any, dst: Any) -> bool:
        return len(dst) == 35
