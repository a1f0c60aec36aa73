"""Where a target's arguments live: NumPy, CuPy or torch arrays placed in poisoned allocations, and read back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


class ArrayMemory:
    """Arrays of NumPy, or of a module with its interface."""

    def __init__(self, name: str = "numpy", xp: Any = np) -> None:
        """`xp` is numpy or cupy."""
        self.name, self.xp = name, xp

    def place(self, placement: Placement) -> Region:
        """See Memory."""
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
        if self.xp is not np:
            self.xp.cuda.get_current_stream().synchronize()

    def _allocate(self, placement: Placement) -> tuple[Any, int]:
        item = placement.data.itemsize
        make = self.xp.zeros if placement.poison == 0 else self.xp.empty
        base = make(placement.size + ALIGNMENT // item, placement.data.dtype)
        if placement.poison != 0:
            base.fill(placement.poison)
        return base, placement.before + _to_alignment(self._address(base) + placement.before * item, placement)

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

    def place(self, placement: Placement) -> Region:
        """See Memory."""
        import torch

        data = _storable(placement.data)
        fill = _fill(placement)
        base = self._filled(placement.size + ALIGNMENT // data.itemsize, fill, data.dtype)
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
        if region.placement.strides[0] == 0:  # torch refuses to write an element twice
            view, stored = view[:1], stored[:1]
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
        return torch.full((size,), fill, dtype=getattr(torch, dtype.name), device=self.device)

    def synchronize(self) -> None:
        """See Memory."""
        import torch

        if self.device != "cpu":
            torch.cuda.synchronize(self.device)


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
