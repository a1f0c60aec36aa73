"""Define Region, an argument in a poisoned allocation, and Memory, the interface of all kinds of memory."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

from conformance.shortage import Room
from fixtures.placement import Placement


@dataclass
class Region:
    """Hold a placed argument: the whole allocation `base`, and the strided `view` that the target gets."""

    placement: Placement
    base: Any
    view: Any
    first: int
    """The index in `base` of the view's first element."""


class Memory(Protocol):
    """Make a target's arrays. Its methods raise conformance.shortage.Shortage if the memory is too small."""

    name: str
    on_device: bool
    """Whether the arrays are on a CUDA device."""
    exact: bool
    """Whether an allocation ends where its array does, so that a memory checker sees every access beyond it."""

    def place(self, placement: Placement) -> Region:
        """Allocate memory, fill it with poison, write the data, and return the region."""

    def write(self, region: Region, data: npt.NDArray[Any]) -> None:
        """Overwrite the view with data of the placement's shape and dtype."""

    def read(self, region: Region) -> npt.NDArray[Any]:
        """Return the view's content as a contiguous NumPy array of the placement's shape and dtype."""

    def strays(self, region: Region) -> list[int]:
        """Return the first few elements outside the view that lost their poison, relative to the view's first element.

        It destroys the view's content.
        """

    def synchronize(self) -> None:
        """Wait for everything that was launched."""

    def on_stream(self, stream: Any) -> AbstractContextManager[Any]:
        """Make a cupy.cuda.Stream the current one of the arrays' library."""

    def count_allocations(self) -> AbstractContextManager[list[int]]:
        """Return a context whose list gets the bytes of each allocation that the library makes in it."""

    def limit(self, nbytes: int) -> None:
        """Limit the device memory of all the library's arrays, in bytes. Does nothing on the CPU.

        It also frees memory that the library keeps and does not use.
        """

    def room(self) -> Room:
        """Return how much memory there is, and how much of it may be used."""
