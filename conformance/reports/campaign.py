"""A campaign: random tests that go on for a time, and the counters of what they try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.reports.coverage import Coverage
from conformance.reports.domains import nothing_yet


def slice_of(minutes: float, workers: int, tests: int) -> float:
    """The seconds that each of the random tests has, so that all of them together last for `minutes`."""
    return 60 * minutes * max(1, workers) / max(1, tests)


@dataclass
class Meter:
    """What one worker has drawn, on which its target conformed: counters alone."""

    cases: int = 0
    rounds: int = 0
    seconds: float = 0.0
    coverage: Coverage = field(default_factory=nothing_yet)

    def case(self, case: Any) -> None:
        """Count a case."""
        self.cases += 1
        self.coverage.see(case)

    def round(self, seconds: float) -> None:
        """Count a round, and the time that it took."""
        self.rounds += 1
        self.seconds += seconds

    def told(self, worker: str, peak_rss_mib: int) -> dict[str, Any]:
        """As a worker sends it: JSON types."""
        return {
            "worker": worker,
            "peak_rss_mib": peak_rss_mib,
            "cases": self.cases,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "coverage": self.coverage.told(),
        }


def campaign_as_json(minutes: float | None, told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The campaign for gate.json, from what each worker has told; `minutes` is None if only the profile asked for it.

    `seconds` are those of all workers together, `cases_per_second` is what they came to side by side.
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
