"""Write reports/gate.json and gate.md, and the summary lines on a terminal."""

from __future__ import annotations

import json
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from conformance.reports.campaign_report import campaign_in_markdown
from conformance.reports.gate import Gate
from conformance.reports.receipts import Account, merged
from conformance.reports.verdicts import Outcome
from conformance.spec import clauses
from conformance.verdict import CONFORMS

SCHEMA = 1
COUNTS = ("cases", "rows", "elements")
DISTRIBUTION = "nvfp4-mla-conformance"


def as_json(gate: Gate) -> dict[str, Any]:
    """Return the report as JSON types. gate.schema.json describes it."""
    return {
        "schema": SCHEMA,
        "verdict": gate.verdict,
        "seed": gate.seed,
        "profile": gate.profile,
        "seconds": round(gate.seconds, 1),
        "exit_status": gate.exit_status,
        "complete": gate.complete,
        "reasons": gate.reasons(),
        "partial": gate.partial(),
        "partial_ok": gate.partial_ok,
        "required": list(gate.required),
        "asked_targets": list(gate.asked_targets),
        **_suite(gate),
        "repeat": gate.repeat,
        "campaign": gate.campaign,
        "waivers": [_waiver(gate, number) for number in range(len(gate.waivers))],
        "targets": [_target(gate, name) for name in gate.targets],
    }


def _suite(gate: Gate) -> dict[str, Any]:
    selection = gate.selection
    shard = gate.shard
    return {
        "shard": {"index": shard.index, "of": shard.of} if shard else None,
        "suite": {
            "version": _version(),
            "tests": len(selection.tests) if selection else 0,
            "asked": len(selection.held_by(shard)) if selection else 0,
            "fingerprint": selection.fingerprint if selection else "",
            "deselected": list(selection.deselected) if selection else [],
            "spared": list(selection.spared) if selection else [],
        },
    }


def _version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "not installed"


def _waiver(gate: Gate, place: int) -> dict[str, Any]:
    waiver = gate.waivers[place]
    return {
        **{name: getattr(waiver, name) for name in ("number", "clause", "target", "test", "reason", "link")},
        "expires": waiver.expires.isoformat(),
        "state": gate.state_of(waiver),
        "tests": len(gate.waived_by(waiver)),
    }


def _target(gate: Gate, name: str) -> dict[str, Any]:
    outcomes, accounts = gate.of(name), gate.accounts_of(name)
    return {
        "name": name,
        "verdict": gate.verdict_of(outcomes),
        "declares": gate.declared_by(name),
        "receipt": merged([account.receipt for account in accounts]),
        "workers": [_worker(account) for account in accounts],
        "tests": len(outcomes),
        **{what: sum(getattr(outcome, what) for outcome in outcomes) for what in COUNTS},
        "clauses": [_clause(gate, clause, gate.of(name, clause)) for clause in clauses_of(outcomes)],
        "failures": [_failure(gate, outcome) for outcome in outcomes if outcome.verdict != CONFORMS],
        "left_out": [{"what": feature, "tests": count} for feature, count in gate.left_out(name)],
    }


WORKER = ("worker", "device", "driver", "cases", "rows", "elements", "calls", "launches", "peak_rss_mib", "error")
"""The fields of a worker's account that gate.json contains."""


def _worker(account: Account) -> dict[str, Any]:
    return {
        **{name: getattr(account, name) for name in WORKER},
        "kernels": [dict(kernel) for kernel in account.kernels_after or account.kernels],
        "unseen": account.unseen,
    }


def _failure(gate: Gate, outcome: Outcome) -> dict[str, Any]:
    waiver = gate.waived(outcome)
    return {
        "clause": " ".join(outcome.clauses),
        "test": outcome.test,
        "verdict": outcome.verdict,
        "fixture": outcome.fixture,
        "message": outcome.message,
        "explained_by": list(outcome.explained_by),
        "waived": waiver.number if waiver else None,
    }


