"""Check whether reports are those of all shards of one run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from conformance.reports.reading import Json
from conformance.reports.selection import Shard
from conformance.reports.waivers import Waiver


@dataclass(frozen=True)
class Part:
    """Hold a report that reading.read returned, and its file. A whole run counts as shard 1 of 1."""

    path: Path
    report: Json

    @property
    def shard(self) -> Shard:
        """The part of the gate that the report covers."""
        return Shard(**self.report["shard"] or {"index": 1, "of": 1})

    @property
    def begun(self) -> bool:
        """Whether the run collected its tests. Before that it does not know its shard either."""
        return bool(self.report["suite"]["fingerprint"])

    @property
    def name(self) -> str:
        """The name of the part in reasons."""
        return f"shard {self.shard}" if self.report["shard"] else "a whole run" if self.begun else "a run without tests"

    def __str__(self) -> str:
        """Return the name with the file."""
        return f"{self.name} ({self.path})"


def waiver_of(told: Json) -> Waiver:
    """Return the waiver that a report describes."""
    named = {name: told[name] for name in ("number", "clause", "target", "reason", "link", "test")}
    return Waiver(**named, expires=date.fromisoformat(told["expires"]))


AGREED: dict[str, Callable[[Json], Any]] = {
    "seed": lambda report: report["seed"],
    "profile": lambda report: report["profile"],
    "targets": lambda report: sorted(report["asked_targets"]),
    "required": lambda report: sorted(report["required"]),
    "number of shards": lambda report: report["shard"]["of"] if report["shard"] else 1,
    "version of the suite": lambda report: report["suite"]["version"],
    "number of tests": lambda report: report["suite"]["tests"],
    "fingerprint of the tests": lambda report: report["suite"]["fingerprint"],
    "waivers": lambda report: [f"{waiver_of(told)} until {told['expires']}" for told in report["waivers"]],
}
"""The values that must be the same in all shards of a run."""


def amiss(parts: Sequence[Part]) -> list[str]:
    """Return why the reports are not those of all shards of one run, a line each. An empty list if they are."""
    if not parts:
        return ["there is no report; wanted are those of all shards of a run"]
    begun = [part for part in parts if part.begun]
    twice = list(_given_twice(begun))
    differing = [line for what, told in AGREED.items() for line in _differing(what, told, begun)]
    missing = [] if differing else list(_missing(begun))
    unlike = [] if twice or differing or missing else _not_adding_up(begun)
    return [*twice, *differing, *missing, *unlike, *_not_over(parts)]


def _given_twice(parts: Sequence[Part]) -> Iterator[str]:
    given: dict[Shard, list[Part]] = {}
    for part in parts:
        given.setdefault(part.shard, []).append(part)
    for same in given.values():
        if len(same) > 1:
            found = f"{same[0].name} is given {len(same)} times ({', '.join(str(part.path) for part in same)})"
            yield f"{found}; allowed are one whole run, or each shard of a run once"


def _differing(what: str, told: Callable[[Json], Any], parts: Sequence[Part]) -> Iterator[str]:
    first: dict[str, Part] = {}
    for part in parts:
        first.setdefault(json.dumps(told(part.report)), part)
    if len(first) > 1:
        found = ", ".join(f"{value} in {part}" for value, part in first.items())
        yield f"{what}: found {found}; allowed is the same in all"


def _missing(parts: Sequence[Part], most: int = 10) -> Iterator[str]:
    of = parts[0].shard.of if parts else 0
    missing = sorted({*range(1, of + 1)} - {part.shard.index for part in parts})
    yield from (f"shard {Shard(index, of)} is missing" for index in missing[:most])
    if len(missing) > most:
        yield f"{len(missing) - most:,} more shards are missing"


def _not_adding_up(parts: Sequence[Part]) -> list[str]:
    suites = [part.report["suite"] for part in parts]
    asked, tests = sum(suite["asked"] for suite in suites), max((suite["tests"] for suite in suites), default=0)
    found = f"the reports are of {asked:,} tests, and the run is of {tests:,}"
    return [f"{found}; allowed is each of them, once"] if asked != tests else []


def _not_over(parts: Sequence[Part]) -> Iterator[str]:
    for part in parts:
        if not part.report["complete"]:
            yield f"{part} did not come to its end; allowed are runs that did"
