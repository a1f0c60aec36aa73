"""From the outcomes of tests to the verdict of a gate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from conformance.verdict import CONFORMS, CRASHED, DIFFERS, NOT_JUDGED, UNSUPPORTED

# The worst comes first: of several outcomes for one clause it is the one that counts.
BY_SEVERITY = (CRASHED, DIFFERS, UNSUPPORTED, NOT_JUDGED, CONFORMS)

EXIT_NOT_JUDGED = 6


def worst(verdicts: Iterable[str]) -> str:
    """The most severe of some verdicts; without any, nothing was judged."""
    return min(verdicts, key=BY_SEVERITY.index, default=NOT_JUDGED)


@dataclass(frozen=True)
class Outcome:
    """What one test said of one target.

    `calls` are those of the target's operators that had something to write and returned, by operator; `launches` is
    what the target says it launched for them, None if it does not count. `worker` is the process that judged.
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
    """The file that repeats it, if one was written."""
    worker: str = ""
    calls: int = 0
    launches: int | None = None
    left_out: tuple[str, ...] = ()
    """What its random cases were drawn without, since the target lacks it, each with the clause that is about it."""
