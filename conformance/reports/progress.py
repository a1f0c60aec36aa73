"""Format the progress of a run: how far it is, how fast, and the verdicts so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from conformance.reports.verdicts import BY_SEVERITY
from conformance.verdict import CONFORMS, DIFFERS

ENOUGH_SECONDS = 2.0
"""The time, in seconds, before a pace is shown."""


@dataclass(frozen=True)
class Progress:
    """Hold the state of a run: `tests` of `total` (None if unknown) are done after `seconds`.

    `found` counts the tests by verdict. It may leave out those that conform.
    """

    total: int | None = None
    tests: int = 0
    cases: int = 0
    seconds: float = 0.0
    found: Mapping[str, int] = field(default_factory=dict)

    def line(self, over: bool = False) -> str:
        """Return the state in one line, most important parts first. With `over` the time is the total."""
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
    """Return a duration in seconds as m:ss, or h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
