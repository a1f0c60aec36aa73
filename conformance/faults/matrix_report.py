"""Write the kill matrix of one run into reports/: faults.json for programs, faults.md for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from conformance.faults.all_mutants import MUTANTS
from conformance.faults.defect import PARTS
from conformance.faults.defects import DEFECTS
from conformance.faults.matrix import Row
from conformance.faults.power import MOST, SEEDS, Power
from conformance.spec import SPEC, clauses, in_short

FOLDER = SPEC.parent / "reports"
SCHEMA = 2

ORDER = {
    **{("model", name): number for number, name in enumerate(DEFECTS)},
    **{("mutant", kept.mutant.name): number for number, kept in enumerate(MUTANTS, len(DEFECTS))},
}
"""Position of a row in the reports, by "model" or "mutant" and name."""


HEAD = """\
# What this suite sees

Written by `python -m conformance faults`, profile {profile}; counted {days}.

{models} faults as models and {mutants} changes of the CUDA sources, judged by the gate's own tests: {survivors}.
{broken} are broken by a model.

A row says how many tests were red, of how many that judge its kind; how many of the red ones named it, since its model
explains all that was observed; and under which clauses they were. Tests of other kinds see most faults too, and are not
counted."""
POWER_HEAD = """
## Cases until a fault of a gather is seen

Medians over {seeds} seeds. Usual data are N(0, 1) latents, written by the golden writer, gathered from aligned starts
out of contiguous arrays, one table row after the other; the suite's are those of its random tests, the first two of
which are as small as can be.

Of {faults} faults {usual} are not seen in {most} cases of usual data, and {suite} not in {most} of the suite's random
ones: its named cases and enumerations see those.
"""
MODELS_HEAD = "| fault | breaks | what it does | red | named | under |", "|---|---|---|--:|--:|---|"
MUTANTS_HEAD = "| change | kind | red | named | under |", "|---|---|--:|--:|---|"


class NoMatrix(ValueError):
    """Report a file that is no faults.json of this version. The text names its schema or the error."""


def stored(path: Path) -> dict[str, Any]:
    """Return a faults.json, with `rows` and `power` as objects. Raises NoMatrix for any other or unreadable file."""
    try:
        found = json.loads(path.read_text())
        if found["schema"] != SCHEMA:
            raise NoMatrix(f"{path}: schema {found['schema']}; allowed is {SCHEMA}")
        rows = [Row(**row) for row in found["rows"] if (row["what"], row["name"]) in ORDER]
        return {**found, "rows": rows, "power": [Power(**power) for power in found["power"]]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, NoMatrix):
            raise
        raise NoMatrix(f"{path}: not a faults.json of `python -m conformance faults`: {error}") from error


def write(rows: Sequence[Row], powers: Sequence[Power], profile: str, folder: Path = FOLDER) -> None:
    """Write faults.json and faults.md into a folder."""
    rows = sorted((row for row in rows if (row.what, row.name) in ORDER), key=lambda row: ORDER[row.what, row.name])
    result = {
        "schema": SCHEMA,
        "profile": profile,
        "rows": [asdict(row) for row in rows],
        "power": [asdict(power) for power in powers],
    }
    folder.mkdir(parents=True, exist_ok=True)
    _replace(folder / "faults.json", json.dumps(result, indent=0))
    _replace(folder / "faults.md", "\n".join(_lines(rows, powers, profile)))


def _replace(path: Path, text: str) -> None:
    """Write a file and move it to `path`, so that readers never see a part of it."""
    new = path.with_suffix(".new")
    new.write_text(text + "\n")
    new.replace(path)


def _lines(rows: Sequence[Row], powers: Sequence[Power], profile: str) -> Iterable[str]:
    models = [row for row in rows if row.what == "model"]
    mutants = [row for row in rows if row.what == "mutant"]
    survivors = [row for row in rows if row.survived]
    broken = {row.clause for row in models}
    unbroken = [clause for clause in clauses() if clause not in broken]
    days = sorted({row.counted for row in rows})
    yield HEAD.format(
        profile=profile,
        days=" to ".join(dict.fromkeys((days[0], days[-1]))) if days else "never",
        models=len(models),
        mutants=len(mutants),
        survivors=f"{len(survivors)} survived{': ' + ', '.join(row.name for row in survivors) if survivors else ''}",
        broken=f"{len(broken)} of {len(clauses())} clauses{f' (not {in_short(unbroken)})' if unbroken else ''}",
    )
    for kind in PARTS:
        yield from _table(kind, [row for row in models if row.kind == kind])
    yield from ("", "## Changes of the CUDA sources", "", *MUTANTS_HEAD)
    for row in mutants:
        yield f"| {row.name} | {row.kind} | {_share(row)} | {row.named or ''} | {in_short(_ordered(row.red))} |"
    yield from _powers(powers)


def _table(kind: str, rows: Sequence[Row]) -> Iterable[str]:
    if not rows:
        return
    yield from ("", f"## {kind}", "", *MODELS_HEAD)
    for row in rows:
        source = f" ({row.source})" if row.source else ""
        red = in_short(_ordered(row.red))
        yield f"| {row.name} | {row.clause} | {row.sentence}{source} | {_share(row)} | {row.named or ''} | {red} |"


def _powers(powers: Sequence[Power]) -> Iterable[str]:
    if not powers:
        return
    usual, suite = (sum(getattr(power, what) is None for power in powers) for what in ("usual", "suite"))
    yield POWER_HEAD.format(seeds=len(SEEDS), most=MOST, faults=len(powers), usual=usual, suite=suite)
    yield from ("| fault | usual data | this suite |", "|---|--:|--:|")
    for power in powers:
        yield f"| {power.name} | {power.usual or f'not in {MOST}'} | {power.suite or f'not in {MOST}'} |"


def _ordered(red: dict[str, int]) -> list[str]:
    return [clause for clause in clauses() if clause in red]


def _share(row: Row) -> str:
    if row.tests == 0:
        return "not judged: no GPU" if row.kind == "device" else "not judged"
    return f"{row.failed} of {row.tests}" if row.red else f"**none** of {row.tests}"
