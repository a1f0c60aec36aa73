"""Targets that take their process down, or never return, on some cases."""

import os
import signal
import time
from typing import Any

from conformance.targets.models import NumpyTarget


class Dies(NumpyTarget):
    """Gathers right, but for calls of 18 rows, on which it is killed."""

    def __init__(self) -> None:
        super().__init__()
        self.crash_prone = True

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, src_cache: Any, dst: Any, *others: Any, **more: Any) -> None:
        if len(dst) == 18:
            self.end()
        super().cp_gather_and_upconvert_nvfp4_kv_cache(src_cache, dst, *others, **more)

    def end(self) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)


class Hangs(Dies):
    def end(self) -> None:
        time.sleep(3600)
