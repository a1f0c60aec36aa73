"""Collect outcomes and receipts of all workers in the reporting process, and write the verdict of the run."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from conformance.bindings import clauses_binding, runs_not_binding
from conformance.reports.receipts import Account
from conformance.reports.report import as_json, declarations_line, target_line, write
from conformance.reports.selection import Selection
from conformance.reports.verdicts import Outcome
from conformance.reports.waivers import RECEIPT
from conformance.running.accounts import accounts
from conformance.running.keeping import left_behind
from conformance.running.selecting import GATE_FOLDER, SELECTION
from conformance.running.session import GATE, targets_of, where
from conformance.spec import SPEC, in_short
from conformance.verdict import CRASHED


class Collector:
    """Collect the outcomes of all workers in the reporting process."""

    def __init__(self, config: pytest.Config) -> None:
        """Take the configuration of the reporting process."""
        self.config, self.gate = config, config.stash[GATE]
        self.gate.repeat = _repeat(config)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the outcome in a report."""
        told = dict(report.user_properties)
        if "verdict" in told:
            for listed in ("clauses", "explained_by", "left_out"):  # which xdist sends as lists
                told[listed] = tuple(told.get(listed, ()))  # type: ignore[arg-type]
            self.gate.outcomes.append(Outcome(**told))  # type: ignore[arg-type]
        elif report.failed:
            self._note_crash(report)

    def _note_crash(self, report: pytest.TestReport) -> None:
        # A worker that died tells nothing of the test it died in, but xdist reports it in the worker's stead.
        node, name = getattr(report, "node", None), judged_by(report.nodeid, targets_of(self.config))
        worker = node.gateway.id if node else ""
        fixture = left_behind(self.config, worker) if node else None
        if name is None:
            return
        if fixture:
            again = f"python -m conformance replay {fixture} --target {name}"
            report.longrepr = f"{report.longrepr}\n  fixture  {fixture}\n  replay   {again}"
        outcome = Outcome(
            report.nodeid,
            name,
            clauses=tuple(getattr(report, "clauses", ())),
            verdict=CRASHED,
            message=str(report.longrepr),
            fixture=str(fixture or ""),
            worker=worker,
        )
        self.gate.outcomes.append(outcome)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Record the tests of the gate, in case no worker lives to send its selection."""
        folder, names = f"{GATE_FOLDER.relative_to(SPEC.parent)}/", targets_of(self.config)
        if self.gate.selection is None:
            self.gate.selection = Selection(tuple(test for test in ids if folder in test and judged_by(test, names)))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Receive a worker's accounts and its selection."""
        told = getattr(node, "workeroutput", {})
        self._receive(told.get("accounts", []))
        if "selection" in told:
            self.gate.selection = Selection.heard(told["selection"])

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the reports, and make the exit code red if something was not judged."""
        self.gate.exit_status = int(exitstatus)
        self.gate.seconds += time.monotonic()
        if self.gate.selection is None:
            self.gate.selection = self.config.stash.get(SELECTION, None)
        if not self.gate.asked or self.gate.unmet:
            return
        if SELECTION in self.config.stash:  # this process has judged
            self._receive(accounts(self.config))
        session.exitstatus = self.gate.exit_code(int(exitstatus))
        folder = self.config.getoption("--report-dir")
        if folder:
            write(self.gate, folder)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the verdict of each target, and how to repeat the run."""
        if not self.gate.asked:
            return
        report = as_json(self.gate)
        terminalreporter.section(f"gate: {report['verdict']}{_part_of(report)}")
        for target in report["targets"]:
            for line in self._lines(target):
                terminalreporter.write_line(line)
        for waiver in report["waivers"]:
            if waiver["state"] == "used":
                what = f"{waiver['tests']} tests" if waiver["clause"] != RECEIPT else "receipts that do not add up"
                terminalreporter.write_line(
                    f"waiver {waiver['number']} lets {what} stand until {waiver['expires']}: "
                    f"{waiver['reason']} ({waiver['link']})"
                )
        for reason in report["reasons"]:
            terminalreporter.write_line(f"not green: {reason}")
        if report["partial_ok"] and report["partial"]:
            terminalreporter.write_line("\n".join(report["partial"]))
        terminalreporter.write_line(f"repeat: {self.gate.repeat}")

    def _lines(self, told: dict[str, Any]) -> Iterator[str]:
        name = told["name"]
        target = targets_of(self.config)[name]
        yield f"target {name}: {where(target)}"
        yield f"  {target_line(told)}"
        yield from (f"  {line}" for line in filter(None, [declarations_line(told)]))
        if unbound := runs_not_binding(target):
            yield f"  what does not bind it: {', '.join(unbound)}"
        spared = self.gate.selection.spared if self.gate.selection else ()
        if count := sum(judged_by(test, targets_of(self.config)) == name for test in spared):
            yield f"  it is slow: profile quick leaves out {count} tests that are marked long"
        for verdict, reason, tests in self.gate.unjudged(name):
            yield f"  {verdict}: {reason}: {len(tests)} tests, such as {tests[0]}"
        judged = {clause["id"] for clause in told["clauses"]}
        if left := [clause for clause in clauses_binding(target) if clause not in judged]:
            yield f"  {len(left)} clauses not asked for: {in_short(left)}"
        for feature, count in self.gate.left_out(name):
            yield f"  left out of the cases of {count} random tests, since other tests show it broken: {feature}"
        for fault, count, total in self.gate.common_faults(name):
            yield f"  fault {fault} explains exactly {count} of {total} tests that differ"

    def _receive(self, told: list[dict[str, Any]]) -> None:
        self.gate.accounts += [Account(**each) for each in told]


def judged_by(test: str, names: Iterable[str]) -> str | None:
    """Return the target of a test, by its id, or None if it judges no target. The longest matching name counts."""
    _, _, parameters = test.partition("[")
    return max((name for name in names if parameters.startswith((f"{name}-", f"{name}]"))), key=len, default=None)


def _part_of(report: dict[str, Any]) -> str:
    words = [f"shard {report['shard']['index']} of {report['shard']['of']}"] if report["shard"] else []
    words += ["a part of the gate"] if report["partial"] else []
    return f" ({', '.join(words)})" if words else ""


def _repeat(config: pytest.Config) -> str:
    """Return the command that repeats the run: selection, targets, seed and options."""
    option = config.getoption
    selected = [*(str(arg) for arg in config.args), *_told("-k", option("-k")), *_told("-m", option("-m"))]
    targets = [word for name in targets_of(config) for word in ("--target", name)]
    begun = option("--round") if option("--round") > 1 else None
    more = [word for wanted in option("--require") for word in ("--require", wanted)]
    more += [*_told("--waivers", option("--waivers")), *_told("--shard", option("--shard"))]
    more += [*_told("--minutes", option("--minutes")), *_told("--round", begun)]
    more += ["--partial-ok"] if option("--partial-ok") else []
    asked = ["--profile", option("--profile"), "--seed", str(option("--seed"))]
    return shlex.join(["python", "-m", "pytest", *selected, *targets, *asked, *more])


def _told(option: str, value: Any) -> list[str]:
    return [option, str(value)] if value else []
