"""Limit the time of searches for known faults: for one difference, and in a whole process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from conformance.patience import PATIENCE

SECONDS = 4.0
"""The seconds that the search for one difference may take."""

MOST_SECONDS = 20.0
"""After how long a process looks for known faults no more: a target may fail hundreds of tests."""


class NotLookedInto(Exception):
    """Why it is not known whether a known fault explains a difference."""


class Searches:
    """Count the seconds that this process has spent on searches, `seconds`, of the `most` that it may."""

    seconds, most = 0.0, MOST_SECONDS

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Add what a search takes. Raise NotLookedInto if searches have taken too long already."""
        if self.seconds >= self.most:
            raise NotLookedInto(
                f"known faults were not looked for: that has taken {self.most:g} s in this process already"
            )
        began = time.monotonic()
        try:
            with PATIENCE.paused():
                yield
        finally:
            self.seconds += time.monotonic() - began


SEARCHES = Searches()


def deadline() -> float:
    """Return when a search that begins now is to be over, on the clock time.monotonic."""
    return time.monotonic() + SECONDS


def is_over(until: float) -> bool:
    """Return whether a deadline has come."""
    return time.monotonic() >= until
