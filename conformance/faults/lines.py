"""Read and write docs/faults.md: one line for each fault, with the test that detects it soonest.

A line records the counts of one day and does not become stale. `make test` judges each fault by the test in its line.
`make faults` counts everything again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from conformance.faults.all_mutants import MUTANTS
from conformance.faults.defect import PARTS
from conformance.faults.defects import DEFECTS
from conformance.faults.equivalents import EQUIVALENTS
from conformance.faults.matrix import Row
from conformance.spec import SPEC

PATH = SPEC.parent / "docs" / "faults.md"
GATE = "conformance/gate/"

HEAD = """\
# What this suite sees

{models} faults as models (targets `fault:NAME`) and {mutants} changes of the CUDA sources. A line says how many of the
gate's tests of its kind were red, the test that sees the fault soonest, and the day of that count. `make test` judges
each model by its test, and is red if that no longer sees it. `make faults` counts all of them again and writes this
page; its reports/faults.md also says under which clauses the red tests were. `python -m conformance faults NAME
--write` judges one fault and writes its line.
"""
COLUMNS = "| fault | breaks | what it does | red | soonest | counted |", "|---|---|---|--:|---|---|"
LINE = re.compile(
    r"\| (?P<name>[^|]+) \| (?P<clause>[^|]*) \| .* \| (?P<failed>\d+) of (?P<tests>\d+) \| "
    r"`(?P<first>[^`]*)` \| (?P<counted>\d{4}-\d\d-\d\d) \|"
)

Key = tuple[str, str]
"""The kind of a fault, "model" or "mutant", and its name."""


@dataclass(frozen=True)
class Line:
    """Hold one line of docs/faults.md. `first` is the soonest test; "{target}" in it stands for the target."""

    first: str
    failed: int
    tests: int
    counted: str

    def test_of(self, target: str) -> str:
        """Return the node id of the test that detects this fault soonest, for a target of that name."""
        return GATE + self.first.replace("{target}", target)


def read_lines(path: Path = PATH) -> dict[Key, Line]:
    """Return the lines of the file by fault, or {} if there is no file. A malformed line is left out."""
    lines: dict[Key, Line] = {}
    what = "model"
    for text in path.read_text().splitlines() if path.is_file() else []:
        if text.startswith("## "):
            what = "mutant" if text == MUTANT_HEADING else "model"
        elif found := LINE.fullmatch(text):
            line = Line(found["first"], int(found["failed"]), int(found["tests"]), found["counted"])
            lines[what, found["name"]] = line
    return lines


def write_lines(rows: Iterable[Row], path: Path = PATH) -> None:
    """Write the file again: the lines of these rows, and the old lines of other faults that still exist."""
    lines = read_lines(path)
    for row in rows:
        if row.first:  # a fault that was not judged here, or not detected, keeps its old line
            lines[row.what, row.name] = Line(row.first.removeprefix(GATE), row.failed, row.tests, row.counted)
    path.parent.mkdir(exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text("\n".join(_page(lines)) + "\n")
    new.replace(path)


MUTANT_HEADING = "## Changes of the CUDA sources"


def _page(lines: Mapping[Key, Line]) -> Iterator[str]:
    yield HEAD.format(models=len(DEFECTS), mutants=len(MUTANTS))
    for kind in PARTS:
        yield from (f"## {kind}", "", *COLUMNS)
        for name, defect in DEFECTS.items():
            if defect.kind == kind and ("model", name) in lines:
                source = f" ({defect.source})" if defect.source else ""
                yield _text(name, defect.clause, f"{defect.sentence}{source}", lines["model", name])
        yield ""
    yield from (MUTANT_HEADING, "", *COLUMNS)
    for mutant, _ in MUTANTS:
        if ("mutant", mutant.name) in lines:
            yield _text(mutant.name, "", mutant.sentence, lines["mutant", mutant.name])
    yield from ("", "## Changes that change nothing", "")
    yield "Each is in no catalogue, since no legal call shows it; a test checks the argument."
    yield ""
    yield from (f"- {each.name}: {each.argument}" for each in EQUIVALENTS)


def _text(name: str, clause: str, sentence: str, line: Line) -> str:
    escaped = sentence.replace("|", "\\|")
    return f"| {name} | {clause} | {escaped} | {line.failed} of {line.tests} | `{line.first}` | {line.counted} |"
