"""CUDA errors that a call left behind: the last error of each CUDA runtime library in this process.

A runtime keeps the error of a failed launch until somebody asks for it. Each copy of the runtime keeps its own, so all
shared ones are asked. One that is linked into a target statically, as CuPy's own is, cannot be asked.
"""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Callable
from pathlib import Path

from conformance.memory import Memory
from conformance.shortage import is_shortage, stated

_MAPS = Path("/proc/self/maps")
_runtimes: dict[str, ctypes.CDLL] = {}
_calls = itertools.count(1)


def take() -> str | None:
    """Return what is pending, one line, and clear it; None if nothing is."""
    number = next(_calls)
    if number & (number - 1) == 0:  # a target may load its runtime late, and looking takes longer than a call
        _find()
    pending = [_take(path, runtime) for path, runtime in _runtimes.items()]
    return "; ".join(error for error in pending if error) or None


def call_and_take(memory: Memory, call: Callable[[], object]) -> str | None:
    """Make a call on arrays of a memory; return the CUDA error that it leaves pending, None without one.

    An exception of the call is passed on, and what it leaves pending is cleared.

    Raises:
        Shortage: the call runs out of memory. The text says how much it needed.
    """
    if memory.on_device:
        take()  # what was there before is not this call's
    try:
        call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if is_shortage(error):
            raise stated(error, memory) from error
        raise
    finally:
        left = take() if memory.on_device else None
    return left


def runtimes() -> tuple[str, ...]:
    """The paths of the runtimes that are asked."""
    _find()
    return tuple(_runtimes)


def _find() -> None:
    if not _MAPS.exists():
        return
    for path in set(re.findall(r"\S*/libcudart\.so[.0-9]*$", _MAPS.read_text(), re.MULTILINE)) - set(_runtimes):
        _runtimes[path] = _opened(path)


def _opened(path: str) -> ctypes.CDLL:
    runtime = ctypes.CDLL(path)  # it is loaded already, so that this is a second handle of the same copy
    runtime.cudaGetErrorName.restype = ctypes.c_char_p
    return runtime


def _take(path: str, runtime: ctypes.CDLL) -> str | None:
    if runtime.cudaPeekAtLastError() == 0:
        return None
    error = runtime.cudaGetLastError()
    return f"{runtime.cudaGetErrorName(error).decode()} ({error}) in {Path(path).name}"
