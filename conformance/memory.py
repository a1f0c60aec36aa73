"""Where a target's arguments live: NumPy, CuPy or torch arrays placed in poisoned allocations, and read back."""

from __future__ import annotations

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
            base[first:], placement.data.shape, [stride * item for stride in placement.strides]
        )
        view[...] = self.xp.asarray(placement.data)
        return Region(placement, base, view, first)

    def read(self, region: Region) -> npt.NDArray[Any]:
        """See Memory."""
        return self._to_numpy(region.view)

    def strays(self, region: Region) -> list[int]:
        """See Memory."""
        region.view[...] = region.placement.poison
        for start in range(0, len(region.base), _SCAN):
            part = region.base[start : start + _SCAN]
            changed = part != region.placement.poison
            if changed.any():
                return [int(i) + start - region.first for i in self._to_numpy(self.xp.flatnonzero(changed)[:8])]
        return []

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

        item = placement.data.itemsize
        signed = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[item]
        fill = int(np.array(placement.poison).astype(np.int16)) if item == 2 else placement.poison
        base = self._filled(placement.size + ALIGNMENT // item, fill, signed)
        first = placement.before + _to_alignment(base.data_ptr() + placement.before * item, placement)
        view = torch.as_strided(base, placement.data.shape, placement.strides, first)
        view[...] = torch.from_numpy(_signed(placement.data)).to(self.device)
        return Region(placement, base, view.view(torch.bfloat16) if item == 2 else view, first)

    def read(self, region: Region) -> npt.NDArray[Any]:
        """See Memory."""
        import torch

        view = region.view.view(torch.int16) if region.view.dtype is torch.bfloat16 else region.view
        values: npt.NDArray[Any] = view.cpu().contiguous().numpy()
        return values.view(region.placement.data.dtype).copy()

    def strays(self, region: Region) -> list[int]:
        """See Memory."""
        fill = int(np.array(region.placement.poison).astype(_signed(region.placement.data).dtype))
        region.view.view(region.base.dtype)[...] = fill
        for start in range(0, len(region.base), _SCAN):
            changed = region.base[start : start + _SCAN] != fill
            if bool(changed.any()):
                return [int(i) + start - region.first for i in changed.nonzero()[:8, 0].cpu()]
        return []

    def _filled(self, size: int, fill: int, dtype: Any) -> Any:
        import torch

        if fill != 0:
            return torch.full((size,), fill, dtype=dtype, device=self.device)
        if self.device != "cpu":
            return torch.zeros(size, dtype=dtype, device=self.device)
        # NumPy's zeros stay unbacked by memory until they are written; torch's do not.
        return torch.from_numpy(np.zeros(size, str(dtype).removeprefix("torch.")))

    def synchronize(self) -> None:
        """See Memory."""
        import torch

        if self.device != "cpu":
            torch.cuda.synchronize(self.device)


def _signed(data: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return data.view(np.int16) if data.dtype == np.uint16 else data


def _to_alignment(address: int, placement: Placement) -> int:
    """Elements to move on, so that an address that is now `address` stands `placement.shift` after a boundary."""
    item = placement.data.itemsize
    if placement.shift % item:
        raise ValueError(f"shift is {placement.shift} bytes; allowed are multiples of {item}")
    return (placement.shift - address) % ALIGNMENT // item
