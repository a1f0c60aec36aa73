"""What `python -m conformance faults` and `spec` do."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from conformance.faults.defects import DEFECTS, find_defect
from conformance.faults.matrix import Row, all_mutants, judge_models, judge_mutants
from conformance.faults.matrix_report import write
from conformance.faults.power import powers
from conformance.marked import tests_by_clause
from conformance.spec import clauses, in_short


def judge_all(profile: str, console: Console) -> int:
    """Judge everything and write the matrix; 1 if something survives."""
    rows = judge_models(DEFECTS.values(), profile, console.print)
    rows += judge_mutants(all_mutants(), profile, console.print)
    console.print("detection power")
    write(rows, powers(), profile)
    console.print("written: docs/faults.md, docs/faults.json")
    return _said(rows, console)


def judge_some(names: Sequence[str], profile: str, console: Console) -> int:
    """Judge some faults, and write nothing."""
    return _said(judge_models([find_defect(name) for name in names], profile, lambda _: None), console)


def _said(rows: Sequence[Row], console: Console) -> int:
    for row in rows:
        if row.tests == 0:
            console.print(f"{row.name} ({row.clause or row.kind}): not judged here", markup=False)
            continue
        most = max(row.red.values(), default=0)
        red = in_short(clause for clause in clauses() if clause in row.red) or "nothing"
        console.print(
            f"{row.name} ({row.clause or row.kind}): {most} of {row.tests} tests red, under {red}", markup=False
        )
    survivors = [row.name for row in rows if row.survived]
    judged = sum(row.tests > 0 for row in rows)
    names = f": {', '.join(survivors)}" if survivors else ""
    console.print(f"{judged} of {len(rows)} judged, {len(survivors)} survived{names}")
    return 1 if survivors else 0


def show_clauses(console: Console) -> int:
    """Print clause, tests and faults; 1 if one is missing or a test names what SPEC.md does not have."""
    tests = tests_by_clause()
    faults = {clause: [each.name for each in DEFECTS.values() if each.clause == clause] for clause in clauses()}
    for clause in clauses():
        console.print(clause, markup=False)
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
