"""Define the verdicts, their order, and the outcome of one test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from conformance.verdict import CONFORMS, CRASHED, DIFFERS, NOT_JUDGED, UNSUPPORTED

# The worst comes first: of several outcomes for one clause it is the one that counts.
BY_SEVERITY = (CRASHED, DIFFERS, UNSUPPORTED, NOT_JUDGED, CONFORMS)

EXIT_NOT_JUDGED = 6


def worst(verdicts: Iterable[str]) -> str:
    """Return the most severe verdict, or "not judged" for an empty iterable."""
    return min(verdicts, key=BY_SEVERITY.index, default=NOT_JUDGED)


@dataclass(frozen=True)
class Outcome:
    """Hold the result of one test on one target.

    `calls` counts the calls of the target's operators that had something to write and returned. `launches` is the
    number of launches that the target counted for them, None if it does not count. `worker` is the process that judged.
    """

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
    """The file that repeats the failure, if one was written."""
    worker: str = ""
    calls: int = 0
    launches: int | None = None
    left_out: tuple[str, ...] = ()
    """The features that random cases lacked because the target lacks them, each with its clause."""
