"""Join the reports of shards into one report: all results, and the reasons why the whole is not green."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from conformance.reports import receipts
from conformance.reports.campaign_report import joined
from conformance.reports.gate import OVERSTEPS
from conformance.reports.reading import Json
from conformance.reports.report import COUNTS, SCHEMA
from conformance.reports.shards import Part, amiss, waiver_of
from conformance.reports.verdicts import worst
from conformance.reports.waivers import RECEIPT
from conformance.spec import clauses
from conformance.verdict import CONFORMS, CRASHED, DIFFERS, NOT_JUDGED

UNKNOWN: Json = {
    "seed": None,
    "profile": None,
    "required": [],
    "asked_targets": [],
    "shard": None,
    "suite": {"version": "", "tests": 0, "asked": 0, "fingerprint": "", "deselected": [], "spared": []},
    "repeat": "",
    "campaign": None,
    "waivers": [],
}
"""The fields of a report when no run has one."""


def join(parts: Sequence[Part], required: Sequence[str] = (), unusable: Sequence[str] = ()) -> Json:
    """Join the reports of shards into one, with the shape that gate.schema.json describes.

    `required` is checked in addition to what the runs required. `unusable` has a line for each report that could not be
    read. If a shard is given twice, only its first report counts.

    Returns:
        The joined report.

    """
    once = list({(part.begun, part.shard): part for part in reversed(parts)}.values())
    once.sort(key=lambda part: (not part.begun, part.shard.of, part.shard.index))
    reports = [part.report for part in once]
    first = reports[0] if reports else UNKNOWN
    wrong = [*unusable, *amiss(parts)]
    partial = _once(line for report in reports for line in report["partial"])
    waivers = [_waiver(place, reports) for place in range(len(first["waivers"]))]
    targets = [_target(name, once) for name in _names(reports)]
    reasons = [*wrong, *_said(once), *_unmet(required, once), *_unproven(first["asked_targets"], targets, once)]
    if first["shard"] and not wrong and not partial:
        reasons += _unneeded(waivers, targets, [line for report in reports for line in report["reasons"]])
    return {
        "schema": SCHEMA,
        "verdict": _verdict_of_all(reports, reasons),
        "seed": first["seed"],
        "profile": first["profile"],
        "seconds": max((report["seconds"] for report in reports), default=0),
        "exit_status": _largest([report["exit_status"] for report in reports]),
        "complete": not wrong,
        "reasons": _once(reasons),
        "partial": partial,
        "partial_ok": bool(reports) and all(report["partial_ok"] for report in reports),
        "required": _once([*first["required"], *required]),
        "asked_targets": first["asked_targets"],
        "shard": None,
        "suite": {**first["suite"], "asked": sum(report["suite"]["asked"] for report in reports)},
        "repeat": re.sub(r" --shard[ =]\S+", "", first["repeat"]),
        "campaign": _campaign([report["campaign"] for report in reports if report["campaign"]]),
        "waivers": waivers,
        "targets": targets,
    }


def _said(parts: Sequence[Part]) -> Iterator[str]:
    """Yield the reasons of the reports. A reason that not all reports have begins with the names of those that do."""
    by_reason: dict[str, list[str]] = {}
    for part in parts:
        for reason in part.report["reasons"]:
            by_reason.setdefault(reason, []).append(part.name)
    for reason, names in by_reason.items():
        yield reason if len(names) == len(parts) else f"{', '.join(names)}: {reason}"


def _unmet(required: Sequence[str], parts: Sequence[Part]) -> Iterator[str]:
    """Yield the requirements that a run neither met nor checked itself."""
    for part in parts:
        workers = [worker for target in part.report["targets"] for worker in target["workers"] if worker["cases"]]
        devices = sorted({worker["device"] for worker in workers})
        found = {arch[0] for device in devices if (arch := receipts.ARCHITECTURE.search(device))}
        for wanted in required:
            if wanted in part.report["required"] or found == {wanted} or (found and wanted == "cuda"):
                continue
            yield f"--require {wanted}: {part} was run without it, and judged on {' and '.join(devices) or 'nothing'}"


def _unproven(asked: Sequence[str], targets: Sequence[Json], parts: Sequence[Part]) -> Iterator[str]:
    heard = [target["name"] for target in targets]
    yield from (f"target {name}: no test of it was run" for name in asked if name not in heard)
    for target in targets:
        name = target["name"]
        if not target["cases"]:
            yield f"target {name}: no case was compared"
        elif not any(_excuses(told, name) for part in parts for told in part.report["waivers"]):
            # Shards may have GPUs of several architectures: the sources are to be the same, the binaries need not.
            built = receipts.different_builds(_receipts(name, parts), who="shards", but="binary_sha256")
            yield from (f"target {name}: {what}" for what in built)


def _excuses(told: Json, target: str) -> bool:
    waiver = waiver_of(told)
    return waiver.clause == RECEIPT and waiver.concerns(target) and told["state"] != "expired"


def _unneeded(waivers: Sequence[Json], targets: Sequence[Json], reasons: Sequence[str]) -> Iterator[str]:
    for told in waivers:
        waiver = waiver_of(told)
        if f"{waiver} {OVERSTEPS}" in reasons:
            continue
        if told["state"] == "unused" and any(waiver.concerns(target["name"]) for target in targets):
            yield f"{waiver} is not needed any more: no shard made use of it"


def _waiver(place: int, reports: Sequence[Json]) -> Json:
    same = [report["waivers"][place] for report in reports if place < len(report["waivers"])]
    states = {told["state"] for told in same}
    state = next(state for state in ("expired", "used", "unused") if state in states)
    return {**same[0], "state": state, "tests": sum(told["tests"] for told in same)}


def _campaign(found: Sequence[Json]) -> Json | None:
    return found[0] if len(found) == 1 else joined(found)


def _names(reports: Sequence[Json]) -> list[str]:
    heard = [target["name"] for report in reports for target in report["targets"]]
    asked = [name for report in reports for name in report["asked_targets"] if name in heard]
    return _once([*asked, *heard])


def _target(name: str, parts: Sequence[Part]) -> Json:
    held = [(part, target) for part in parts for target in part.report["targets"] if target["name"] == name]
    found = [target for _, target in held]
    waived = [sum(failure["waived"] is not None for failure in target["failures"]) for target in found]
    touched = {clause["id"] for target in found for clause in target["clauses"]}
    order = {clause: place for place, clause in enumerate(clauses())}
    return {
        "name": name,
        "verdict": _verdict(found, waived),
        "declares": {declared: value for target in found for declared, value in target.get("declares", {}).items()},
        "receipt": receipts.merged(_receipts(name, parts)),
        "workers": [_worker(worker, part) for part, target in held for worker in target["workers"]],
        **_sums(("tests", *COUNTS), found),
        "clauses": [
            _clause(clause, found) for clause in sorted(touched, key=lambda clause: order.get(clause, len(order)))
        ],
        "failures": [failure for target in found for failure in target["failures"]],
        "left_out": _left_out(found),
    }


def _left_out(targets: Sequence[Json]) -> list[Json]:
    tests: Counter[str] = Counter()
    for told in (told for target in targets for told in target.get("left_out", ())):
        tests[told["what"]] += told["tests"]
    return [{"what": feature, "tests": count} for feature, count in sorted(tests.items())]


def _worker(worker: Json, part: Part) -> Json:
    return {**worker, "worker": f"{part.shard} {worker['worker']}"} if part.report["shard"] else worker


def _clause(name: str, targets: Sequence[Json]) -> Json:
    found = [clause for target in targets for clause in target["clauses"] if clause["id"] == name]
    verdict = _verdict(found, [clause["waived"] for clause in found])
    return {"id": name, "verdict": verdict, **_sums(("tests", *COUNTS, "waived"), found)}


def _verdict(found: Sequence[Json], waived: Sequence[int]) -> str:
    """Return the worst verdict, like Gate.verdict_of. A part that is all waived counts only if all parts are."""
    counting = [one for one, count in zip(found, waived, strict=True) if one["tests"] > count]
    return worst(one["verdict"] for one in counting or found)


def _verdict_of_all(reports: Sequence[Json], reasons: Sequence[str]) -> str:
    targets = [target for report in reports for target in report["targets"]]
    found = [failure["verdict"] for target in targets for failure in target["failures"] if failure["waived"] is None]
    found += [CONFORMS for target in targets if target["tests"] > len(target["failures"])]
    # A shard in which nothing counts is "not judged" by itself, which says nothing of the others.
    told = [report["verdict"] for report in reports if report["verdict"] in (CRASHED, DIFFERS)]
    return worst([*found, *told, *([NOT_JUDGED] if reasons else [])])


def _receipts(name: str, parts: Sequence[Part]) -> list[Json]:
    return [target["receipt"] for part in parts for target in part.report["targets"] if target["name"] == name]


def _sums(names: Sequence[str], found: Sequence[Json]) -> Json:
    return {name: sum(one[name] for one in found) for name in names}


def _largest(statuses: Sequence[int | None]) -> int | None:
    known = [status for status in statuses if status is not None]
    return max(known) if known and len(known) == len(statuses) else None


def _once(lines: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(lines))
