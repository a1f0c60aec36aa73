"""Targets that take their process down, or never return, on some cases."""

import ctypes
import os
import signal
import time
from collections.abc import Callable
from typing import Any

from conformance.targets.models import NumpyTarget


class Dies(NumpyTarget):
    """Gathers right, but for calls of 18 rows, on which it is killed."""

    def __init__(self) -> None:
        super().__init__()
        self.crash_prone = True
        self.ends: dict[int, Callable[[], Any]] = {18: self.end}

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, src_cache: Any, dst: Any, *others: Any, **more: Any) -> None:
        if len(dst) in self.ends:
            self.ends[len(dst)]()
        super().cp_gather_and_upconvert_nvfp4_kv_cache(src_cache, dst, *others, **more)

    def end(self) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)


class Hangs(Dies):
    def end(self) -> None:
        time.sleep(3600)


class Interrupts(Dies):
    """Whoever runs the gate is tired of it: an interrupt to the process that reports, as Ctrl-C sends it."""

    def __init__(self) -> None:
        super().__init__()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background has switched off

    def end(self) -> None:
        self.ends = {}
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(1)


def hang_in_c() -> None:
    ctypes.PyDLL(None).sleep(3600)  # unlike CDLL, it keeps the interpreter's lock


def exit_at_once() -> None:
    os._exit(3)


class DiesInEachWay(Dies):
    """On calls of 18 rows by a signal, of 35 by an exit, and of 80 rows it hangs."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = {18: self.end, 35: exit_at_once, 80: hang_in_c}


class ExitsAfterwards(NumpyTarget):
    """Conforms, and takes the process down that asks for its receipt."""

    def receipt(self) -> dict[str, Any]:
        exit_at_once()
        return {}
