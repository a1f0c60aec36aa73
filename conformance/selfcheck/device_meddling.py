"""CUDA targets that gather the right rows and behave badly: one for each clause of DEVICE."""

import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conformance.targets.kernels import CudaTarget

Call = dict[str, Any]
Gather = Callable[..., None]


class Meddling(CudaTarget):
    """The project's kernel, called by `run` as it likes."""

    def __init__(self, run: Callable[[Gather, Call], None]) -> None:
        super().__init__()
        self.run = run

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
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
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)

    def run(gather: Gather, call: Call) -> None:
        with stream:
            gather(**call)

    return run


def on_the_default_stream(gather: Gather, call: Call) -> None:
    import cupy

    with cupy.cuda.Stream.null:
        gather(**call)


def after_a_look_at_the_starts(gather: Gather, call: Call) -> None:
    if call["seq_starts"] is not None and len(call["seq_starts"]):
        call["seq_starts"].get()
    gather(**call)


def waiting_for_the_rows(gather: Gather, call: Call) -> None:
    import cupy

    gather(**call)
    cupy.cuda.get_current_stream().synchronize()


def with_starts_remembered() -> Callable[[Gather, Call], None]:
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
    import cupy

    scratch = cupy.empty(1 << 12, cupy.uint8)
    gather(**call)
    del scratch


def with_scratch_memory_of_the_stream(gather: Gather, call: Call) -> None:
    import cupy

    pointer = cupy.cuda.runtime.mallocAsync(1 << 12, cupy.cuda.get_current_stream().ptr)
    gather(**call)
    cupy.cuda.runtime.freeAsync(pointer, cupy.cuda.get_current_stream().ptr)


def with_memory_that_is_never_freed(gather: Gather, call: Call) -> None:
    import cupy

    cupy.cuda.runtime.malloc(64 << 20)
    gather(**call)


def wrong_once_in_twenty() -> Callable[[Gather, Call], None]:
    calls = 0

    def run(gather: Gather, call: Call) -> None:
        nonlocal calls
        calls += 1
        gather(**call)
        if calls % 20 == 0:
            call["dst"][-1, 7] ^= 1

    return run


def through_one_scratch_buffer() -> Callable[[Gather, Call], None]:
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
    def run(gather: Gather, call: Call) -> None:
        gather(**{**call, "dst": call["dst"][:most]})

    return run


def with_an_error_left_behind(gather: Gather, call: Call) -> None:
    gather(**call)
    if len(call["dst"]) == 0:
        path = re.findall(r"\S*/libcudart\.so[.0-9]*$", Path("/proc/self/maps").read_text(), re.MULTILINE)[0]
        ctypes.CDLL(path).cudaSetDevice(9999)


class ReadingWhatNobodyWrote(Meddling):
    """A target with scratch memory that it reads before it writes, as compute-sanitizer's initcheck finds out."""

    def __init__(self) -> None:
        super().__init__(self._run)

    def _run(self, gather: Gather, call: Call) -> None:
        import cupy

        scratch = cupy.empty(256, cupy.uint8)
        gather(**call)
        scratch[:128] += scratch[128:]


def refusing_after_a_launch(gather: Gather, call: Call) -> None:
    import cupy

    try:
        gather(**call)
    except ValueError:
        cupy.RawKernel('extern "C" __global__ void nothing() {}', "nothing")((1,), (1,), ())
        raise
