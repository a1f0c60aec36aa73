"""How long one case may take: past that, the process writes where it is and ends."""

from __future__ import annotations

import faulthandler
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Patience:
    """The one timer that this process has for it: faulthandler's, which needs neither the GIL nor the main thread.

    It does nothing until `limit` has been called, and outside of begin() and end().
    """

    def __init__(self) -> None:
        """Without a limit."""
        self._seconds, self._file = 0.0, 2
        self._since: float | None = None

    def limit(self, seconds: float, file: int) -> None:
        """Let each case have that long, 0 for ever, and `file`, a descriptor, hear where one was that took longer."""
        self._seconds, self._file = seconds, file

    def begin(self) -> None:
        """Count from now on."""
        if self._seconds:
            self._since = time.monotonic()
            faulthandler.dump_traceback_later(self._seconds, exit=True, file=self._file)

    def again(self) -> None:
        """Count anew, for the next case: unless that was done just now, as it takes a thread each time."""
        if self._since is not None and time.monotonic() - self._since > self._seconds / 20:
            self.begin()

    def end(self) -> None:
        """Count no more."""
        if self._since is not None:
            faulthandler.cancel_dump_traceback_later()
            self._since = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count what is none of the target's work."""
        counting = self._since is not None
        self.end()
        try:
            yield
        finally:
            if counting:
                self.begin()


PATIENCE = Patience()
