"""From the outcomes of tests to the verdict of a gate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

CONFORMS, DIFFERS, UNSUPPORTED, NOT_JUDGED, CRASHED = "conforms", "differs", "unsupported", "not judged", "crashed"

# The worst comes first: of several outcomes for one clause it is the one that counts.
BY_SEVERITY = (CRASHED, DIFFERS, UNSUPPORTED, NOT_JUDGED, CONFORMS)

EXIT_NOT_JUDGED = 6


def worst(verdicts: Iterable[str]) -> str:
    """The most severe of some verdicts; without any, nothing was judged."""
    return min(verdicts, key=BY_SEVERITY.index, default=NOT_JUDGED)


@dataclass(frozen=True)
class Outcome:
    """What one test said of one target."""

    test: str
    target: str
    clauses: tuple[str, ...]
    verdict: str
    cases: int = 0
    rows: int = 0
    elements: int = 0
    message: str = ""
    explained_by: tuple[str, ...] = ()
    fixture: str = ""
    """The file that repeats it, if one was written."""


@dataclass
class Gate:
    """All outcomes of a run, and the receipts of the targets."""

    seed: int
    profile: str
    seconds: float = 0.0
    exit_status: int | None = None
    """pytest's own exit status; None as long as the run is not over."""
    outcomes: list[Outcome] = field(default_factory=list)
    receipts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """The worst outcome's; of a run that did not come to its end, at best "not judged"."""
        complete = self.exit_status in (0, 1)
        return worst([*(outcome.verdict for outcome in self.outcomes), *([] if complete else [NOT_JUDGED])])

    @property
    def targets(self) -> list[str]:
        """In the order in which they were first heard of."""
        return list(dict.fromkeys(outcome.target for outcome in self.outcomes))

    def of(self, target: str, clause: str | None = None) -> list[Outcome]:
        """A target's outcomes, or those among them that touch a clause."""
        return [o for o in self.outcomes if o.target == target and (clause is None or clause in o.clauses)]

    def common_faults(self, target: str) -> list[tuple[str, int, int]]:
        """The faults that explain most of a target's differences: a name, how many of them, and of how many."""
        differing = [outcome for outcome in self.of(target) if outcome.verdict == DIFFERS]
        counts = Counter(fault for outcome in differing for fault in outcome.explained_by)
        most = max(counts.values(), default=0)
        return [(fault, count, len(differing)) for fault, count in sorted(counts.items()) if count == most]

    def unjudged(self, target: str) -> list[tuple[str, str, list[str]]]:
        """The tests that did not come to judge a target, by verdict and reason."""
        grouped: dict[tuple[str, str], list[str]] = {}
        for outcome in self.of(target):
            if outcome.verdict in (UNSUPPORTED, NOT_JUDGED):
                grouped.setdefault((outcome.verdict, outcome.message), []).append(outcome.test)
        return [(verdict, reason, tests) for (verdict, reason), tests in grouped.items()]

    def exit_code(self, pytest_code: int) -> int:
        """pytest's code, unless it is 0 and something was not judged."""
        return EXIT_NOT_JUDGED if pytest_code == 0 and self.outcomes and self.verdict != CONFORMS else pytest_code
