"""Read waivers.toml: outcomes that a team accepts as not judged for now, why, and until when."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from conformance.reports.verdicts import Outcome
from conformance.spec import clauses
from conformance.verdict import NOT_JUDGED, UNSUPPORTED

FILE = "waivers.toml"
RECEIPT = "receipt"
"""The `clause` of a waiver for a receipt that is missing or whose counts do not agree."""

COVERABLE = (UNSUPPORTED, NOT_JUDGED)
"""The verdicts that may be waived. "differs" and "crashed" may not."""

FIELDS: dict[str, type] = {"clause": str, "target": str, "reason": str, "link": str, "expires": date, "test": str}
OPTIONAL = ("test",)


class BadWaivers(ValueError):
    """Report a file of waivers that cannot be used: the file, the entry, what was found and what is allowed."""


@dataclass(frozen=True)
class Waiver:
    """Hold one entry. `clause` is a clause or chapter of SPEC.md or "receipt"; `target` and `test` are patterns."""

    number: int
    clause: str
    target: str
    reason: str
    link: str
    expires: date
    test: str = "*"

    def covers(self, outcome: Outcome) -> bool:
        """Return whether the waiver accepts an outcome: unsupported or not judged, on its target, clause and test."""
        return outcome.verdict in COVERABLE and self.names(outcome)

    def names(self, outcome: Outcome) -> bool:
        """Return whether an outcome has the waiver's target, clause and test, whatever the verdict."""
        return (
            self.concerns(outcome.target)
            and any(self.clause in (clause, clause.partition("-")[0]) for clause in outcome.clauses)
            and fnmatchcase(outcome.test, self.test)
        )

    def concerns(self, target: str) -> bool:
        """Return whether the waiver applies to a target, by its name in --target."""
        return fnmatchcase(target, self.target)

    def expired(self, today: date) -> bool:
        """Return whether the waiver's last day is over."""
        return today > self.expires

    def __str__(self) -> str:
        """Return the name of the waiver in reports."""
        test = "" if self.test == "*" else f", test {self.test}"
        return f"waiver {self.number} ({self.clause}, target {self.target}{test})"


def read_waivers(path: Path) -> tuple[Waiver, ...]:
    """Return the waivers of a file. Raises BadWaivers if it cannot be read or is not as docs/ci.md says."""
    try:
        held = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadWaivers(f"{path}: {error}") from error
    entries = held.pop("waiver", [])
    if held or not isinstance(entries, list):
        raise BadWaivers(f"{path}: found {', '.join(held) or 'waiver'}; allowed are [[waiver]] tables alone")
    return tuple(_waiver(path, number, entry) for number, entry in enumerate(entries, 1))


def _waiver(path: Path, number: int, entry: Any) -> Waiver:
    def bad(what: str) -> BadWaivers:
        return BadWaivers(f"{path}: waiver {number}: {what}")

    if not isinstance(entry, dict):
        raise bad(f"found {entry!r}; allowed is a table")
    if unknown := [name for name in entry if name not in FIELDS]:
        raise bad(f"found {', '.join(unknown)}; allowed are {', '.join(FIELDS)}")
    if missing := [name for name in FIELDS if name not in entry and name not in OPTIONAL]:
        raise bad(f"{', '.join(missing)} is missing; wanted are {', '.join(FIELDS)}, test only if need be")
    for name, kind in FIELDS.items():
        if name in entry and (type(entry[name]) is not kind or entry[name] == ""):
            wanted = "a date, such as 2027-01-31, without quotes" if kind is date else "a text that is not empty"
            raise bad(f"{name} is {entry[name]!r}; allowed is {wanted}")
    named = entry["clause"]
    if named not in {RECEIPT, *clauses(), *(clause.partition("-")[0] for clause in clauses())}:
        raise bad(f"clause is {named!r}; allowed are a clause of SPEC.md, one of its chapters, and {RECEIPT!r}")
    return Waiver(number, **entry)
