"""What `python -m conformance faults` and `spec` do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from conformance.bindings import whom
from conformance.faults.all_mutants import MUTANTS
from conformance.faults.defects import DEFECTS, find_defect
from conformance.faults.lines import write_lines
from conformance.faults.matrix import Row, judged
from conformance.faults.matrix_report import stored, write
from conformance.faults.power import Power, powers
from conformance.marked import tests_by_clause
from conformance.spec import clauses, in_short


def judge_all(profile: str, console: Console, others: Sequence[Path] = (), kinds: Sequence[str] = ()) -> int:
    """Judge every fault, or those of some kinds; write reports/ and the lines of docs/; return 1 if something survives.

    Rows of `others`, faults.json of a run that was stopped or of another machine, are taken over. The files in reports/
    are written after each group, so that a run that is stopped is not lost. Raises NoMatrix for a file that is none.
    """
    tables = [stored(other) for other in others]
    rows = {(row.what, row.name): row for table in tables for row in table["rows"] if row.tests}
    power: list[Power] = next((table["power"] for table in tables if table["power"]), [])
    defects = [
        each for each in DEFECTS.values() if ("model", each.name) not in rows and (not kinds or each.kind in kinds)
    ]
    mutants = [
        kept
        for kept in MUTANTS
        if ("mutant", kept.mutant.name) not in rows and (not kinds or kept.kind in kinds or "mutant" in kinds)
    ]
    console.print(f"{len(rows)} rows are taken over; to judge: {len(defects) + len(mutants)}")
    for group in judged(defects, mutants, profile):
        rows |= {(row.what, row.name): row for row in group}
        write([*rows.values()], power, profile)
        console.print(f"{group[0].kind}: {', '.join(row.name for row in group)}", markup=False)
    if not power and not kinds:
        console.print("detection power")
        power = powers()
    write([*rows.values()], power, profile)
    write_lines(rows.values())
    console.print("written: reports/faults.md, reports/faults.json, docs/faults.md")
    return _said([*rows.values()], console)


def judge_some(names: Sequence[str], profile: str, console: Console, keep: bool = False) -> int:
    """Judge some faults and tell of each; write their lines of docs/faults.md if they are to be kept."""
    rows = [row for group in judged([find_defect(name) for name in names], [], profile) for row in group]
    for row in rows:
        if row.tests == 0:
            console.print(f"{row.name} ({row.clause}): not judged here", markup=False)
            continue
        red = in_short(clause for clause in clauses() if clause in row.red) or "nothing"
        console.print(f"{row.name} ({row.clause}): {row.failed} of {row.tests} tests red, under {red}", markup=False)
        if row.first:
            console.print(f"  soonest {row.first.replace('{target}', f'fault:{row.name}')}", markup=False)
    if keep:
        write_lines(row for row in rows if not row.survived)
        console.print("written: docs/faults.md")
    return _said(rows, console)


def _said(rows: Sequence[Row], console: Console) -> int:
    survivors = [row.name for row in rows if row.survived]
    at_all = sum(row.tests > 0 for row in rows)
    names = f": {', '.join(survivors)}" if survivors else ""
    console.print(f"{at_all} of {len(rows)} judged, {len(survivors)} survived{names}")
    return 1 if survivors else 0


def show_clauses(console: Console) -> int:
    """Print each clause, whom it binds, its tests and faults.

    Return 1 if a clause lacks a test or a fault, or a test names a clause that SPEC.md does not have.
    """
    tests = tests_by_clause()
    faults = {clause: [each.name for each in DEFECTS.values() if each.clause == clause] for clause in clauses()}
    for clause in clauses():
        console.print(clause, markup=False)
        console.print(f"  binds   {whom(clause)}", markup=False)
        console.print(f"  tests   {', '.join(tests.get(clause, [])) or 'none'}", markup=False)
        console.print(f"  faults  {', '.join(faults[clause]) or 'none'}", markup=False)
    wrong = {
        "without a test": [clause for clause in clauses() if clause not in tests],
        "without a fault": [clause for clause in clauses() if not faults[clause]],
        "that SPEC.md does not have": [clause for clause in tests if clause not in clauses()],
    }
    for what, some in wrong.items():
        if some:
            console.print(f"clauses {what}: {in_short(some)}", markup=False)
    return 1 if any(wrong.values()) else 0
