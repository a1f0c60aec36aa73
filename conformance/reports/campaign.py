"""Run campaigns: random tests that go on for a time, and counters of the cases that they try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.reports.coverage import Coverage
from conformance.reports.domains import nothing_yet


def slice_of(minutes: float, workers: int, tests: int) -> float:
    """Return the seconds for each random test, so that all of them together take `minutes` on `workers` workers."""
    return 60 * minutes * max(1, workers) / max(1, tests)


@dataclass
class Meter:
    """Count the cases that one worker has drawn and found to conform."""

    cases: int = 0
    rounds: int = 0
    seconds: float = 0.0
    coverage: Coverage = field(default_factory=nothing_yet)

    def case(self, case: Any) -> None:
        """Count a case."""
        self.cases += 1
        self.coverage.see(case)

    def round(self, seconds: float) -> None:
        """Count a round, and its time in seconds."""
        self.rounds += 1
        self.seconds += seconds

    def told(self, worker: str, peak_rss_mib: int) -> dict[str, Any]:
        """Return the counters as JSON types, for a worker to send."""
        return {
            "worker": worker,
            "peak_rss_mib": peak_rss_mib,
            "cases": self.cases,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "coverage": self.coverage.told(),
        }


def campaign_as_json(minutes: float | None, told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the campaign for gate.json, from the counters of all workers. `minutes` is None if only the profile asked.

    `seconds` is the sum over workers. `cases_per_second` is the rate of all workers together.

    Returns:
        JSON types.

    """
    coverage = nothing_yet()
    for worker in told:
        coverage.add(worker["coverage"])
    return {
        "minutes": minutes,
        "seconds": round(sum(worker["seconds"] for worker in told), 1),
        "rounds": sum(worker["rounds"] for worker in told),
        "cases": sum(worker["cases"] for worker in told),
        "cases_per_second": round(sum(worker["cases"] / worker["seconds"] for worker in told if worker["seconds"]), 1),
        "coverage": coverage.as_json(),
        "never": coverage.never(),
        "peak_rss_mib": {worker["worker"]: worker["peak_rss_mib"] for worker in told},
    }
