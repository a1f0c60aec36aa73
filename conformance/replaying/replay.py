"""Judging a fixture's case again, on a target of one's choice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import conformance.stored_cases  # noqa: F401  registers kinds of cases
from conformance.judge import Crashed, Differs, Judge, NotJudged, Unsupported
from conformance.replaying.questions import ask_of
from conformance.replaying.today import changes
from conformance.targets.base import Target
from conformance.targets.registry import UnknownTarget, find
from fixtures.store import BadFixture, Fixture, load

CONFORMS, DIFFERS, CANNOT = 0, 1, 125
"""Exit codes, as `git bisect run` understands them."""

Tell = Callable[[str], None]


def replay(path: Path, target: str | None, tell: Tell) -> int:
    """Judge a fixture in this process."""
    try:
        fixture = load(path)
    except BadFixture as error:
        tell(str(error))
        return CANNOT
    name = target or str(fixture.about.get("target", "auto"))
    for change in changes(fixture):
        tell(f"{path}: {change}")
    if fixture.case is None or fixture.about.get("alone") is False:
        return _test_again(path, fixture, name, tell)
    try:
        found = find(name)
    except UnknownTarget as error:
        tell(f"{path}: {error}")
        return CANNOT
    return _judged(path, fixture, found, tell)


def _judged(path: Path, fixture: Fixture, target: Target, tell: Tell) -> int:
    question = str(fixture.about.get("question", ""))
    ask = ask_of(question)
    if ask is None:
        tell(f"{path}: question is {question!r:.40}, which this suite does not ask")
        return CANNOT
    if reason := target.unavailable():
        tell(f"{path}: not judged: {reason}")
        return CANNOT
    judge = Judge(target, [str(clause) for clause in fixture.about.get("clauses", ())])
    try:
        ask(judge, fixture.case)
    except (Differs, Crashed) as error:
        tell(f"{path}: {error}")
        return DIFFERS
    except (NotJudged, Unsupported) as error:
        tell(f"{path}: not judged: {error}")
        return CANNOT
    tell(f"{path}: conforms on target {target.name} ({target.describe()})")
    return CONFORMS


def _test_again(path: Path, fixture: Fixture, target: str, tell: Tell) -> int:
    """What failed is no case, or one that fails only after others: the test that saw it runs again, by pytest."""
    test = str(fixture.about.get("test", ""))
    old = str(fixture.about.get("target", ""))
    if not test.startswith("conformance/gate/") or not old:
        tell(f"{path}: there is no case, and no test of the gate: {test!r:.80}")
        return CANNOT
    tell(f"{path}: no case that fails alone; running {test}")
    seed, profile = str(fixture.about.get("seed", 0)), str(fixture.about.get("gate_profile", "quick"))
    again = test.replace(f"[{old}", f"[{target}", 1)
    options = ["--target", target, "--seed", seed, "--profile", profile, "--dump-dir", "", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--no-header", again, *options], capture_output=True, text=True
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
