"""Read from the table at the top of SPEC.md which targets each clause binds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from conformance.spec import clauses, clauses_in, in_short, spec_text
from conformance.targets.base import CAPABILITIES, Target

HEADING = "## Whom a clause binds"
TABLE = f"SPEC.md's table {HEADING[3:]!r}"
COLUMNS = ("chapter", "clauses", "operator", "capability", "binds")
RUN = re.compile(r"(\d+)(?: to (\d+)| (on))?")

OTHERS = "targets that the test's other clauses bind"
CLAIMING = "targets that claim one"


class BindingError(ValueError):
    """The table of SPEC.md and its clauses do not go together."""


@dataclass(frozen=True)
class Binding:
    """A row of the table: the clauses of a chapter that bind the same targets.

    `whom` is one of WHOM. From number `open_from` on, the row takes what other rows of its chapter do not name.
    """

    chapter: str
    clauses: tuple[str, ...]
    capabilities: tuple[str, ...]
    whom: str
    open_from: int | None

    def binds(self, target: Target) -> bool:
        """Return whether the clauses bind a target. One that raises when asked is bound, to crash in a test by name."""
        try:
            return WHOM[self.whom](self, target)
        except Exception:
            return True


WHOM: dict[str, Callable[[Binding, Target], bool]] = {
    "every target": lambda binding, target: True,
    CLAIMING: lambda binding, target: any(each in target.capabilities for each in binding.capabilities),
    "GPU code": lambda binding, target: target.is_gpu_code,
    "targets with registered schemas": lambda binding, target: bool(target.schemas),
    OTHERS: lambda binding, target: True,
}
"""What the last column of the table may say, and whether a row with these words binds a target."""

LACKING = {"GPU code": "no GPU code", "targets with registered schemas": "no schema"}


@cache
def bindings() -> tuple[Binding, ...]:
    """Return the rows of SPEC.md's table. Raises: BindingError if table and clauses do not go together."""
    return read_bindings(spec_text())


def binds(clause: str, target: Target) -> bool:
    """Return whether a clause binds a target."""
    return _binding_by_clause()[clause].binds(target)


def whom(clause: str) -> str:
    """Return whom a clause binds, in words: "targets that claim one of write.nvfp4, write.fp8"."""
    row = _binding_by_clause()[clause]
    return f"{row.whom} of {', '.join(row.capabilities)}" if row.whom == CLAIMING else row.whom


def binds_any(named: Sequence[str], target: Target) -> bool:
    """Return whether a test that names some clauses is asked of a target.

    Clauses that bind the targets of others, such as those on numbers, count only in a test that names no others.
    """
    deciding = [clause for clause in named if _binding_by_clause()[clause].whom != OTHERS]
    return any(binds(clause, target) for clause in deciding or named)


def clauses_binding(target: Target) -> list[str]:
    """Return the clauses that bind a target by themselves, in the order of SPEC.md."""
    bound = {clause for row in bindings() if row.whom != OTHERS and row.binds(target) for clause in row.clauses}
    return [clause for clause in clauses() if clause in bound]


def runs_not_binding(target: Target) -> list[str]:
    """Return what does not bind a target, chapter by chapter, and what the target lacks: "SERVE (no serve.*)"."""
    chapters: dict[str, list[Binding]] = {}
    for binding in bindings():
        chapters.setdefault(binding.chapter, []).append(binding)
    runs = []
    for chapter, rows in chapters.items():
        free = [binding for binding in rows if not binding.binds(target)]
        if len(free) == len(rows):
            runs.append(f"{chapter} ({_lacking(free)})")
        else:
            runs += [f"{in_short(binding.clauses)} ({_lacking([binding])})" for binding in free]
    return runs


