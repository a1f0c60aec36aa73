"""Where a target's arguments live: NumPy, CuPy or torch arrays placed in poisoned allocations, and read back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from conformance import machine
from conformance.allocations import ALIGNMENT, fill_of, scan, storable, to_alignment, without_margins
from conformance.shortage import Room, stating_need
from fixtures.placement import Placement


@dataclass
class Region:
    """A placement made real: the whole allocation, and the strided view that the target is handed."""

    placement: Placement
    base: Any
    view: Any
    first: int
    """Index in `base` of the view's first element."""


class Memory(Protocol):
    """What a target's arrays are made of; Shortage where there is too little of it."""

    name: str
    on_device: bool
    """Whether the arrays lie on a CUDA device."""
    exact: bool
    """Whether an allocation ends where its array does, so that a memory checker sees every access beyond it."""

    def place(self, placement: Placement) -> Region:
        """Allocate, fill with poison, and write the data."""

    def write(self, region: Region, data: npt.NDArray[Any]) -> None:
        """Overwrite the view with data of the placement's shape and dtype."""

    def read(self, region: Region) -> npt.NDArray[Any]:
        """The view's present content, as a contiguous NumPy array of the placement's dtype."""

    def strays(self, region: Region) -> list[int]:
        """The first few elements outside the view that no longer hold poison, relative to the view's first element.

        Destroys the view's content.
        """

    def synchronize(self) -> None:
        """Wait for everything that was launched."""

    def on_stream(self, stream: Any) -> AbstractContextManager[Any]:
        """Make a cupy.cuda.Stream the current one of the library that the arrays come from."""

    def count_allocations(self) -> AbstractContextManager[list[int]]:
        """The list grows by the bytes of each allocation that is made with that library in the meantime."""

    def limit(self, nbytes: int) -> None:
        """Let all arrays of that library together take no more of the device from now on; on the CPU do nothing.

        What the library keeps and does not use is given back.
        """

    def room(self) -> Room:
        """How much there is, and how much of it may be used."""


MIRRORED = 1 << 22
"""Bytes up to which an allocation on a device is made, read and looked through on the host."""


class ArrayMemory:
    """Arrays of NumPy, or of a module with its interface."""

    def __init__(self, name: str = "numpy", xp: Any = np) -> None:
        """`xp` is numpy or cupy."""
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
        """Make a small allocation on the host and send it as a whole, since each step on a device takes its time."""
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
        """Copy a small allocation of a device to the host, as a whole."""
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
        """See Memory; what is taken past CuPy's pool, as with `exact`, is not counted."""
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
"""What reads and writes the host's copy of a device's allocation."""


def _strided(xp: Any, base: Any, first: int, placement: Placement) -> Any:
    strides = [stride * placement.data.itemsize for stride in placement.strides]
    return xp.lib.stride_tricks.as_strided(base[first:], placement.shape, strides)


def _unsigned(data: npt.NDArray[Any]) -> str:
    return f"u{data.itemsize}"


class TorchMemory:
    """torch tensors on one device; bf16 is torch.bfloat16 there."""

    def __init__(self, device: str = "cpu") -> None:
        """`device` is torch's name of it."""
        self.name, self.device = f"torch:{device}", device
        self.on_device = device.startswith("cuda")
        self.exact = False
        self._limit: int | None = None

    @stating_need
    def place(self, placement: Placement) -> Region:
        """See Memory."""
        import torch

        placement = without_margins(placement) if self.exact else placement
        data = storable(placement.data)
        fill = fill_of(placement)
        base = self._filled(placement.size + (0 if self.exact else ALIGNMENT // data.itemsize), fill, data.dtype)
        address = base.data_ptr() + placement.before * data.itemsize
        first = placement.before + to_alignment(address, placement)
        view = torch.as_strided(base, placement.shape, placement.strides, first)
        bf16 = placement.data.dtype == np.uint16
        region = Region(placement, base, view.view(torch.bfloat16) if bf16 else view, first)
        self.write(region, placement.data)
        return region

    @stating_need
    def write(self, region: Region, data: npt.NDArray[Any]) -> None:
        """See Memory."""
        import torch

        view, stored = region.view.view(region.base.dtype), torch.from_numpy(storable(data)).to(self.device)
        for dimension, stride in enumerate(region.placement.strides):
            if stride == 0:  # torch refuses to write an element twice
                view, stored = view.narrow(dimension, 0, 1), stored.narrow(dimension, 0, 1)
        view[self._held(region)] = stored

    @stating_need
    def read(self, region: Region) -> npt.NDArray[Any]:
        """See Memory."""
        import torch

        view = region.view.view(torch.int16) if region.view.dtype is torch.bfloat16 else region.view
        values: npt.NDArray[Any] = view[self._held(region)].cpu().contiguous().numpy()
        return values.view(region.placement.data.dtype).copy()

    @stating_need
    def strays(self, region: Region) -> list[int]:
        """See Memory."""
        placement, fill = region.placement, fill_of(region.placement)
        self.write(region, np.full(placement.data.shape, fill, storable(placement.data).dtype))
        if self.device == "cpu":  # NumPy scans faster
            return scan(region.base.numpy(), region.first, fill, np.flatnonzero)
        return scan(region.base, region.first, fill, lambda changed: changed.nonzero()[:, 0])

    def _held(self, region: Region) -> Any:
        import torch

        return ... if region.placement.at is None else torch.from_numpy(region.placement.at).long().to(self.device)

    def _filled(self, size: int, fill: int, dtype: np.dtype[Any]) -> Any:
        import torch

        # NumPy's zeros stay unbacked by memory until they are written; torch's do not.
        if fill == 0 and self.device == "cpu":
            return torch.from_numpy(np.zeros(size, dtype))
        return torch.full((size,), fill, dtype=getattr(torch, dtype.name), device=self.device)

    def synchronize(self) -> None:
        """See Memory."""
        import torch

        if self.on_device:
            torch.cuda.synchronize(self.device)

    @contextmanager
    def on_stream(self, stream: Any) -> Iterator[None]:
        """See Memory."""
        import torch

        external = torch.cuda.ExternalStream(stream.ptr, self.device)  # type: ignore[no-untyped-call]
        with stream, torch.cuda.stream(external):
            yield

    @contextmanager
    def count_allocations(self) -> Iterator[list[int]]:
        """See Memory."""
        import torch

        def allocated() -> tuple[int, int]:
            stats = torch.cuda.memory_stats(self.device)
            return stats.get("allocation.all.allocated", 0), stats.get("allocated_bytes.all.allocated", 0)

        seen: list[int] = []
        before = allocated()
        yield seen
        after = allocated()
        if after[0] != before[0]:
            seen.append(after[1] - before[1])

    def limit(self, nbytes: int) -> None:
        """See Memory."""
        import torch

        if self.on_device:
            number = torch.device(self.device).index
            torch.cuda.empty_cache()
            total = torch.cuda.get_device_properties(number).total_memory
            torch.cuda.set_per_process_memory_fraction(min(nbytes / total, 1.0), number)
            self._limit = nbytes

    def room(self) -> Room:
        """See Memory."""
        import torch

        if not self.on_device:
            return Room(free=machine.free_bytes())
        number = torch.device(self.device).index
        name, free = torch.cuda.get_device_name(number), torch.cuda.mem_get_info(number)[0]
        return Room(name, free, self._limit, torch.cuda.memory_allocated(number))
