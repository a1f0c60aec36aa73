"""What is said of a run while it is under way: how far it is, how fast, and what it has found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from conformance.reports.verdicts import BY_SEVERITY
from conformance.verdict import CONFORMS, DIFFERS

ENOUGH_SECONDS = 2.0
"""After how long a pace says something."""


@dataclass(frozen=True)
class Progress:
    """A run so far: `tests` of `total` (None if that is not known yet) are done after `seconds`.

    `found` counts the tests by verdict; those that conform may be left out.
    """

    total: int | None = None
    tests: int = 0
    cases: int = 0
    seconds: float = 0.0
    found: Mapping[str, int] = field(default_factory=dict)

    def line(self, over: bool = False) -> str:
        """The run in one line, what must not be cut off first: for one that is over with its time in all."""
        found = [self._found(verdict) for verdict in BY_SEVERITY if verdict != CONFORMS and self.found.get(verdict)]
        total = "?" if self.total is None else f"{self.total:,}"
        pace = f"{self.cases / self.seconds:,.0f}" if self.seconds >= ENOUGH_SECONDS or (over and self.seconds) else "?"
        # How much is left, nobody can say: the longest tests are the first.
        time = f"in {clock(self.seconds)}" if over else f"{clock(self.seconds)} so far"
        return ", ".join([f"{self.tests:,} of {total} tests", *found, time, f"{self.cases:,} cases", f"{pace} cases/s"])

    def _found(self, verdict: str) -> str:
        count = self.found[verdict]
        return f"{count:,} {'differ' if verdict == DIFFERS and count > 1 else verdict}"


def clock(seconds: float) -> str:
    """A duration as m:ss, or h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
