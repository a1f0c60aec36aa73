"""How a placement lies in the allocation that is made for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from mmap import PAGESIZE
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fixtures.placement import HUGE, Placement

ALIGNMENT = 256  # bytes; what a placement's shift counts from
SCAN = 1 << 24  # elements looked at together, so that a scan of a huge allocation needs little memory


def without_margins(placement: Placement) -> Placement:
    """The placement at the start of an aligned allocation that ends with its last element."""
    return replace(placement, before=placement.shift // placement.data.itemsize, after=0)


def storable(data: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array as torch takes it: it has bfloat16, whose bits are int16 to it, and little that works for uint16."""
    return data.view(np.int16) if data.dtype == np.uint16 else data


def scan(base: Any, first: int, poison: int, flatnonzero: Callable[[Any], Any]) -> list[int]:
    """The first few elements of an array that do not hold poison, relative to the element `first`, which was written.

    Of a huge NumPy array of zeros only the pages are read that the system backs with memory: the others hold zeros
    still, and to read them takes longer than everything else together.
    """
    parts = [(0, len(base))]
    if poison == 0 and isinstance(base, np.ndarray) and base.nbytes >= HUGE:
        parts = backed_parts(base, first) or parts
    for begin, end in parts:
        for start in range(begin, end, SCAN):
            changed = base[start : min(start + SCAN, end)] != poison
            if bool(changed.any()):
                return [int(place) + start - first for place in flatnonzero(changed)[:8]]
    return []


def backed_parts(base: npt.NDArray[Any], written: int) -> list[tuple[int, int]]:
    """Return the ranges of elements in pages that memory or swap backs, in order.

    Return none where the system does not say so, or says that the page of the element `written` is not backed.
    """
    pages = (base.ctypes.data // PAGESIZE, -(-(base.ctypes.data + base.nbytes) // PAGESIZE))
    try:
        with Path("/proc/self/pagemap").open("rb", buffering=0) as pagemap:
            pagemap.seek(8 * pages[0])
            entries = np.frombuffer(pagemap.read(8 * (pages[1] - pages[0])), np.uint64)
    except OSError:
        return []
    backed = np.concatenate([[False], entries >> np.uint64(62) != 0, [False]])  # present, or swapped out
    if len(entries) != pages[1] - pages[0] or not backed[_page(base, written) - pages[0] + 1]:
        return []
    edges = np.flatnonzero(backed[1:] != backed[:-1]).reshape(-1, 2) + pages[0]
    offsets = np.clip(edges * PAGESIZE - base.ctypes.data, 0, base.nbytes)
    return [(int(begin), int(end)) for begin, end in offsets // base.itemsize]


def _page(base: npt.NDArray[Any], element: int) -> int:
    address: int = base.ctypes.data + element * base.itemsize
    return address // PAGESIZE


def fill_of(placement: Placement) -> int:
    """The poison, as a number of what torch takes the array for."""
    return int(np.array(placement.poison).astype(np.int64).astype(storable(placement.data).dtype))


def to_alignment(address: int, placement: Placement) -> int:
    """Elements to move on, so that an address that is now `address` stands `placement.shift` after a boundary."""
    item = placement.data.itemsize
    if placement.shift % item:
        raise ValueError(f"shift is {placement.shift} bytes; allowed are multiples of {item}")
    return (placement.shift - address) % ALIGNMENT // item
