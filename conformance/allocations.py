"""How a placement lies in the allocation that is made for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fixtures.placement import Placement

ALIGNMENT = 256  # bytes; what a placement's shift counts from
SCAN = 1 << 24  # elements looked at together, so that a scan of a huge allocation needs little memory


def without_margins(placement: Placement) -> Placement:
    """The placement at the start of an aligned allocation that ends with its last element."""
    return replace(placement, before=placement.shift // placement.data.itemsize, after=0)


def storable(data: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array as torch takes it: it has bfloat16, whose bits are int16 to it, and little that works for uint16."""
    return data.view(np.int16) if data.dtype == np.uint16 else data


def scan(base: Any, first: int, poison: int, flatnonzero: Callable[[Any], Any]) -> list[int]:
    """The first few elements of an array that do not hold poison, relative to the element `first`."""
    for start in range(0, len(base), SCAN):
        changed = base[start : start + SCAN] != poison
        if bool(changed.any()):
            return [int(place) + start - first for place in flatnonzero(changed)[:8]]
    return []


def fill_of(placement: Placement) -> int:
    """The poison, as a number of what torch takes the array for."""
    return int(np.array(placement.poison).astype(np.int64).astype(storable(placement.data).dtype))


def to_alignment(address: int, placement: Placement) -> int:
    """Elements to move on, so that an address that is now `address` stands `placement.shift` after a boundary."""
    item = placement.data.itemsize
    if placement.shift % item:
        raise ValueError(f"shift is {placement.shift} bytes; allowed are multiples of {item}")
    return (placement.shift - address) % ALIGNMENT // item
