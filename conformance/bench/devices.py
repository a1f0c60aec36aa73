"""What a GPU is asked for while a target is timed there, whichever library makes the target's arrays."""

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
"""Some launches on the current stream."""


class Stream(Protocol):
    """The library's current stream, which waits for no other one."""

    def captured(self, run: Run) -> Run:
        """Capture the launches of `run` into a CUDA graph and give its replay; raises whatever forbids it."""

    def elapsed(self, run: Run) -> float:
        """Microseconds that the device takes for the launches of `run`, which it is given twice: see `busy_first`."""

    def copy(self, destination: Any, source: Any) -> None:
        """Launch a copy of a packed array to another one of as many bytes."""

    def synchronize(self) -> None:
        """Wait for what was launched on it."""


class Device(Protocol):
    """A GPU, by way of a library."""

    l2_bytes: int

    def facts(self) -> dict[str, Any]:
        """What it is, in JSON types: name, sm, memory_bytes, l2_bytes, driver_cuda, cuda_runtime, nvrtc."""

    def identity(self) -> str:
        """What nvidia-smi knows it by."""

    def free_bytes(self) -> int:
        """Bytes that can be allocated, after the library has given back what it keeps in reserve."""

    def upload(self, numbers: Int32s) -> Any:
        """An int32 array of these numbers."""

    def random_bytes(self, shape: tuple[int, ...], seed: int) -> Any:
        """A uint8 array of a multiple of four bytes, made there: the host would take minutes for gigabytes."""

    def empty_rows(self, rows: int, width: int) -> Any:
        """A bf16 array [rows, width]."""

    def fill(self, dst: Any, bits: int) -> None:
        """Write a bf16 encoding into every element."""

    def rows_of(self, dst: Any, rows: npt.NDArray[np.int64]) -> Bf16Bits:
        """uint16 [N, width]: these rows of dst."""

    def records_of(
        self, cache: Any, blocks: npt.NDArray[np.int64], slots: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.uint8]:
        """uint8 [N, 352]: these slots of these blocks."""

    def stream(self) -> AbstractContextManager[Stream]:
        """Make a new non-blocking stream the current one, once all that was launched before is done.

        Such a stream does not wait for uploads: from pageable memory they may still be under way when they return.
        """


def busy_first(run: Run, start: Run, end: Run) -> None:
    """Launch `run` twice and let `start` and `end` mark the second time.

    While the device is at the first, the host launches the second, so that no launch gap is timed.
    """
    run()
    start()
    run()
    end()


def device_of(memory: Memory) -> Device | None:
    """The GPU that arrays of `memory` live on, or None where they live elsewhere."""
    if memory.name == "cupy":
        from conformance.bench.cupy_device import CupyDevice

        return CupyDevice()
    if memory.name.startswith("torch:cuda"):
        from conformance.bench.torch_device import TorchDevice

        return TorchDevice(memory.name.removeprefix("torch:"))
    return None


def version_text(number: int) -> str:
    """CUDA's number of a version as text: 13000 -> 13.0."""
    return f"{number // 1000}.{number % 1000 // 10}"
