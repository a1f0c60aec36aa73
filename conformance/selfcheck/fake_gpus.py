"""A plugin that pretends devices, and targets that note what they see of them."""

import json
import os
from pathlib import Path
from typing import Any

from conformance import tally
from conformance.memory import ArrayMemory
from conformance.running import devices
from conformance.running.workers import Gpu
from conformance.shortage import Room
from conformance.targets.models import NumpyTarget
from fixtures.placement import Placement


def pretended() -> tuple[tuple[Gpu, ...], str]:
    """Devices that have as many bytes free as the environment says."""
    free = json.loads(os.environ["PRETENDED_FREE"])
    return tuple(Gpu(index, "pretended", "sm_100", nbytes, nbytes) for index, nbytes in enumerate(free)), ""


if "PRETENDED_FREE" in os.environ:  # else this is imported for a target alone
    devices.found = pretended  # type: ignore[assignment]


def note(**what: Any) -> None:
    """Append a line on this process to the file that the environment names."""
    line = {"worker": os.environ.get("PYTEST_XDIST_WORKER", "main"), **what}
    with Path(os.environ["NOTES"]).open("a") as notes:
        notes.write(json.dumps(line) + "\n")


class LimitedMemory(ArrayMemory):
    """The host's, of which an allocation above the limit is refused as by CuPy."""

    nbytes: int | None = None

    def limit(self, nbytes: int) -> None:
        note(limit=nbytes)
        self.nbytes = nbytes

    def room(self) -> Room:
        return Room("pretended", limit=self.nbytes)

    def _allocate(self, placement: Placement) -> tuple[Any, int]:
        if self.nbytes is not None and placement.data.nbytes > self.nbytes:
            raise MemoryError(f"Out of memory allocating {placement.data.nbytes:,} bytes (allocated so far: 0 bytes).")
        return super()._allocate(placement)


class OnADevice(NumpyTarget):
    """Right, and in its own words GPU code; notes which devices are visible when it is made."""

    is_gpu_code = True
    device_bytes = 2 << 30

    def __init__(self) -> None:
        super().__init__()
        self.memory: LimitedMemory = LimitedMemory()
        self.launched = 0
        note(visible=os.environ.get("CUDA_VISIBLE_DEVICES"))

    def launches(self) -> dict[str, int]:
        self.launched += 1000  # since it was asked last, which is before each test
        return dict.fromkeys(tally.HAS_WORK, self.launched)


class RunsOut(NumpyTarget):
    """Right, but for gathers of 33 rows, for which torch and CUDA have too little memory, and writes of 33 tokens."""

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, src_cache: Any, dst: Any, *others: Any, **more: Any) -> None:
        if len(dst) == 33:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 1.00 GiB")
        super().cp_gather_and_upconvert_nvfp4_kv_cache(src_cache, dst, *others, **more)

    def concat_and_cache_mla(
        self, kv_c: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, *others: Any, **more: Any
    ) -> None:
        if len(slot_mapping) == 33:
            raise MemoryError
        super().concat_and_cache_mla(kv_c, k_pe, kv_cache, slot_mapping, *others, **more)
