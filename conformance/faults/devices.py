"""Define CUDA targets that gather the right rows and break one clause of DEVICE each."""

import ctypes
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from conformance.faults.defect import Defect
from conformance.targets.base import GATHER, GATHER_STARTS
from conformance.targets.kernels import CudaTarget

Call = dict[str, Any]
Gather = Callable[..., None]


class Meddling(CudaTarget):
    """Call the project's kernel through a function that may do more than the call."""

    capabilities = frozenset({GATHER, GATHER_STARTS})

    def __init__(self, run: Callable[[Gather, Call], None]) -> None:
        """Set `run`, which gets the gather and the arguments of a call by name."""
        super().__init__()
        self.run = run

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """Pass the call to `run`; the arguments are those of Target."""
        call = dict(
            src_cache=src_cache,
            dst=dst,
            block_table=block_table,
            workspace_starts=workspace_starts,
            batch_size=batch_size,
            seq_starts=seq_starts,
        )
        self.run(self.operators.cp_gather_and_upconvert_nvfp4_kv_cache, call)


def on_a_stream_of_its_own() -> Callable[[Gather, Call], None]:
    """Return a function that launches on a new stream and ignores the current one."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)

    def run(gather: Gather, call: Call) -> None:
        with stream:
            gather(**call)

    return run


def on_the_default_stream(gather: Gather, call: Call) -> None:
    """Launch on the default stream and ignore the current one."""
    import cupy

    with cupy.cuda.Stream.null:
        gather(**call)


def after_a_look_at_the_starts(gather: Gather, call: Call) -> None:
    """Copy seq_starts to the host before the launch."""
    if call["seq_starts"] is not None and len(call["seq_starts"]):
        call["seq_starts"].get()
    gather(**call)


def waiting_for_the_rows(gather: Gather, call: Call) -> None:
    """Synchronize the current stream after the launch."""
    import cupy

    gather(**call)
    cupy.cuda.get_current_stream().synchronize()


def with_starts_remembered() -> Callable[[Gather, Call], None]:
    """Return a function that uses the seq_starts first seen at an address for all later calls."""
    seen: dict[int, Any] = {}

    def run(gather: Gather, call: Call) -> None:
        starts = call["seq_starts"]
        if starts is not None:
            if starts.data.ptr not in seen:
                seen[starts.data.ptr] = starts.copy()
            call["seq_starts"] = seen[starts.data.ptr]
        gather(**call)

    return run


def with_scratch_memory_from_the_pool(gather: Gather, call: Call) -> None:
    """Allocate scratch memory from CuPy's pool around the launch."""
    import cupy

    scratch = cupy.empty(1 << 12, cupy.uint8)
    gather(**call)
    del scratch


def with_scratch_memory_of_the_stream(gather: Gather, call: Call) -> None:
    """Allocate scratch memory with mallocAsync and free it with freeAsync around the launch."""
    import cupy

    pointer = cupy.cuda.runtime.mallocAsync(1 << 12, cupy.cuda.get_current_stream().ptr)
    gather(**call)
    cupy.cuda.runtime.freeAsync(pointer, cupy.cuda.get_current_stream().ptr)


def with_memory_that_is_never_freed(gather: Gather, call: Call) -> None:
    """Allocate 64 MiB with cudaMalloc in each call and never free it."""
    import cupy

    cupy.cuda.runtime.malloc(64 << 20)
    gather(**call)


def wrong_once_in_twenty() -> Callable[[Gather, Call], None]:
    """Return a function that flips one bit of dst in every twentieth call."""
    calls = 0

    def run(gather: Gather, call: Call) -> None:
        nonlocal calls
        calls += 1
        gather(**call)
        if calls % 20 == 0:
            call["dst"][-1, 7] ^= 1

    return run