def read_bindings(text: str) -> tuple[Binding, ...]:
    """Return the rows of the table in a text such as SPEC.md, each with all of its clauses.

    Raises: BindingError if a row cannot be read, if two rows have one clause, or if a clause of the text has no row.
    """
    clauses = clauses_in(text)
    read = [_read_row(cells, clauses) for cells in _cells(text)]
    named = {clause for row in read for clause in row.clauses}
    rows = tuple(_with_later_clauses(row, [clause for clause in clauses if clause not in named]) for row in read)
    times = Counter(clause for row in rows for clause in row.clauses)
    if twice := [clause for clause in clauses if times[clause] > 1]:
        raise BindingError(f"{TABLE} has {', '.join(twice)} in two rows")
    if missing := [clause for clause in clauses if not times[clause]]:
        raise BindingError(f"{TABLE} has {', '.join(missing)} in no row")
    return rows


@cache
def _binding_by_clause() -> dict[str, Binding]:
    return {clause: binding for binding in bindings() for clause in binding.clauses}


def _cells(text: str) -> list[list[str]]:
    """Return the cells of each row below the head of the table."""
    section = text.partition(f"\n{HEADING}\n")[2].partition("\n## ")[0]
    lines = [line.strip() for line in section.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")] for line in lines]
    if not rows or tuple(rows[0]) != COLUMNS:
        raise BindingError(f"SPEC.md lacks the table of its section {HEADING[3:]!r} with columns {', '.join(COLUMNS)}")
    return rows[2:]


def _read_row(cells: list[str], clauses: Sequence[str]) -> Binding:
    row = f"{TABLE}, row | {' | '.join(cells)} |"
    if len(cells) != len(COLUMNS):
        raise BindingError(f"{row} has {len(cells)} cells, not {len(COLUMNS)}")
    chapter, numbers, _, capability, whom = cells
    capabilities = tuple(capability.split(", ")) if capability else ()
    runs = [RUN.fullmatch(run) for run in numbers.split(", ")]
    spans = [range(int(run[1]), int(run[2] or run[1]) + 1) for run in runs if run]
    if not all(runs) or not all(spans):
        raise BindingError(f"{row} has the clauses {numbers!r}; allowed are numbers such as 3, 5 to 7, 9 on")
    named = tuple(f"{chapter}-{number}" for span in spans for number in span)
    if unknown := [clause for clause in named if clause not in clauses]:
        raise BindingError(f"{row} names {', '.join(unknown)}, which SPEC.md does not have")
    if unknown := [each for each in capabilities if each not in CAPABILITIES]:
        raise BindingError(
            f"{row} has the capability {', '.join(unknown)}; allowed are {', '.join(sorted(CAPABILITIES))}"
        )
    if whom not in WHOM:
        raise BindingError(f"{row} binds {whom!r}; allowed are {', '.join(WHOM)}")
    if whom == CLAIMING and not capabilities:
        raise BindingError(f"{row} binds {whom}, and names no capability")
    opened = [span.start for span, run in zip(spans, runs, strict=True) if run and run[3]]
    return Binding(chapter, named, capabilities, whom, opened[0] if opened else None)


def _with_later_clauses(row: Binding, unnamed: Sequence[str]) -> Binding:
    """Return the row with those clauses of its chapter that no row names, from the number on that is open, if any."""
    parts = [(clause, *clause.split("-")) for clause in unnamed]
    later = [
        clause
        for clause, chapter, number in parts
        if row.open_from is not None and chapter == row.chapter and int(number) > row.open_from
    ]
    return replace(row, clauses=(*row.clauses, *later))


def _lacking(rows: Sequence[Binding]) -> str:
    """Return what keeps rows from binding a target: "no GPU code", or capabilities, a whole family as "no write.*"."""
    words = dict.fromkeys(LACKING[row.whom] for row in rows if row.whom in LACKING)
    lacked = {capability for row in rows if row.whom == CLAIMING for capability in row.capabilities}
    for stem in sorted({capability.partition(".")[0] for capability in lacked}):
        family = {capability for capability in CAPABILITIES if capability.partition(".")[0] == stem}
        if family <= lacked:
            words[f"no {stem}" if stem in family else f"no {stem}.*"] = None
        else:
            words |= dict.fromkeys(f"no {capability}" for capability in sorted(family & lacked))
    return ", ".join(words)
