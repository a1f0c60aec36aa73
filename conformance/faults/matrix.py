"""The kill matrix: every defect and every mutant judged by the gate's own tests, fault by clause."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from conformance.faults.all_mutants import MUTANTS, Kept
from conformance.faults.defect import PARTS, Defect
from conformance.spec import SPEC
from conformance.verdicts import CRASHED, DIFFERS

TOGETHER = 4
"""Faults that one run of the gate judges: each has all the tests of its kind."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Row:
    """What the gate said of one fault: how many tests were red, by clause, and of how many.

    `first` is the first red test under the fault's own clause, or under any, with {target} for the fault's own name.
    """

    name: str
    what: str
    kind: str
    clause: str
    sentence: str
    source: str
    red: dict[str, int]
    tests: int
    first: str

    @property
    def survived(self) -> bool:
        """Whether it was judged and no test was red; of a defect, none under its own clause."""
        return self.tests > 0 and (not self.red or (self.what == "model" and self.clause not in self.red))


def judge_models(defects: Iterable[Defect], profile: str, tell: Tell) -> list[Row]:
    """A row for each defect; groups of one kind are judged together, and a group on each core."""
    groups = []
    for kind in PARTS:
        mine = [defect for defect in defects if defect.kind == kind]
        groups += [mine[first : first + TOGETHER] for first in range(0, len(mine), TOGETHER)]
    return [row for rows in _on_each_core(lambda group: _of_group(group, profile, tell), groups) for row in rows]


def judge_mutants(mutants: Sequence[Kept], profile: str, tell: Tell) -> list[Row]:
    """A row for each mutant, built for the CPU in a folder of its own; one on each core."""
    return _on_each_core(lambda kept: _of_mutant(kept, profile, tell), mutants)


def _on_each_core(judge: Callable[[Any], Any], what: Sequence[Any]) -> list[Any]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(judge, what))


def _of_group(group: Sequence[Defect], profile: str, tell: Tell) -> list[Row]:
    targets = {f"fault:{defect.name}": defect for defect in group}
    found = _judged(group[0].kind, list(targets), profile)
    tell(f"{group[0].kind}: {', '.join(defect.name for defect in group)}")
    return [_row_of_defect(defect, target, found) for target, defect in targets.items()]


def _of_mutant(kept: Kept, profile: str, tell: Tell) -> Row:
    mutant = kept.mutant
    with TemporaryDirectory() as folder:
        target = f"{mutant.target}:{mutant.write(Path(folder) / 'sources')}"
        outcomes = _judged(kept.kind, [target], profile)[target]
    tell(f"mutant: {mutant.name}")
    red, first = _red(outcomes, "", target)
    sentence = f"{mutant.file}: {_one_line(mutant.old)} -> {_one_line(mutant.new)}"
    return Row(mutant.name, "mutant", kept.kind, "", sentence, "", red, outcomes["tests"], first)


def all_mutants() -> tuple[Kept, ...]:
    """Those that are kept as changes of the CUDA sources."""
    return MUTANTS


def _row_of_defect(defect: Defect, target: str, found: dict[str, Any]) -> Row:
    outcomes = found[target]
    red, first = _red(outcomes, defect.clause, target)
    about = (defect.name, "model", defect.kind, defect.clause, defect.sentence, defect.source)
    return Row(*about, red, outcomes["tests"], first)


def _judged(kind: str, targets: list[str], profile: str) -> dict[str, Any]:
    """By target: its red outcomes as gate.json has them, and the names of all its tests."""
    with TemporaryDirectory() as folder:
        parts = [f"conformance/gate/test_{part}.py" for part in PARTS[kind]]
        named = [argument for target in targets for argument in ("--target", target)]
        run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", *parts, *named]
        done = subprocess.run(
            [*run, "--profile", profile, "--report-dir", folder],
            cwd=SPEC.parent,
            env={**os.environ, "OMP_NUM_THREADS": "1"},  # the cores are shared already
            capture_output=True,
            text=True,
        )
        report = json.loads((Path(folder) / "gate.json").read_text())
    if done.returncode not in (0, 1, 6):
        raise RuntimeError(f"the gate ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return {
        each["name"]: {
            "red": [failure for failure in each["failures"] if failure["verdict"] in (DIFFERS, CRASHED)],
            "tests": each["tests"] - sum(f["verdict"] not in (DIFFERS, CRASHED) for f in each["failures"]),
        }
        for each in report["targets"]
    }


def _red(outcomes: dict[str, Any], clause: str, target: str) -> tuple[dict[str, int], str]:
    red: dict[str, int] = {}
    for failure in outcomes["red"]:
        for each in failure["clause"].split():
            red[each] = red.get(each, 0) + 1
    tests = sorted(outcomes["red"], key=lambda failure: (clause not in failure["clause"].split(), failure["test"]))
    return red, tests[0]["test"].replace(target, "{target}") if tests else ""


def _one_line(source: str) -> str:
    return " ".join(source.split())[:70] or "nothing"
