"""Dumps: the fixture that a failing test leaves, and the one that a call leaves which takes its process down."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from conformance.diagnosis.engine import diagnose, in_full
from conformance.judge import Judge
from conformance.observe import lost_context
from conformance.replaying.asking import with_evidence
from conformance.replaying.failure_kind import does_the_same, kind_of, models_of
from conformance.replaying.questions import ask_of, may_shrink
from conformance.shrinking import shrink
from conformance.targets.base import Target
from conformance.verdict import Crashed, Differs, NotJudged, Unsupported
from fixtures.store import BadFixture, Fixture, clause_in, first_clause, load, name_of, save

PENDING = "pending-"
"""What the name begins with of a case whose call has not returned."""

SECONDS_EACH, SECONDS_ALL = 3.0, 30.0
"""How long one failure is shrunk, and all those that one process sees."""

SHARES = 8
"""One clause may have one in so many of a run's fixtures, and one at least."""

MOST_TEXT = 20_000
"""Characters of a message."""

PACKAGES = ("numpy", "torch", "cupy-cuda13x", "cupy-cuda12x", "vllm", "nvfp4-mla-conformance")


@dataclass
class Dumps:
    """A process's dumps; `worker` tells it from the others of the run, which began at `since`."""

    folder: Path
    most: int
    worker: str
    since: float
    about: Mapping[str, Any]
    """What is said of the run in each: seed, profile of the gate."""
    left: float = SECONDS_ALL

    @property
    def pending(self) -> Path:
        """Where a case lies while it is judged."""
        return self.folder / f"{PENDING}{self.worker}.safetensors"

    def before(self, judge: Judge, test: str, target: str) -> Callable[[str, Any], None]:
        """What writes a case before its call, for a target that may take the process down."""

        about = self._about(judge, test, target) | {"verdict": "crashed", "message": "the process died", "alone": True}

        def write(question: str, case: Any) -> None:
            _try_to_save(Fixture(case, about=about | {"question": question}), self.pending)

        return write

    def forget(self) -> None:
        """The test has returned."""
        self.pending.unlink(missing_ok=True)

    def keep(
        self, judge: Judge, test: str, target: str, verdict: str, error: Exception
    ) -> tuple[Path | None, list[str]]:
        """Write what failed, and the smallest case that fails in the same way; return the file, and lines on it."""
        if full := self._full(first_clause(judge.clauses)):
            return None, [f"no fixture: {full} (--dump-limit)"]
        question, case = judge.asked or ("", None)
        about = {
            **self._about(judge, test, target),
            "question": question,
            "verdict": verdict,
            "message": in_full(error)[:MOST_TEXT],
            "explained_by": list(diagnose(error).explained_by),
            "alone": case is not None and bool(judge.target.lost or _failure(judge, question, case)),
        }
        fixture = with_evidence(Fixture(case, about=about), error)
        path = self.folder / name_of(fixture)
        if not (size := _try_to_save(fixture, path)):
            return None, [f"no fixture: {path} cannot be written"]
        return path, [
            f"fixture  {path} ({size})",
            *(self._shrunk(judge, fixture, path, error) if about["alone"] and self.left > 0 else []),
            f"replay   python -m conformance replay {path} --target {target}",
        ]

    def _shrunk(self, judge: Judge, fixture: Fixture, path: Path, whole: Exception) -> list[str]:
        """Write the smallest case found that fails in the same way, explained by the same fault if one was found."""
        question, began = fixture.about["question"], time.monotonic()
        if judge.target.lost or not may_shrink(question):
            return []
        until = min(SECONDS_EACH, self.left)
        kind, models = kind_of(fixture.case, whole), models_of(judge, question, fixture.case, whole)

        def fails_alike(case: Any) -> bool:
            error = _failure(judge, question, case)
            if error is None or not kind.covers(kind_of(case, error)):
                return False
            return not models or any(does_the_same(make, judge, question, case, error) for make in models)

        case = shrink(fixture.case, fails_alike, until)
        self.left -= time.monotonic() - began
        if case is fixture.case:
            return []
        small = path.with_name(f"{path.stem}-small.safetensors")
        error = _failure(judge, question, case)
        # So small a case is explained by faults that the whole is not: those stay as they were.
        about = {**fixture.about, "message": _without_rest(error)[:MOST_TEXT], "shrunk_from": path.name}
        size = _try_to_save(with_evidence(Fixture(case, about=about), error), small)
        return [f"smaller  {small} ({size}): {case!r:.200}"] if size else []

    def _full(self, clause: str) -> str:
        """Return which limit this run has reached, that of all fixtures or that of one clause; "" if neither."""
        clauses = [clause_in(path.name) for path in self._written()]
        share = max(1, self.most // SHARES)
        if len(clauses) >= self.most:
            return f"this run has written {self.most}"
        if clause and clauses.count(clause) >= share:
            return f"this run has written {share} of {clause}, its share of {self.most}"
        return ""

    def _written(self) -> list[Path]:
        """Return the files of this run, those of other workers among them."""
        files = self.folder.glob("*.safetensors")
        of_failures = [path for path in files if not path.name.startswith(PENDING) and "-small" not in path.name]
        return [path for path in of_failures if path.stat().st_mtime >= self.since]

    def _about(self, judge: Judge, test: str, name: str) -> dict[str, Any]:
        target = judge.target
        return {
            **self.about,
            "clauses": list(judge.clauses),
            "test": test,
            "target": name,
            "profile": target.profile.name,
            "nan": target.nan,
            "receipt": _receipt(target),
            "versions": versions(),
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }


def left_behind(folder: Path, worker: str) -> Path | None:
    """Give a case that took its process down its own name; None if none did."""
    pending = folder / f"{PENDING}{worker}.safetensors"
    try:
        return pending.replace(folder / name_of(load(pending)))
    except (OSError, BadFixture):
        return None


@cache
def versions() -> dict[str, str]:
    """The interpreter's version, and those of the packages that matter, where they are installed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _failure(judge: Judge, question: str, case: Any) -> Exception | None:
    """How a case fails alone; None if it does not, or cannot be asked on a target that has lost its device."""
    ask = ask_of(question)
    if ask is None or judge.target.lost:
        return None
    try:
        ask(Judge(judge.target, judge.clauses, before=judge.before), case)
    except Differs as error:
        return error
    except Crashed as error:
        if what := lost_context(judge.target):  # from now on everything would seem to fail
            judge.target.lost = f"{what}, while a failure was repeated"
            return None
        return error
    except (NotJudged, Unsupported):
        return None
    return None


def _without_rest(error: Exception | None) -> str:
    return error.text if isinstance(error, Differs) else str(error)


def _receipt(target: Target) -> dict[str, Any]:
    try:
        return target.receipt()
    except Exception as error:  # after a lost context even that may fail
        return {"error": f"{type(error).__name__}: {error}"}


def _try_to_save(fixture: Fixture, path: Path) -> str:
    """Save, and say how large it is; "" if that cannot be, which must not take the verdict along."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(fixture, path)
    except (OSError, BadFixture):
        return ""
    size = path.stat().st_size
    return f"{size:,} bytes" if size < 10_240 else f"{size / 1024:,.0f} KiB"
