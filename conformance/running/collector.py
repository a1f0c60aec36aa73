"""The verdict of a run: outcomes and receipts, which come from all workers to the one process that reports."""

from __future__ import annotations

import time
from typing import Any

import pytest

from conformance.reports.report import summary_line, write
from conformance.reports.verdicts import CRASHED, Outcome
from conformance.running.keeping import left_behind
from conformance.running.session import GATE, binds, receipts, targets_of, where
from conformance.spec import clauses, in_short
from conformance.targets.base import Target

PARTS = (
    ("DEVICE", "no GPU code"),
    ("WRITE", "no write.*"),
    ("TWIN-1 to TWIN-4", "no gather.fp8"),
    ("TWIN-5 to TWIN-9", "no gather.generic"),
    ("PLAN", "no plan"),
    ("MERGE", "no merge"),
    ("ATTEND-2 to ATTEND-6", "no attend"),
    ("SERVE", "no serve.*"),
)
"""The chapters, and runs of clauses, that do not bind every target, and what one then lacks."""


class Collector:
    """Gathers the outcomes, which come from all workers to the one process that reports."""

    def __init__(self, config: pytest.Config) -> None:
        """`config` is that of the reporting process."""
        self.config, self.gate = config, config.stash[GATE]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome that a report carries."""
        told = dict(report.user_properties)
        if "verdict" in told:
            for listed in ("clauses", "explained_by"):  # which xdist sends as lists
                told[listed] = tuple(told[listed])  # type: ignore[arg-type]
            self.gate.outcomes.append(Outcome(**told))  # type: ignore[arg-type]
        elif report.failed:
            self._note_crash(report)

    def _note_crash(self, report: pytest.TestReport) -> None:
        # A worker that died tells nothing of the test it died in, but xdist reports it in the worker's stead.
        _, _, parameters = report.nodeid.partition("[")
        worker = getattr(report, "node", None)
        fixture = left_behind(self.config, worker.gateway.id) if worker else None
        for name in targets_of(self.config):
            if parameters.startswith((f"{name}-", f"{name}]")):
                message = str(report.longrepr)
                if fixture:
                    again = f"python -m conformance replay {fixture} --target {name}"
                    report.longrepr = message = f"{message}\n  fixture  {fixture}\n  replay   {again}"
                outcome = Outcome(report.nodeid, name, (), CRASHED, message=message, fixture=str(fixture or ""))
                self.gate.outcomes.append(outcome)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over the receipts of a worker."""
        self._receive(getattr(node, "workeroutput", {}).get("receipts", {}))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the reports, and turn the exit code red if something was not judged."""
        if not self.gate.outcomes:
            return
        self.gate.exit_status = int(exitstatus)
        self.gate.seconds += time.monotonic()
        self._receive(receipts(self.config))
        session.exitstatus = self.gate.exit_code(int(exitstatus))
        folder = self.config.getoption("--report-dir")
        if folder:
            write(self.gate, folder)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say the verdict, target by target, and how to repeat the run."""
        if not self.gate.outcomes:
            return
        terminalreporter.section(f"gate: {self.gate.verdict}")
        for name in self.gate.targets:
            terminalreporter.write_line(f"target {name}: {where(targets_of(self.config)[name])}")
            terminalreporter.write_line(f"  {summary_line(self.gate, name)}")
            if unbound := _unbound(targets_of(self.config)[name]):
                terminalreporter.write_line(f"  what does not bind it: {', '.join(unbound)}")
            if targets_of(self.config)[name].slow and self.gate.profile == "quick":
                terminalreporter.write_line("  it is slow: profile quick leaves out what is marked long")
            for verdict, reason, tests in self.gate.unjudged(name):
                terminalreporter.write_line(f"  {verdict}: {reason}: {len(tests)} tests, such as {tests[0]}")
            judged = {clause for outcome in self.gate.of(name) for clause in outcome.clauses}
            target = targets_of(self.config)[name]
            asked = [clause for clause in clauses() if not clause.startswith("SCALAR") and binds(clause, target)]
            left = [clause for clause in asked if clause not in judged]
            if left:
                terminalreporter.write_line(
                    f"  a part of the gate: {len(left)} clauses not asked for: {in_short(left)}"
                )
            for fault, count, total in self.gate.common_faults(name):
                terminalreporter.write_line(f"  fault {fault} explains exactly {count} of {total} tests that differ")
        args = " ".join(f"--target {name}" for name in self.gate.targets)
        terminalreporter.write_line(
            f"repeat: python -m pytest conformance/gate {args} --profile {self.gate.profile} --seed {self.gate.seed}"
        )

    def _receive(self, receipts: dict[str, dict[str, Any]]) -> None:
        for name, receipt in receipts.items():
            self.gate.receipts.setdefault(name, []).append(receipt)


def _unbound(target: Target) -> list[str]:
    return [f"{part} ({lacking})" for part, lacking in PARTS if not any(binds(clause, target) for clause in _of(part))]


def _of(part: str) -> list[str]:
    first, _, last = part.partition(" to ")
    if last:
        return list(clauses()[clauses().index(first) : clauses().index(last) + 1])
    return [clause for clause in clauses() if clause.startswith(f"{part}-")]
