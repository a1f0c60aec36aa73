"""Show the progress of a run of the gate in one line, rewritten on a terminal and repeated in a log."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pytest

from conformance.reports.progress import Progress
from conformance.reports.verdicts import Outcome
from conformance.running.session import GATE
from conformance.verdict import CONFORMS, CRASHED, DIFFERS

GATE_TESTS = "conformance/gate/"
REWRITTEN_EVERY, WRITTEN_EVERY = 0.25, 30.0
MOST_NAMED = 20
"""The number of nonconforming tests that are named at once. The summary names all of them."""


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the progress line in the reporting process. With -v pytest itself prints a line for each test."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter and not hasattr(config, "workerinput") and config.option.verbose <= 0:
        config.pluginmanager.register(Shown(config, reporter), "conformance-progress")


class Shown:
    """Show progress instead of pytest's dots if all tests are of the gate."""

    def __init__(self, config: pytest.Config, reporter: Any) -> None:
        """Take pytest's terminal reporter, which knows where lines begin."""
        self.gate, self.reporter = config.stash[GATE], reporter
        self.writer = config.get_terminal_writer()
        self.rewrites = bool(reporter.isatty) and os.environ.get("TERM") != "dumb"
        self.total = 0
        """The number of tests, while this object replaces the dots; else 0."""
        self.began = self.last = 0.0
        self.heard = 0
        self.tests: set[str] = set()
        self.cases = 0
        self.found: Counter[str] = Counter()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Start with the tests of a distributed run, as each worker names them."""
        self._begin(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Start with the tests of a run in one process."""
        if not session.config.option.collectonly:
            self._begin([item.nodeid for item in session.items])

    def _begin(self, tests: Sequence[str]) -> None:
        if not self.total and tests and all(test.startswith(GATE_TESTS) for test in tests):
            self.total, self.began = len(tests), time.monotonic()
            self.last = self.began
            self.reporter.showfspath = False

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self) -> Iterator[None]:
        """Count tests as pytest does, but print no letter for each."""
        status: Any = yield
        return (status[0], "", "") if self.total else status  # type: ignore[return-value]

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self) -> None:
        """Name the nonconforming tests since the last report, and show the progress."""
        new, self.heard = self.gate.outcomes[self.heard :], len(self.gate.outcomes)
        for outcome in new:
            self.tests.add(outcome.test)
            self.cases += outcome.cases
            if outcome.verdict != CONFORMS:
                self.found[outcome.verdict] += 1
                self._name(outcome)
        self._say()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logstart(self) -> None:
        """Show the progress, so that a log does not wait for the end of a long test."""
        self._say()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Show how far the run came."""
        if self.total:
            self._write(over=True)
            self.reporter.ensure_newline()
            self.total = 0  # the summary asks for the words again

    def _name(self, outcome: Outcome) -> None:
        count = self.found.total()
        if not self.total or count > MOST_NAMED + 1:
            return
        said = f"{outcome.verdict}  {outcome.test}" if count <= MOST_NAMED else "further ones are only counted"
        if self.rewrites:  # what stands there, be it xdist's, makes room
            self.writer.write_raw(f"\r{' ' * _columns()}\r")
            self.reporter.currentfspath = None
        self.reporter.write_line(said, **_colour([outcome.verdict]))
        self.reporter.flush()

    def _say(self) -> None:
        every = REWRITTEN_EVERY if self.rewrites else WRITTEN_EVERY
        if self.total and time.monotonic() - self.last >= every:
            self._write()

    def _write(self, over: bool = False) -> None:
        self.last = time.monotonic()
        seconds = self.last - self.began
        line = Progress(self.total, len(self.tests), self.cases, seconds, self.found).line(over)
        if not self.rewrites:
            self.reporter.write_line(line, **_colour(self.found))
            self.reporter.flush()
            return
        line, colour = line[: _columns()], _colour(self.found)
        # Past pytest's write(), which remembers all of a line that does not end.
        self.writer.write_raw(f"\r{self.writer.markup(line.ljust(_columns()), **colour)}", flush=True)
        self.reporter.currentfspath = -2  # so that whoever writes a line begins a new one


def _columns() -> int:
    return shutil.get_terminal_size().columns - 1  # the last one would make some terminals begin a new line


def _colour(verdicts: Collection[str]) -> dict[str, bool]:
    """Return the colour that pytest uses for passed, failed and skipped tests."""
    if not verdicts:
        return {"green": True}
    return {"red": True} if {DIFFERS, CRASHED} & set(verdicts) else {"yellow": True}
