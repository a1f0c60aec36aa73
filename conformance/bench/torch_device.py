"""Time gathers on a GPU with torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from conformance.bench.devices import Run, busy_first
from fixtures.cases import Int32s
from reference.scalars import Bf16Bits

cuda: Any = torch.cuda  # its streams and events have no type hints


class TorchDevice:
    """Use a CUDA device of torch; implements Device."""

    def __init__(self, name: str) -> None:
        """Set the device by torch's name, for example cuda or cuda:1."""
        self._device = torch.device(name)
        self._properties: Any = torch.cuda.get_device_properties(self._device)
        self.l2_bytes = int(self._properties.L2_cache_size)

    def facts(self) -> dict[str, Any]:
        """Return the device's facts; driver_cuda and nvrtc are None, since torch does not know them."""
        return {
            "name": str(self._properties.name),
            "sm": f"sm_{self._properties.major}{self._properties.minor}",
            "memory_bytes": int(self._properties.total_memory),
            "l2_bytes": self.l2_bytes,
            "driver_cuda": None,
            "cuda_runtime": torch.version.cuda,
            "nvrtc": None,
        }

    def identity(self) -> str:
        """Return the GPU's UUID, by which nvidia-smi finds the device."""
        return f"GPU-{self._properties.uuid}"

    def free_bytes(self) -> int:
        """Return the free bytes, after torch's cache is emptied."""
        torch.cuda.synchronize(self._device)
        with suppress(RuntimeError):  # see _refuse_what_synchronizes
            torch.cuda.empty_cache()
        return int(torch.cuda.mem_get_info(self._device)[0])

    def upload(self, numbers: Int32s) -> Any:
        """Return int32 numbers as a tensor of the same shape."""
        return torch.from_numpy(numbers).to(self._device)

    def random_bytes(self, shape: tuple[int, ...], seed: int) -> Any:
        """Return random bytes as a uint8 tensor of this shape."""
        generator = torch.Generator(self._device).manual_seed(seed)
        return torch.randint(256, shape, dtype=torch.uint8, device=self._device, generator=generator)

    def empty_rows(self, rows: int, width: int) -> Any:
        """Return an uninitialized bfloat16 tensor [rows, width]."""
        return torch.empty((rows, width), dtype=torch.bfloat16, device=self._device)

    def fill(self, dst: Any, bits: int) -> None:
        """Write a bf16 encoding into every element of dst."""
        dst.view(torch.int16).fill_(int(np.uint16(bits).astype(np.int16)))

    def rows_of(self, dst: Any, rows: npt.NDArray[np.int64]) -> Bf16Bits:
        """Return the rows of dst with the numbers `rows`, int64 [N]: uint16 [N, width] on the host."""
        found: npt.NDArray[np.int16] = dst.view(torch.int16)[self._indices(rows)].cpu().numpy()
        return found.view(np.uint16)

    def records_of(
        self, cache: Any, blocks: npt.NDArray[np.int64], slots: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.uint8]:
        """Return records of a cache, int64 [N] blocks and slots: uint8 [N, 352] on the host."""
        found: npt.NDArray[np.uint8] = cache[self._indices(blocks), self._indices(slots)].cpu().numpy()
        return found

    def _indices(self, numbers: npt.NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(numbers).to(self._device)

    @contextmanager
    def stream(self) -> Iterator[_TorchStream]:
        """Yield a new stream as the current one, after all earlier work is done."""
        torch.cuda.synchronize(self._device)
        with torch.cuda.device(self._device):
            stream = cuda.Stream()
            with torch.cuda.stream(stream):
                yield _TorchStream(stream)


class _TorchStream:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def captured(self, run: Run) -> Run:
        _refuse_what_synchronizes(run)
        self._stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin()
        try:
            run()
        finally:
            graph.capture_end()
        return graph.replay

    def elapsed(self, run: Run) -> float:
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        busy_first(run, lambda: start.record(self._stream), lambda: end.record(self._stream))
        end.synchronize()
        return 1e3 * float(start.elapsed_time(end))

    def copy(self, destination: Any, source: Any) -> None:
        destination.copy_(source)

    def synchronize(self) -> None:
        self._stream.synchronize()


def _refuse_what_synchronizes(run: Run) -> None:
    # torch's allocator stays in the middle of a capture that fails, and gives no memory back from then on (torch 2.11).
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        run()
    finally:
        torch.cuda.set_sync_debug_mode(before)
