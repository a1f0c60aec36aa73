"""The kill matrix: every defect and every mutant judged by the gate's own tests, fault by clause."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

from conformance.faults.all_mutants import Kept
from conformance.faults.defect import PARTS, Defect
from conformance.machine import cpus, share_threads
from conformance.marked import tests_by_clause
from conformance.spec import SPEC
from conformance.verdict import CRASHED, DIFFERS

PATIENCE, ENOUGH = 120, 8
"""After how many seconds the run of a mutant is taken to hang, and how many failures are then enough."""

Run = Callable[[list[str]], subprocess.CompletedProcess[str]]

GATE = "conformance/gate"

TOGETHER = 4
"""Faults that one run of the gate judges: each has all the tests of its kind."""


@dataclass(frozen=True)
class Row:
    """What the gate said of one fault: how many tests were red, by clause, and of how many.

    `named` of the red tests say which fault it is. `first` is the test that sees it soonest, of those under its own
    clause if there are any, with {target} for the fault's own name. `counted` is the day of the run, as 2026-11-30.
    """

    name: str
    what: str
    kind: str
    clause: str
    sentence: str
    source: str
    red: dict[str, int]
    failed: int
    named: int
    tests: int
    first: str
    counted: str

    @property
    def survived(self) -> bool:
        """Whether it was judged and no test was red; of a defect, none under its own clause."""
        return self.tests > 0 and (not self.red or (self.what == "model" and self.clause not in self.red))


def judged(defects: Sequence[Defect], mutants: Sequence[Kept], profile: str) -> Iterator[list[Row]]:
    """A row for each, in groups, as they come; a group on each core."""
    share_threads(cpus())
    with ThreadPoolExecutor(cpus()) as pool:
        jobs: list[Callable[[], list[Row]]] = [partial(_of_group, group, profile) for group in _groups(defects)]
        jobs += [partial(_of_mutant, kept, profile) for kept in mutants]
        try:
            for done in as_completed([pool.submit(job) for job in jobs]):
                yield done.result()
        finally:
            pool.shutdown(cancel_futures=True)  # of what is left after an error


def first_to_see(defect: Defect) -> str:
    """Return the node id of the first test that is found red on a fault, under its own clause if there is one.

    The empty text means that no test of its kind sees the fault in profile quick.
    """
    parts = [f"{GATE}/test_{part}.py" for part in PARTS[defect.kind]]
    own = [f"conformance/{test}" for test in tests_by_clause().get(defect.clause, []) if test.startswith("gate/")]
    for tests, profile in ((own, "ci"), (parts, "quick")):
        arguments = [
            *tests,
            "--target",
            f"fault:{defect.name}",
            "--profile",
            profile,
            "--explain",
            "0",
            "-x",
            "-n",
            "0",
        ]
        with TemporaryDirectory() as folder:
            _run([*arguments, "--partial-ok", "--report-dir", folder])
            targets = json.loads((Path(folder) / "gate.json").read_text())["targets"]
        failures = [failure for target in targets for failure in target["failures"]]
        if red := [failure["test"] for failure in failures if failure["verdict"] in (DIFFERS, CRASHED)]:
            return str(red[0])
    return ""


def _groups(defects: Sequence[Defect]) -> Iterator[Sequence[Defect]]:
    for kind in PARTS:
        mine = [defect for defect in defects if defect.kind == kind]
        for first in range(0, len(mine), TOGETHER):
            yield mine[first : first + TOGETHER]


def _of_group(group: Sequence[Defect], profile: str) -> list[Row]:
    targets = {f"fault:{defect.name}": defect for defect in group}
    found = _outcomes(group[0].kind, list(targets), profile, _run)
    return [
        Row(
            name=defect.name,
            what="model",
            kind=defect.kind,
            clause=defect.clause,
            sentence=defect.sentence,
            source=defect.source,
            **_told(found[target], defect.clause, target, defect.name),
        )
        for target, defect in targets.items()
    ]


def _of_mutant(kept: Kept, profile: str) -> list[Row]:
    mutant = kept.mutant
    with TemporaryDirectory() as folder:
        target = f"{mutant.target}:{mutant.write(Path(folder) / 'sources')}"
        found = _outcomes(kept.kind, [target], profile, _ended)[target]
    row = Row(
        name=mutant.name,
        what="mutant",
        kind=kept.kind,
        clause="",
        sentence=mutant.sentence,
        source="",
        **_told(found, "", target, mutant.fault or ""),
    )
    return [row]


def _outcomes(kind: str, targets: list[str], profile: str, run: Run) -> dict[str, Any]:
    """By target: its red outcomes as gate.json has them, each with its seconds, and how many tests judged it."""
    with TemporaryDirectory() as folder:
        parts = [f"{GATE}/test_{part}.py" for part in PARTS[kind]]
        named = [argument for target in targets for argument in ("--target", target)]
        reports = ["--report-dir", folder, "--junitxml", f"{folder}/junit.xml"]
        done = run([*parts, *named, "--profile", profile, *reports])
        if done.returncode not in (0, 1, 2, 6):  # 2 where it stopped at some failures in a worker's process
            raise RuntimeError(f"the gate ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        report = json.loads((Path(folder) / "gate.json").read_text())
        tests = ElementTree.parse(f"{folder}/junit.xml").iter("testcase")
        seconds = {test.get("name"): float(test.get("time", 0)) for test in tests}
    found = {}
    for each in report["targets"]:
        red = [failure for failure in each["failures"] if failure["verdict"] in (DIFFERS, CRASHED)]
        for failure in red:
            failure["seconds"] = seconds.get(failure["test"].partition("::")[2], math.inf)
        found[each["name"]] = {"red": red, "tests": each["tests"] - len(each["failures"]) + len(red)}
    return found


def _run(arguments: list[str], seconds: float | None = None) -> subprocess.CompletedProcess[str]:
    """The gate, or a part of it; TimeoutExpired if it takes longer than that."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", "--dump-dir", ""]
    return subprocess.run([*command, *arguments], cwd=SPEC.parent, capture_output=True, text=True, timeout=seconds)


def _ended(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """The same of a kernel that may write where it may not, and so end its process, or hang, anywhere.

    It runs in a worker's process, and where it does not end, a run that stops at some failures is enough.
    """
    contained = [*arguments, "-n", "1"]
    try:
        return _run(contained, PATIENCE)
    except subprocess.TimeoutExpired:
        return _run([*contained, f"--maxfail={ENOUGH}"], PATIENCE)


def _told(outcomes: dict[str, Any], clause: str, target: str, name: str) -> dict[str, Any]:
    """What a row says of a target's outcomes."""
    red: dict[str, int] = {}
    for failure in outcomes["red"]:
        for each in failure["clause"].split():
            red[each] = red.get(each, 0) + 1
    soonest = sorted(outcomes["red"], key=lambda each: (clause not in each["clause"].split(), each["seconds"]))
    return {
        "red": red,
        "failed": len(outcomes["red"]),
        "named": sum(name in failure["explained_by"] for failure in outcomes["red"]),
        "tests": outcomes["tests"],
        "first": soonest[0]["test"].replace(target, "{target}") if soonest else "",
        "counted": f"{date.today()}",
    }