def _clause(gate: Gate, clause: str, outcomes: list[Outcome]) -> dict[str, Any]:
    return {
        "id": clause,
        "verdict": gate.verdict_of(outcomes),
        "tests": len(outcomes),
        **{what: sum(getattr(outcome, what) for outcome in outcomes) for what in COUNTS},
        "waived": sum(gate.waived(outcome) is not None for outcome in outcomes),
    }


def clauses_of(outcomes: list[Outcome]) -> list[str]:
    """Return the clauses of some outcomes, in SPEC.md's order."""
    found = {clause for outcome in outcomes for clause in outcome.clauses}
    return [clause for clause in clauses() if clause in found]


def as_markdown(report: dict[str, Any]) -> str:
    """Return a report of as_json as Markdown, for a CI job's summary page."""
    shard = report["shard"]
    part = f" (shard {shard['index']} of {shard['of']})" if shard else ""
    lines = [f"# Gate: {report['verdict']}{part}", ""]
    if report["profile"]:
        lines += [f"Profile {report['profile']}, seed {report['seed']}, {report['seconds']:.0f} s.", ""]
    notes = dict.fromkeys([*report["reasons"], *report["partial"]])
    lines += [f"- {note}" for note in notes] + ([""] if notes else [])
    for target in report["targets"]:
        lines += _target_in_markdown(target)
    lines += campaign_in_markdown(report["campaign"])
    if waivers := report["waivers"]:
        lines += [
            "## Waivers",
            "",
            "| clause | target | tests | expires | state | reason |",
            "|---|---|--:|---|---|---|",
        ]
        lines += [
            f"| {' | '.join(str(each[what]) for what in ('clause', 'target', 'tests', 'expires', 'state'))} "
            f"| [{each['reason']}]({each['link']}) |"
            for each in waivers
        ]
    repeat = ["", "```sh", report["repeat"], "```"] if report["repeat"] else []
    return "\n".join([*lines, *repeat, ""])


def _target_in_markdown(target: dict[str, Any]) -> list[str]:
    lines = [
        f"## {target['name']}: {target_line(target)}",
        *(["", declared] if (declared := declarations_line(target)) else []),
        "",
        "| clause | verdict | cases | rows | elements |",
        "|---|---|--:|--:|--:|",
    ]
    for clause in target["clauses"]:
        verdict = clause["verdict"] + (f", {clause['waived']} waived" if clause["waived"] else "")
        counts = " | ".join(f"{clause[what]:,}" for what in COUNTS)
        lines.append(f"| {clause['id']} | {verdict} | {counts} |")
    for told in target.get("left_out", ()):
        lines += ["", f"Left out of the cases of {told['tests']} random tests: {told['what']}."]
    for failure in target["failures"]:
        waived = f" (waiver {failure['waived']})" if failure["waived"] else ""
        lines += ["", f"`{failure['test']}`{waived}", "", "```text", failure["message"], "```"]
    return [*lines, ""]


def target_line(target: dict[str, Any]) -> str:
    """Return one line on a target of a report: its verdict, and how much was compared."""
    counts = [f"{target[what]:,} {what}" for what in COUNTS]
    return f"{target['verdict']}: {len(target['clauses'])} clauses, {target['tests']} tests, {', '.join(counts)}"


def declarations_line(target: dict[str, Any]) -> str:
    """Return one line on a target's declarations that its verdict rests on; "" if it has only the defaults."""
    said = ", ".join(f'{name} = "{value}"' for name, value in target.get("declares", {}).items())
    return f"This rests on what the target declares: {said}" if said else ""


def write(gate: Gate, folder: Path) -> None:
    """Write gate.json and gate.md into a folder. Creates the folder if it is missing."""
    write_report(as_json(gate), folder)


def write_report(report: dict[str, Any], folder: Path) -> None:
    """Write gate.json and gate.md of a report, each in one step, so that readers see complete files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("gate.json", json.dumps(report, indent=2) + "\n"), ("gate.md", as_markdown(report))):
        passing = folder / f".{name}.{os.getpid()}"
        passing.write_text(text, encoding="utf-8", errors="backslashreplace")
        passing.replace(folder / name)
