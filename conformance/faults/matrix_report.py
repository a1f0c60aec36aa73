"""The kill matrix as faults.json and faults.md, with the hashes of what it is made from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from conformance.faults.defect import PARTS
from conformance.faults.matrix import Row
from conformance.faults.power import Power
from conformance.spec import SPEC, clauses, in_short

ROOT = SPEC.parent
DOCS = ROOT / "docs"

MADE_FROM = ("conformance/faults/*.py", "conformance/gate/*.py", "kernels/cuda/*", "kernels/host/*", "SPEC.md")


def hashes() -> dict[str, str]:
    """What a matrix is made from, by pattern: a SHA-256, in hex, over names and contents."""
    return {pattern: _digest(sorted(ROOT.glob(pattern))) for pattern in MADE_FROM}


def _digest(paths: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def write(rows: Sequence[Row], powers: Sequence[Power], profile: str, folder: Path = DOCS) -> None:
    """Write both files into a folder."""
    result = {
        "schema": 1,
        "profile": profile,
        "made from": hashes(),
        "rows": [asdict(row) for row in rows],
        "power": [asdict(power) for power in powers],
    }
    folder.mkdir(exist_ok=True)
    (folder / "faults.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / "faults.md").write_text("\n".join(_lines(rows, powers, profile)) + "\n")


def _lines(rows: Sequence[Row], powers: Sequence[Power], profile: str) -> Iterable[str]:
    models = [row for row in rows if row.what == "model"]
    mutants = [row for row in rows if row.what == "mutant"]
    survivors = [row for row in rows if row.survived]
    yield "# What this suite sees"
    yield ""
    yield f"Written by `python -m conformance faults`, profile {profile}; faults.json says what from."
    yield ""
    yield f"{len(models)} faults as models and {len(mutants)} changes of the CUDA sources, judged by the gate;"
    yield f"{len(survivors)} survived{': ' + ', '.join(row.name for row in survivors) if survivors else ''}."
    broken = {row.clause for row in models}
    unbroken = [clause for clause in clauses() if clause not in broken]
    yield f"{len(broken)} of {len(clauses())} clauses are broken by a model"
    yield f"{'; not ' + in_short(unbroken) if unbroken else ''}."
    for kind in PARTS:
        yield from _table(kind, [row for row in models if row.kind == kind])
    yield from ("", "## Changes of the CUDA sources", "", "| change | kind | red | clauses |", "|---|---|---|---|")
    for row in mutants:
        yield f"| {row.name} | {row.kind} | {_share(row)} | {in_short(_ordered(row.red))} |"
    yield from _powers(powers)


def _table(kind: str, rows: Sequence[Row]) -> Iterable[str]:
    if not rows:
        return
    yield from ("", f"## {kind}", "", "| fault | breaks | what it does | red | under |", "|---|---|---|---|---|")
    for row in rows:
        source = f" ({row.source})" if row.source else ""
        red = in_short(_ordered(row.red))
        yield f"| {row.name} | {row.clause} | {row.sentence}{source} | {_share(row)} | {red} |"


def _powers(powers: Sequence[Power]) -> Iterable[str]:
    if not powers:
        return
    yield from ("", "## Cases until a fault of a gather is seen", "")
    yield "Medians over ten seeds. Usual data are N(0, 1) latents, written by the golden writer, gathered from aligned"
    yield "starts out of contiguous arrays, one table row after the other; the suite's are those of its random tests."
    yield from ("", "| fault | usual data | this suite |", "|---|---|---|")
    for power in powers:
        yield f"| {power.name} | {power.usual or 'not in 200'} | {power.suite or 'not in 200'} |"


def _ordered(red: dict[str, int]) -> list[str]:
    return [clause for clause in clauses() if clause in red]


def _share(row: Row) -> str:
    most = max(row.red.values(), default=0)
    if row.tests == 0:
        return "not judged: no GPU" if row.kind == "device" else "not judged"
    return f"{most} of {row.tests}" if row.red else f"**none** of {row.tests}"
