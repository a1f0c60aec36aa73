"""Judging a fixture's case again, on a target of one's choice."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import conformance.faults.scheme  # noqa: F401  lets fault:NAME be found
from conformance.diagnosis.engine import in_full
from conformance.replaying.asking import CannotAsk, failure
from conformance.replaying.today import changes
from conformance.spec import SPEC
from conformance.targets.registry import BUILT_IN, UnknownTarget, find
from fixtures.store import BadFixture, Fixture, load

CONFORMS, DIFFERS, CANNOT = 0, 1, 125
"""Exit codes, as `git bisect run` understands them."""

A_TEST = re.compile(r"conformance/gate/test_\w+\.py::test_\w+(\[.*\])?")

Tell = Callable[[str], None]


def replay(path: Path, target: str | None, tell: Tell) -> int:
    """Judge a fixture in this process."""
    try:
        fixture = load(path)
        name = target or _own_target(fixture)
        for change in changes(fixture):
            tell(f"{path}: {change}")
        if fixture.case is None or fixture.about.get("alone") is False:
            return _test_again(path, fixture, name, tell)
        found = find(name)
        error = failure(fixture, found)
    except BadFixture as bad:
        tell(str(bad))
        return CANNOT
    except (UnknownTarget, CannotAsk) as reason:
        tell(f"{path}: {reason}")
        return CANNOT
    if error:
        tell(f"{path}: {in_full(error)}")
        return DIFFERS
    tell(f"{path}: conforms on target {found.name} ({found.describe()})")
    return CONFORMS


def _own_target(fixture: Fixture) -> str:
    """The target that failed, if it is one of the suite's own: a file may not say what to import, build or load."""
    name = str(fixture.about.get("target", ""))
    if name in BUILT_IN or name.startswith("fault:"):
        return name
    raise CannotAsk(f"it failed on target {name!r:.80}, which is not the suite's own: name one with --target")


def _test_again(path: Path, fixture: Fixture, target: str, tell: Tell) -> int:
    """What failed is no case, or one that fails only after others: the test that saw it runs again, by pytest."""
    test, old = str(fixture.about.get("test", "")), str(fixture.about.get("target", ""))
    if not A_TEST.fullmatch(test):
        raise CannotAsk(f"there is no case that fails alone, and no test of the gate: {test!r:.80}")
    tell(f"{path}: no case that fails alone; running {test}")
    seed, profile = str(fixture.about.get("seed", 0)), str(fixture.about.get("gate_profile", "quick"))
    again = test.replace(f"[{old}", f"[{target}", 1)
    options = [f"--target={target}", f"--seed={seed}", f"--profile={profile}", "--dump-dir=", "--partial-ok"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", *options, again],
        cwd=SPEC.parent,
        capture_output=True,
        text=True,
    )
    tell(run.stdout.strip()[-4000:])
    return {0: CONFORMS, 1: DIFFERS}.get(run.returncode, CANNOT)


def replay_all(paths: Sequence[Path], target: str | None, seconds: float | None, tell: Tell) -> int:
    """Judge each fixture: in a process of its own, so that one that dies, or hangs for that long, is a verdict too.

    With `seconds` None all are judged in this process.
    """
    if seconds is None:
        codes = [replay(path, target, tell) for path in paths]
    else:
        codes = [_contained(path, target, seconds, tell) for path in paths]
    return next((code for code in (DIFFERS, CANNOT) if code in codes), CONFORMS)


def _contained(path: Path, target: str | None, seconds: float, tell: Tell) -> int:
    command = [sys.executable, "-m", "conformance", "replay", str(path), "--here"]
    try:
        run = subprocess.run([*command, *(["--target", target] if target else [])], timeout=seconds)
    except subprocess.TimeoutExpired:
        tell(f"{path}: crashed: no answer within {seconds:g} s")
        return DIFFERS
    if run.returncode in (CONFORMS, DIFFERS, CANNOT):
        return run.returncode
    how = f"signal {-run.returncode}" if run.returncode < 0 else f"exit code {run.returncode}"
    tell(f"{path}: crashed: the process that judged it ended with {how}")
    return DIFFERS
