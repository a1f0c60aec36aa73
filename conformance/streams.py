"""Streams of a CUDA device, and what keeps one busy as long as a test needs: through CuPy, whatever the target uses."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import TracebackType
from typing import Any

import numpy as np

# Only a target that waits for a stream that is held, and so for what the test does next, ever takes this long.
MOST_SECONDS = 3.0
SETTLE_SECONDS = 0.05

_HOLD = r"""
__device__ inline unsigned long long now() {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}
extern "C" __global__ void hold(const volatile unsigned* released, unsigned long long most_ns) {
    const unsigned long long start = now();
    while (*released == 0 && now() - start < most_ns) __nanosleep(2000);
}
"""


def cupy() -> Any:
    """The cupy module."""
    import cupy

    return cupy


def new_stream() -> Any:
    """A cupy.cuda.Stream that does not wait for the default stream."""
    return cupy().cuda.Stream(non_blocking=True)


class Hold:
    """Keeps a stream busy until `release`, or for MOST_SECONDS; as a context manager it releases in the end."""

    def __init__(self, stream: Any) -> None:
        """`stream` is a cupy.cuda.Stream."""
        self._flag_memory = cupy().cuda.alloc_pinned_memory(4)
        self._flag = np.frombuffer(self._flag_memory, np.uint32, 1)
        self._flag[0] = 0
        self._done = cupy().cuda.Event(disable_timing=True)
        with stream:
            _hold_kernel()((1,), (1,), (np.uint64(self._flag_memory.ptr), np.uint64(MOST_SECONDS * 1e9)))
            self._done.record(stream)

    @property
    def holds(self) -> bool:
        """Whether the stream is still busy with it."""
        return not self._done.done

    def release(self) -> None:
        """Let the stream go on, and wait until it does."""
        self._flag[0] = 1
        self._done.synchronize()

    def __enter__(self) -> Hold:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release."""
        self.release()


@cache
def _hold_kernel() -> Any:
    return cupy().RawKernel(_HOLD, "hold")


def settle() -> None:
    """Give work that wrongly went elsewhere the time to be done."""
    time.sleep(SETTLE_SECONDS)


def done_within(stream: Any, seconds: float) -> bool:
    """Whether everything enqueued on a stream is done by then."""
    end = time.monotonic() + seconds
    while not stream.done:
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True


@contextmanager
def capturing(stream: Any) -> Iterator[list[Any]]:
    """Capture what is enqueued on a stream; the list then holds the cupy.cuda.Graph.

    A CUDARuntimeError if something was done that cannot be captured; the stream is usable again in any case.
    """
    captured: list[Any] = []
    stream.begin_capture(cupy().cuda.runtime.streamCaptureModeGlobal)
    try:
        yield captured
    except BaseException:
        _abandon(stream)
        raise
    captured.append(stream.end_capture())


def _abandon(stream: Any) -> None:
    try:
        stream.end_capture()
    except cupy().cuda.runtime.CUDARuntimeError:
        pass  # the capture is invalid, and over


ALLOCATIONS = {10: "an allocation", 11: "a release of memory"}
"""The CUgraphNodeType numbers of what a gather has no business to do."""


def node_types(graph: Any) -> list[int]:
    """The CUgraphNodeType of each node of a cupy.cuda.Graph."""
    driver = ctypes.CDLL("libcuda.so.1")
    count = ctypes.c_size_t(0)
    handle = ctypes.c_void_p(int(graph.graph))
    _checked(driver.cuGraphGetNodes(handle, None, ctypes.byref(count)))
    nodes = (ctypes.c_void_p * count.value)()
    if count.value:
        _checked(driver.cuGraphGetNodes(handle, nodes, ctypes.byref(count)))
    types = []
    for node in nodes:
        kind = ctypes.c_int()
        _checked(driver.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind)))
        types.append(kind.value)
    return types


def _checked(status: int) -> None:
    if status != 0:
        raise RuntimeError(f"the CUDA driver says {status}")
