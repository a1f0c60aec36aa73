"""Place arguments as NumPy or CuPy arrays in poisoned allocations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance import machine
from conformance.allocations import ALIGNMENT, scan, to_alignment, without_margins
from conformance.memory.protocol import Region
from conformance.shortage import Room, stating_need
from fixtures.placement import Placement

MIRRORED = 1 << 22
"""Bytes. Up to this size an allocation on a device is made, read and scanned on the host."""


class ArrayMemory:
    """Place arrays of NumPy, or of a module with its interface. bf16 is uint16."""

    def __init__(self, name: str = "numpy", xp: Any = np) -> None:
        """Take the module, numpy or cupy."""
        self.name, self.xp = name, xp
        self.on_device = xp is not np
        self.exact = False

    @stating_need
    def place(self, placement: Placement) -> Region:
        """See Memory."""
        placement = without_margins(placement) if self.exact else placement
        if self.xp is not np and placement.size * placement.data.itemsize <= MIRRORED:
            return self._mirrored(placement)
        base, first = self._allocate(placement)
        region = Region(placement, base, _strided(self.xp, base, first, placement), first)
        self.write(region, placement.data)
        return region

    def _mirrored(self, placement: Placement) -> Region:
        """Make a small allocation on the host and copy it as a whole, since each step on a device takes time.

        Returns:
            The region on the device.

        Raises:
            RuntimeError: If the library allocates at an address that is no multiple of ALIGNMENT.

        """
        host = np.empty(placement.size + self._slack // placement.data.itemsize, placement.data.dtype)
        host.fill(placement.poison)
        first = placement.before + to_alignment(placement.before * placement.data.itemsize, placement)
        mirror = Region(placement, host, _strided(np, host, first, placement), first)
        _MIRROR.write(mirror, placement.data)
        base = self.xp.asarray(host)
        if self._address(base) % ALIGNMENT:
            raise RuntimeError(f"{self.name} allocates at {self._address(base):#x}, no multiple of {ALIGNMENT} bytes")
        return Region(placement, base, _strided(self.xp, base, first, placement), first)

    def _mirror_of(self, region: Region) -> Region | None:
        """Return a copy on the host of a small device allocation, or None."""
        if self.xp is np or region.base.nbytes > MIRRORED + ALIGNMENT:
            return None
        host, view = self.xp.asnumpy(region.base), region.view  # which may be a part of what was placed
        offset = (self._address(view) - self._address(region.base)) // host.itemsize if view.size else 0
        there = np.lib.stride_tricks.as_strided(host[offset:], view.shape, view.strides)
        return Region(region.placement, host, there, region.first)

    @stating_need
    def write(self, region: Region, data: npt.NDArray[Any]) -> None:
        """See Memory."""
        # As bits: CuPy takes a scalar of -0.0 for zero, and clears its memory.
        region.view.view(_unsigned(data))[self._held(region)] = self.xp.asarray(data.view(_unsigned(data)))

    @stating_need
    def read(self, region: Region) -> npt.NDArray[Any]:
        """See Memory."""
        if mirror := self._mirror_of(region):
            return _MIRROR.read(mirror)
        return self._to_numpy(region.view[self._held(region)])

    @stating_need
    def strays(self, region: Region) -> list[int]:
        """See Memory."""
        if mirror := self._mirror_of(region):
            return _MIRROR.strays(mirror)
        region.view[self._held(region)] = region.placement.poison
        return scan(region.base, region.first, region.placement.poison, self.xp.flatnonzero)

    def synchronize(self) -> None:
        """See Memory."""
        if self.on_device:
            self.xp.cuda.get_current_stream().synchronize()

    def on_stream(self, stream: Any) -> AbstractContextManager[Any]:
        """See Memory."""
        context: AbstractContextManager[Any] = stream
        return context

    @contextmanager
    def count_allocations(self) -> Iterator[list[int]]:
        """See Memory."""
        seen: list[int] = []

        def note(hook: Any, **told: int) -> None:
            seen.append(told["size"])

        hook = type("Hook", (self.xp.cuda.MemoryHook,), {"malloc_preprocess": note})
        with hook():
            yield seen

    def limit(self, nbytes: int) -> None:
        """See Memory. Memory that is not from CuPy's pool, as with `exact`, does not count."""
        if self.xp is not np:
            self.xp.get_default_memory_pool().free_all_blocks()
            self.xp.get_default_memory_pool().set_limit(size=nbytes)

    def room(self) -> Room:
        """See Memory."""
        if self.xp is np:
            return Room(free=machine.free_bytes())
        runtime, pool = self.xp.cuda.runtime, self.xp.get_default_memory_pool()
        name = runtime.getDeviceProperties(runtime.getDevice())["name"].decode()
        return Room(name, runtime.memGetInfo()[0], pool.get_limit() or None, pool.used_bytes())

    def _allocate(self, placement: Placement) -> tuple[Any, int]:
        item = placement.data.itemsize
        make = self.xp.zeros if placement.poison == 0 else self.xp.empty
        base = make(placement.size + self._slack // item, placement.data.dtype)
        if placement.poison != 0:
            base.fill(placement.poison)
        return base, placement.before + to_alignment(self._address(base) + placement.before * item, placement)

    @property
    def _slack(self) -> int:
        return 0 if self.exact else ALIGNMENT

    def _held(self, region: Region) -> Any:
        return ... if region.placement.at is None else self.xp.asarray(region.placement.at)

    def _address(self, base: Any) -> int:
        return int(base.ctypes.data if self.xp is np else base.data.ptr)

    def _to_numpy(self, array: Any) -> npt.NDArray[Any]:
        return np.ascontiguousarray(array if self.xp is np else self.xp.asnumpy(array)).copy()


_MIRROR = ArrayMemory()
"""The memory that reads and writes the host's copy of a device's allocation."""


def _strided(xp: Any, base: Any, first: int, placement: Placement) -> Any:
    strides = [stride * placement.data.itemsize for stride in placement.strides]
    return xp.lib.stride_tricks.as_strided(base[first:], placement.shape, strides)


def _unsigned(data: npt.NDArray[Any]) -> str:
    return f"u{data.itemsize}"
