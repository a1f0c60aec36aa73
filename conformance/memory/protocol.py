"""Region and Memory: an argument in a poisoned allocation, and what every kind of memory offers."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

from conformance.shortage import Room
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
