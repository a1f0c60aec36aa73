"""reports/gate.json and gate.md, and the summary on a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conformance.spec import clauses
from conformance.reports.verdicts import CONFORMS, Gate, Outcome, worst

SCHEMA = 1


def as_json(gate: Gate) -> dict[str, Any]:
    """The report as JSON types; the schema has the number 1."""
    return {
        "schema": SCHEMA,
        "verdict": gate.verdict,
        "seed": gate.seed,
        "profile": gate.profile,
        "seconds": round(gate.seconds, 1),
        "exit_status": gate.exit_status,
        "targets": [_target(gate, name) for name in gate.targets],
    }


def _target(gate: Gate, name: str) -> dict[str, Any]:
    outcomes = gate.of(name)
    return {
        "name": name,
        "verdict": worst(outcome.verdict for outcome in outcomes),
        "receipt": merged(gate.receipts.get(name, [])),
        "tests": len(outcomes),
        "clauses": [_clause(clause, gate.of(name, clause)) for clause in clauses_of(outcomes)],
        "failures": [
            {
                "clause": " ".join(o.clauses),
                "test": o.test,
                "verdict": o.verdict,
                "fixture": o.fixture,
                "message": o.message,
                "explained_by": list(o.explained_by),
            }
            for o in outcomes
            if o.verdict != CONFORMS
        ],
    }


def _clause(clause: str, outcomes: list[Outcome]) -> dict[str, Any]:
    return {
        "id": clause,
        "verdict": worst(outcome.verdict for outcome in outcomes),
        "cases": sum(outcome.cases for outcome in outcomes),
        "rows": sum(outcome.rows for outcome in outcomes),
        "elements": sum(outcome.elements for outcome in outcomes),
    }


def clauses_of(outcomes: list[Outcome]) -> list[str]:
    """The clauses that some outcomes touch, in SPEC.md's order."""
    found = {clause for outcome in outcomes for clause in outcome.clauses}
    return [clause for clause in clauses() if clause in found]


def merged(receipts: list[dict[str, Any]]) -> dict[str, Any]:
    """The receipts of several workers as one: launches added up, and what differs between workers kept as a list."""
    keys = dict.fromkeys(key for receipt in receipts for key in receipt)
    return {key: _merged_values(key, [receipt[key] for receipt in receipts if key in receipt]) for key in keys}


def _merged_values(key: str, values: list[Any]) -> Any:
    if all(isinstance(value, dict) for value in values):
        return merged(values)
    if key == "launches":
        return sum(values)
    distinct = [value for i, value in enumerate(values) if value not in values[:i]]
    return distinct[0] if len(distinct) == 1 else distinct


def as_markdown(gate: Gate) -> str:
    """The report for a CI job's summary page."""
    lines = [f"# Gate: {gate.verdict}", "", f"Profile {gate.profile}, seed {gate.seed}, {gate.seconds:.0f} s.", ""]
    for name in gate.targets:
        outcomes = gate.of(name)
        lines += [
            f"## {name}: {summary_line(gate, name)}",
            "",
            "| clause | verdict | cases | rows | elements |",
            "|---|---|--:|--:|--:|",
        ]
        for clause in clauses_of(outcomes):
            row = _clause(clause, gate.of(name, clause))
            lines.append(f"| {clause} | {row['verdict']} | {row['cases']:,} | {row['rows']:,} | {row['elements']:,} |")
        for outcome in outcomes:
            if outcome.verdict != CONFORMS:
                lines += ["", f"`{outcome.test}`", "", "```text", outcome.message, "```"]
        lines.append("")
    return "\n".join(lines)


def summary_line(gate: Gate, name: str) -> str:
    """One line on a target: its verdict and how much was compared."""
    outcomes = gate.of(name)
    counts = [sum(getattr(outcome, what) for outcome in outcomes) for what in ("cases", "rows", "elements")]
    return (
        f"{worst(o.verdict for o in outcomes)}: {len(clauses_of(outcomes))} clauses, {len(outcomes)} tests, "
        "{:,} cases, {:,} rows, {:,} elements".format(*counts)
    )


def write(gate: Gate, folder: Path) -> None:
    """Write gate.json and gate.md into a folder, which is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gate.json").write_text(json.dumps(as_json(gate), indent=2) + "\n")
    (folder / "gate.md").write_text(as_markdown(gate))