def through_one_scratch_buffer() -> Callable[[Gather, Call], None]:
    """Return a function that gathers into one scratch buffer for all calls, then copies to dst."""
    import cupy

    scratch = cupy.empty((4096, 576), cupy.uint16)
    slow = cupy.RawKernel(
        'extern "C" __global__ void slow() { for (int i = 0; i < 50; ++i) __nanosleep(20000); }', "slow"
    )

    def run(gather: Gather, call: Call) -> None:
        dst = call["dst"]
        rows = scratch[: len(dst)]
        gather(**{**call, "dst": rows})
        slow((1,), (1,), ())
        dst[...] = rows

    return run


def only_the_first_rows(most: int) -> Callable[[Gather, Call], None]:
    """Return a function that writes the first `most` rows only, as a grid of limited size does."""

    def run(gather: Gather, call: Call) -> None:
        gather(**{**call, "dst": call["dst"][:most]})

    return run


def with_an_error_left_behind(gather: Gather, call: Call) -> None:
    """Gather, and leave an error pending in the CUDA runtime if dst has no rows."""
    gather(**call)
    if len(call["dst"]) == 0:
        path = re.findall(r"\S*/libcudart\.so[.0-9]*$", Path("/proc/self/maps").read_text(), re.MULTILINE)[0]
        ctypes.CDLL(path).cudaSetDevice(9999)


class ReadingWhatNobodyWrote(Meddling):
    """Read scratch memory before it is written, which compute-sanitizer's initcheck reports."""

    def __init__(self) -> None:
        """Use the faulty run."""
        super().__init__(self._run)

    def _run(self, gather: Gather, call: Call) -> None:
        import cupy

        scratch = cupy.empty(256, cupy.uint8)
        gather(**call)
        scratch[:128] += scratch[128:]


def refusing_after_a_launch(gather: Gather, call: Call) -> None:
    """Launch a kernel before the ValueError of a malformed call is raised."""
    import cupy

    try:
        gather(**call)
    except ValueError:
        cupy.RawKernel('extern "C" __global__ void nothing() {}', "nothing")((1,), (1,), ())
        raise


def _of_32_bits(gather: Gather, call: Call) -> None:
    dst = call["dst"]
    most = (1 << 31) // dst.strides[0] * 2
    gather(**{**call, "dst": dst[:most]})


def _defect(name: str, clause: str, sentence: str, make: Callable[[], Callable[[Gather, Call], None]]) -> Defect:
    return Defect(f"device-{name}", sentence, clause, "device", lambda: Meddling(make()))


DEFECTS = (
    _defect("stream-of-its-own", "DEVICE-1", "launched on a stream of its own", on_a_stream_of_its_own),
    _defect("default-stream", "DEVICE-2", "launched on the default stream", lambda: on_the_default_stream),
    _defect("starts-copied", "DEVICE-3", "seq_starts copied to the host first", lambda: after_a_look_at_the_starts),
    _defect("waits", "DEVICE-3", "waits for its rows", lambda: waiting_for_the_rows),
    _defect("starts-remembered", "DEVICE-4", "seq_starts of an address remembered", with_starts_remembered),
    _defect("pool", "DEVICE-5", "scratch memory from the library", lambda: with_scratch_memory_from_the_pool),
    _defect("stream-ordered", "DEVICE-5", "scratch memory of the stream", lambda: with_scratch_memory_of_the_stream),
    _defect("never-freed", "DEVICE-5", "memory allocated and never freed", lambda: with_memory_that_is_never_freed),
    _defect("once-in-twenty", "DEVICE-6", "one bit of each twentieth call wrong", wrong_once_in_twenty),
    _defect("shared-scratch", "DEVICE-7", "one scratch buffer for all calls", through_one_scratch_buffer),
    _defect("65535-rows", "DEVICE-8", "65,535 rows at most", partial(only_the_first_rows, 65_535)),
    _defect("offset-of-dst", "DEVICE-9", "rows beyond 2^32 bytes of dst not written", lambda: _of_32_bits),
    _defect("error-pending", "DEVICE-10", "an error left pending", lambda: with_an_error_left_behind),
    _defect("launch-then-refuse", "DEVICE-11", "a launch before the refusal", lambda: refusing_after_a_launch),
)
