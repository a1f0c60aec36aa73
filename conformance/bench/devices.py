"""Define the operations that a timing needs on a GPU, for any array library."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from conformance.memory import Memory
from fixtures.cases import Int32s
from reference.scalars import Bf16Bits

Run = Callable[[], None]
"""A function that launches work on the current stream."""


class Stream(Protocol):
    """Describe the library's current stream, which waits for no other stream."""

    def captured(self, run: Run) -> Run:
        """Capture the launches of `run` in a CUDA graph and return its replay. Raises if `run` cannot be captured."""

    def elapsed(self, run: Run) -> float:
        """Return the microseconds of the launches of `run`, which is called twice; see `busy_first`."""

    def copy(self, destination: Any, source: Any) -> None:
        """Launch a copy from one packed array to another of as many bytes."""

    def synchronize(self) -> None:
        """Wait for all launches on the stream."""


class Device(Protocol):
    """Describe a GPU as a library gives access to it."""

    l2_bytes: int

    def facts(self) -> dict[str, Any]:
        """Return name, sm, memory_bytes, l2_bytes, driver_cuda, cuda_runtime and nvrtc in JSON types."""

    def identity(self) -> str:
        """Return the name by which nvidia-smi finds the device."""

    def free_bytes(self) -> int:
        """Return the bytes that can be allocated, after the library has freed its reserve."""

    def upload(self, numbers: Int32s) -> Any:
        """Return int32 numbers as an array on the device, of the same shape."""

    def random_bytes(self, shape: tuple[int, ...], seed: int) -> Any:
        """Return random bytes as a uint8 array on the device. Their number must be a multiple of 4.

        The device makes the bytes: the host would take minutes for gigabytes.

        Returns:
            A uint8 array of this shape.

        """

    def empty_rows(self, rows: int, width: int) -> Any:
        """Return an uninitialized array of bf16 [rows, width] on the device."""

    def fill(self, dst: Any, bits: int) -> None:
        """Write a bf16 encoding into every element of dst."""

    def rows_of(self, dst: Any, rows: npt.NDArray[np.int64]) -> Bf16Bits:
        """Return the rows of dst with the numbers `rows`, int64 [N]: uint16 [N, width] on the host."""

    def records_of(
        self, cache: Any, blocks: npt.NDArray[np.int64], slots: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.uint8]:
        """Return records of a cache, int64 [N] blocks and slots: uint8 [N, 352] on the host."""

    def stream(self) -> AbstractContextManager[Stream]:
        """Return a context in which a new non-blocking stream is current. All earlier work is done before.

        The stream does not wait for later uploads: from pageable memory they may still run when `upload` returns.

        Returns:
            A context manager of the stream.

        """


def busy_first(run: Run, start: Run, end: Run) -> None:
    """Launch `run` twice. Call `start` before the second time and `end` after it.

    While the device runs the first launches, the host launches the second ones. So no launch gap is timed.
    """
    run()
    start()
    run()
    end()


def device_of(memory: Memory) -> Device | None:
    """Return the GPU on which arrays of `memory` live, or None if they live elsewhere."""
    if memory.name == "cupy":
        from conformance.bench.cupy_device import CupyDevice

        return CupyDevice()
    if memory.name.startswith("torch:cuda"):
        from conformance.bench.torch_device import TorchDevice

        return TorchDevice(memory.name.removeprefix("torch:"))
    return None


def version_text(number: int) -> str:
    """Return CUDA's version number as text: 13000 -> 13.0."""
    return f"{number // 1000}.{number % 1000 // 10}"
