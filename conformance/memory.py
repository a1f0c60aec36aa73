"""Where a target's arguments live: NumPy, CuPy or torch arrays placed in poisoned allocations, and read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fixtures.placement import Placement

ALIGNMENT = 256  # bytes; what a placement's shift counts from
_SCAN = 1 << 24  # elements looked at together, so that a scan of a huge allocation needs little memory


@dataclass
class Region:
    """A placement made real: the whole allocation, and the strided view that the target is handed."""

    placement: Placement
    base: Any
    view: Any
    first: int
    """Index in `base` of the view's first element."""


class Memory(Protocol):
    """What a target's arrays are made of."""

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


class ArrayMemory:
    """Arrays of NumPy, or of a module with its interface."""

    def __init__(self, name: str = "numpy", xp: Any = np) -> None:
        """`xp` is numpy or cupy."""
        self.name, self.xp = name, xp
        self.on_device = xp is not np
        self.exact = False

    def place(self, placement: Placement) -> Region:
        """See Memory."""
        placement = without_margins(placement) if self.exact else placement
        base, first = self._allocate(placement)
        item = placement.data.itemsize
        view = self.xp.lib.stride_tricks.as_strided(
            base[first:], placement.shape, [stride * item for stride in placement.strides]
        )
        region = Region(placement, base, view, first)
        self.write(region, placement.data)
        return region

    def write(self, region: Region, data: npt.NDArray[Any]) -> None:
        """See Memory."""
        region.view[self._held(region)] = self.xp.asarray(data)

    def read(self, region: Region) -> npt.NDArray[Any]:
        """See Memory."""
        return self._to_numpy(region.view[self._held(region)])

    def strays(self, region: Region) -> list[int]:
        """See Memory."""
        region.view[self._held(region)] = region.placement.poison
        return _scan(region, region.base, region.placement.poison, self.xp.flatnonzero)

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

    def _allocate(self, placement: Placement) -> tuple[Any, int]:
        item = placement.data.itemsize
        make = self.xp.zeros if placement.poison == 0 else self.xp.empty
        base = make(placement.size + self._slack // item, placement.data.dtype)
        if placement.poison != 0:
            base.fill(placement.poison)
        return base, placement.before + _to_alignment(self._address(base) + placement.before * item, placement)

    @property
    def _slack(self) -> int:
        return 0 if self.exact else ALIGNMENT

    def _held(self, region: Region) -> Any:
        return ... if region.placement.at is None else self.xp.asarray(region.placement.at)

    def _address(self, base: Any) -> int:
        return int(base.ctypes.data if self.xp is np else base.data.ptr)

    def _to_numpy(self, array: Any) -> npt.NDArray[Any]:
        return np.ascontiguousarray(array if self.xp is np else self.xp.asnumpy(array)).copy()


class TorchMemory:
    """torch tensors on one device; bf16 is torch.bfloat16 there."""

    def __init__(self, device: str = "cpu") -> None:
        """`device` is torch's name of it."""
        self.name, self.device = f"torch:{device}", device
        self.on_device = device.startswith("cuda")
        self.exact = False

    def place(self, placement: Placement) -> Region:
        """See Memory."""
        import torch

        placement = without_margins(placement) if self.exact else placement
        data = _storable(placement.data)
        fill = _fill(placement)
        base = self._filled(placement.size + (0 if self.exact else ALIGNMENT // data.itemsize), fill, data.dtype)
        address = base.data_ptr() + placement.before * data.itemsize
        first = placement.before + _to_alignment(address, placement)
        view = torch.as_strided(base, placement.shape, placement.strides, first)
        bf16 = placement.data.dtype == np.uint16
        region = Region(placement, base, view.view(torch.bfloat16) if bf16 else view, first)
        self.write(region, placement.data)
        return region

    def write(self, region: Region, data: npt.NDArray[Any]) -> None:
        """See Memory."""
        import torch

        view, stored = region.view.view(region.base.dtype), torch.from_numpy(_storable(data)).to(self.device)
        for dimension, stride in enumerate(region.placement.strides):
            if stride == 0:  # torch refuses to write an element twice
                view, stored = view.narrow(dimension, 0, 1), stored.narrow(dimension, 0, 1)
        view[self._held(region)] = stored

    def read(self, region: Region) -> npt.NDArray[Any]:
        """See Memory."""
        import torch

        view = region.view.view(torch.int16) if region.view.dtype is torch.bfloat16 else region.view
        values: npt.NDArray[Any] = view[self._held(region)].cpu().contiguous().numpy()
        return values.view(region.placement.data.dtype).copy()

    def strays(self, region: Region) -> list[int]:
        """See Memory."""
        placement, fill = region.placement, _fill(region.placement)
        self.write(region, np.full(placement.data.shape, fill, _storable(placement.data).dtype))
        if self.device == "cpu":  # NumPy scans faster
            return _scan(region, region.base.numpy(), fill, np.flatnonzero)
        return _scan(region, region.base, fill, lambda changed: changed.nonzero()[:, 0])

    def _held(self, region: Region) -> Any:
        import torch

        return ... if region.placement.at is None else torch.from_numpy(region.placement.at).long().to(self.device)

    def _filled(self, size: int, fill: int, dtype: np.dtype[Any]) -> Any:
        import torch

        # NumPy's zeros stay unbacked by memory until they are written; torch's do not.
        if fill == 0 and self.device == "cpu":
            return torch.from_numpy(np.zeros(size, dtype))
        try:
            return torch.full((size,), fill, dtype=getattr(torch, dtype.name), device=self.device)
        except torch.OutOfMemoryError as error:
            raise MemoryError(str(error)) from error

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


def without_margins(placement: Placement) -> Placement:
    """The placement at the start of an aligned allocation that ends with its last element."""
    return replace(placement, before=placement.shift // placement.data.itemsize, after=0)


def _storable(data: npt.NDArray[Any]) -> npt.NDArray[Any]:
    # torch has bfloat16, whose bits it takes as int16, and little that works for uint16.
    return data.view(np.int16) if data.dtype == np.uint16 else data


def _scan(region: Region, base: Any, poison: int, flatnonzero: Callable[[Any], Any]) -> list[int]:
    for start in range(0, len(base), _SCAN):
        changed = base[start : start + _SCAN] != poison
        if bool(changed.any()):
            return [int(place) + start - region.first for place in flatnonzero(changed)[:8]]
    return []


def _fill(placement: Placement) -> int:
    return int(np.array(placement.poison).astype(np.int64).astype(_storable(placement.data).dtype))


def _to_alignment(address: int, placement: Placement) -> int:
    """Elements to move on, so that an address that is now `address` stands `placement.shift` after a boundary."""
    item = placement.data.itemsize
    if placement.shift % item:
        raise ValueError(f"shift is {placement.shift} bytes; allowed are multiples of {item}")
    return (placement.shift - address) % ALIGNMENT // item
