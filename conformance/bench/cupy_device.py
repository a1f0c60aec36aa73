"""Time gathers on a GPU with CuPy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.bench.devices import Run, busy_first, version_text
from fixtures.cases import Int32s
from reference.scalars import Bf16Bits

# A hash of the index: cupy.random needs cuRAND, which nothing else here does.
_RANDOM_WORDS = """
unsigned int x = (unsigned int)i * 0x9E3779B1u + seed;
x ^= x >> 16; x *= 0x7FEB352Du;
x ^= x >> 15; x *= 0x846CA68Bu;
word = x ^ (x >> 16);
"""


class CupyDevice:
    """Use CuPy's current device; implements Device."""

    def __init__(self) -> None:
        """Read the device's properties. Raises ImportError without CuPy."""
        import cupy

        self._cupy = cupy
        self._number = cupy.cuda.Device().id
        self._properties = cupy.cuda.runtime.getDeviceProperties(self._number)
        self.l2_bytes = int(self._properties["l2CacheSize"])

    def facts(self) -> dict[str, Any]:
        """Return the device's facts in JSON types; see Device."""
        runtime, nvrtc = self._cupy.cuda.runtime, self._cupy.cuda.nvrtc
        return {
            "name": self._properties["name"].decode(),
            "sm": f"sm_{self._cupy.cuda.Device(self._number).compute_capability}",
            "memory_bytes": int(self._properties["totalGlobalMem"]),
            "l2_bytes": self.l2_bytes,
            "driver_cuda": version_text(runtime.driverGetVersion()),
            "cuda_runtime": version_text(runtime.runtimeGetVersion()),
            "nvrtc": ".".join(str(part) for part in nvrtc.getVersion()),
        }

    def identity(self) -> str:
        """Return the PCI bus id, by which nvidia-smi finds the device."""
        return str(self._cupy.cuda.runtime.deviceGetPCIBusId(self._number))

    def free_bytes(self) -> int:
        """Return the free bytes, after CuPy's memory pool is emptied."""
        self._cupy.cuda.runtime.deviceSynchronize()
        self._cupy.get_default_memory_pool().free_all_blocks()
        return int(self._cupy.cuda.runtime.memGetInfo()[0])

    def upload(self, numbers: Int32s) -> Any:
        """Return int32 numbers as a CuPy array of the same shape."""
        return self._cupy.asarray(numbers)

    def random_bytes(self, shape: tuple[int, ...], seed: int) -> Any:
        """Return random bytes as a uint8 CuPy array. Their number must be a multiple of 4."""
        words = self._cupy.empty(int(np.prod(shape, dtype=np.int64)) // 4, np.uint32)
        self._random_words(np.uint32(seed), words)
        return words.view(np.uint8).reshape(shape)

    @cached_property
    def _random_words(self) -> Any:
        return self._cupy.ElementwiseKernel("uint32 seed", "uint32 word", _RANDOM_WORDS, "nvfp4_bench_random_words")

    def empty_rows(self, rows: int, width: int) -> Any:
        """Return an uninitialized uint16 CuPy array [rows, width] for bf16 encodings."""
        return self._cupy.empty((rows, width), np.uint16)

    def fill(self, dst: Any, bits: int) -> None:
        """Write a bf16 encoding into every element of dst."""
        dst.fill(bits)

    def rows_of(self, dst: Any, rows: npt.NDArray[np.int64]) -> Bf16Bits:
        """Return the rows of dst with the numbers `rows`, int64 [N]: uint16 [N, width] on the host."""
        found: Bf16Bits = self._cupy.asnumpy(dst[self._cupy.asarray(rows)])
        return found

    def records_of(
        self, cache: Any, blocks: npt.NDArray[np.int64], slots: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.uint8]:
        """Return records of a cache, int64 [N] blocks and slots: uint8 [N, 352] on the host."""
        at = self._cupy.asarray(blocks), self._cupy.asarray(slots)
        found: npt.NDArray[np.uint8] = self._cupy.asnumpy(cache[at])
        return found

    @contextmanager
    def stream(self) -> Iterator[_CupyStream]:
        """Yield a new non-blocking stream as the current one, after all earlier work is done."""
        self._cupy.cuda.runtime.deviceSynchronize()
        stream = self._cupy.cuda.Stream(non_blocking=True)
        with stream:
            yield _CupyStream(self._cupy, stream)


class _CupyStream:
    def __init__(self, cupy: Any, stream: Any) -> None:
        self._cupy, self._stream = cupy, stream

    def captured(self, run: Run) -> Run:
        self._stream.synchronize()
        self._stream.begin_capture()
        try:
            run()
        finally:
            graph = self._stream.end_capture()
        return lambda: graph.launch(self._stream)

    def elapsed(self, run: Run) -> float:
        start, end = self._cupy.cuda.Event(), self._cupy.cuda.Event()
        busy_first(run, lambda: start.record(self._stream), lambda: end.record(self._stream))
        end.synchronize()
        return 1e3 * float(self._cupy.cuda.get_elapsed_time(start, end))

    def copy(self, destination: Any, source: Any) -> None:
        runtime = self._cupy.cuda.runtime
        runtime.memcpyAsync(
            destination.data.ptr, source.data.ptr, source.nbytes, runtime.memcpyDeviceToDevice, self._stream.ptr
        )

    def synchronize(self) -> None:
        self._stream.synchronize()
