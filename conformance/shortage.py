"""Running out of memory, which is no verdict on a target: what was needed, and what there was."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", bound="HasRoom")

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")

_SAID = re.compile(
    "out of memory|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY|DefaultCPUAllocator: can't allocate",
    re.IGNORECASE,
)
"""What CUDA, CuPy and torch say in a RuntimeError."""

_WANTED = re.compile(rf"allocat(?:e|ing) ([\d.,]*\d) ({'|'.join(UNITS)})")
"""What NumPy, CuPy and torch say of the allocation that failed."""


@dataclass(frozen=True)
class Room:
    """What a memory has, in bytes: `free` is what nobody uses, `used` what this process does, where it has a limit."""

    where: str = "this machine"
    free: int | None = None
    limit: int | None = None
    used: int = 0

    def __str__(self) -> str:
        """In words."""
        free = [f"{size(self.free)} of {self.where} are free"] if self.free is not None else []
        if self.limit is None:
            return "; ".join(free)
        limited = f"this worker may use {size(self.limit)} of {self.where}, of which {size(self.used)} are in use"
        return "; ".join([limited, *free])


class HasRoom(Protocol):
    """What can say how much room it has."""

    def room(self) -> Room:
        """How much there is now."""


class Shortage(MemoryError):
    """An allocation that failed: the text says how much it needed, and how much there was."""


def is_shortage(error: BaseException) -> bool:
    """Whether an exception of NumPy, CuPy, torch or CUDA says that memory has run out."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and bool(_SAID.search(str(error))))


def stated(error: BaseException, memory: HasRoom) -> Shortage:
    """An exception that is_shortage, with what was needed and what a memory has."""
    if isinstance(error, Shortage):
        return error
    wanted = wanted_bytes(str(error))
    said = " ".join(str(error).split())[:200] or type(error).__name__
    needs = f"needs {size(wanted)} more" if wanted is not None else f"needs more ({said})"
    try:
        room = str(memory.room())
    except Exception as problem:  # a device that is lost says nothing
        room = f"what there is cannot be said: {type(problem).__name__}"
    return Shortage("; ".join(filter(None, (needs, room))))


def wanted_bytes(said: str) -> int | None:
    """The bytes of the allocation that failed, from what a library says of it."""
    found = _WANTED.search(said)
    return round(float(found[1].replace(",", "")) * 1024 ** UNITS.index(found[2])) if found else None


def stating_need(method: Callable[Concatenate[M, P], R]) -> Callable[Concatenate[M, P], R]:
    """A method of a memory that raises Shortage where its library says in its own way that memory has run out."""

    @wraps(method)
    def stating(self: M, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            if is_shortage(error):
                raise stated(error, self) from error
            raise

    return stating


def size(nbytes: int) -> str:
    """Bytes with one decimal place, in the largest unit of which there is one at least."""
    power = min(max(nbytes.bit_length() - 1, 0) // 10, len(UNITS) - 1)
    return f"{nbytes / 1024**power:.1f} {UNITS[power]}" if power else f"{nbytes} bytes"
