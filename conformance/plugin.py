"""The pytest side of the gate: options, the fixtures that judge, and the verdict of the run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.judge import Crashed, Differs, Judge, NotJudged, Unsupported
from conformance.profiles import PROFILES, Profile, derived_seed
from conformance.report import summary_line, write
from conformance.spec import clauses
from conformance.targets.base import Target
from conformance.targets.registry import UnknownTarget, find, resolve
from conformance.verdicts import CONFORMS, CRASHED, DIFFERS, EXIT_NOT_JUDGED, NOT_JUDGED, UNSUPPORTED, Gate, Outcome

GATE = pytest.StashKey[Gate]()
TARGETS = pytest.StashKey[dict[str, Target]]()
JUDGE = pytest.StashKey[Judge]()

VERDICTS = ((Unsupported, UNSUPPORTED), (NotJudged, NOT_JUDGED), (Differs, DIFFERS), (Crashed, CRASHED))


def pytest_addoption(parser: pytest.Parser) -> None:
    """The gate's options."""
    group = parser.getgroup("conformance", "NVFP4 MLA conformance")
    group.addoption(
        "--target",
        action="append",
        metavar="T",
        help="what to judge: auto (the default: cuda if a device is visible, else host), host, cuda, numpy, torch, "
        "host:DIR or package.module:Class; may repeat",
    )
    group.addoption("--profile", choices=PROFILES, default="quick", help="how much to generate")
    group.addoption("--seed", type=int, default=0, metavar="N", help="the master seed of all generated cases")
    group.addoption(
        "--require",
        action="append",
        default=[],
        metavar="WHAT",
        help="cuda, sm_100 or a capability, without which the run is red; may repeat",
    )
    group.addoption("--report-dir", type=Path, metavar="DIR", help="where to write gate.json and gate.md")


def pytest_configure(config: pytest.Config) -> None:
    """Find the targets, so that a wrong name is a usage error before anything runs."""
    config.addinivalue_line("markers", "clause(id, ...): the clauses of SPEC.md that a test judges")
    names = list(dict.fromkeys(resolve(name) for name in config.getoption("--target") or ["auto"]))
    try:
        config.stash[TARGETS] = {name: find(name) for name in names}
    except UnknownTarget as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[GATE] = Gate(config.getoption("--seed"), config.getoption("--profile"))
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Collector(config), "conformance-collector")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Stop, red, if what --require asks for is not there."""
    if hasattr(session.config, "workerinput"):
        return
    session.config.stash[GATE].seconds = -time.monotonic()
    offers = [target.offers() for target in session.config.stash[TARGETS].values() if not target.unavailable()]
    for wanted in session.config.getoption("--require"):
        if not any(wanted in offered for offered in offers):
            there = ", ".join(sorted({offer for offered in offers for offer in offered})) or "nothing"
            pytest.exit(f"--require {wanted}: not there. Available: {there}", returncode=EXIT_NOT_JUDGED)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Which target runs where, and what it takes to repeat the run."""
    lines = [f"gate: profile {config.getoption('--profile')}, seed {config.getoption('--seed')}"]
    return [*lines, *(f"target {name}: {_where(target)}" for name, target in config.stash[TARGETS].items())]


def _where(target: Target) -> str:
    reason = target.unavailable()
    return f"not judged: {reason}" if reason else target.describe()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test that judges runs once for each target."""
    if "target" in metafunc.fixturenames:
        targets = metafunc.config.stash[TARGETS]
        metafunc.parametrize("target", list(targets), indirect=True, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test that names no clause, or one that SPEC.md does not have."""
    for item in items:
        named = _clauses(item)
        unknown = [clause for clause in named if clause not in clauses()]
        if unknown or ("target" in getattr(item, "fixturenames", ()) and not named):
            raise pytest.UsageError(f"{item.nodeid} is marked with clauses {named}; SPEC.md has {', '.join(clauses())}")


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> Target:
    """The target under judgement; not judged where it cannot run."""
    found = request.config.stash[TARGETS][request.param]
    reason = found.unavailable()
    if reason:
        raise NotJudged(reason)
    return found


@pytest.fixture(scope="session")
def profile(request: pytest.FixtureRequest) -> Profile:
    """How much to generate."""
    return PROFILES[request.config.getoption("--profile")]


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The test's own seed; it is the same for every target."""
    name = request.node.nodeid
    for target_name in request.config.stash[TARGETS]:
        name = name.replace(target_name, "")
    return derived_seed(request.config.getoption("--seed"), name)


@pytest.fixture
def judge(target: Target, request: pytest.FixtureRequest) -> Judge:
    """Judges cases in the name of the test's clauses."""
    judge = Judge(target, _clauses(request.node))
    request.node.stash[JUDGE] = judge
    return judge


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Turn what a judging test raised into a verdict, and send that along with the report."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if "target" not in getattr(item, "fixturenames", ()) or (report.when != "call" and report.passed):
        return report  # type: ignore[return-value]
    error = call.excinfo.value if call.excinfo else None
    verdict = _verdict(error)
    if isinstance(error, NotJudged | Unsupported):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, f"{verdict}: {error}")
    elif isinstance(error, Differs | Crashed):
        report.longrepr = str(error)
    count = item.stash[JUDGE].count if JUDGE in item.stash else None
    outcome = {
        "test": item.nodeid,
        "target": item.callspec.params["target"],  # type: ignore[attr-defined]
        "clauses": _clauses(item),
        "verdict": verdict,
        "message": "" if error is None else str(error),
        "explained_by": getattr(error, "explained_by", ()),
        **({} if count is None else vars(count)),
    }
    report.user_properties = [*report.user_properties, *outcome.items()]
    return report  # type: ignore[return-value]


def _verdict(error: BaseException | None) -> str:
    if error is None:
        return CONFORMS
    # Another exception is a defect of the suite or of the target's set-up: never a pass.
    return next((verdict for kind, verdict in VERDICTS if isinstance(error, kind)), CRASHED)


def _clauses(item: pytest.Item) -> tuple[str, ...]:
    return tuple(str(clause) for mark in item.iter_markers("clause") for clause in mark.args)


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

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over the receipts of a worker."""
        self._receive(getattr(node, "workeroutput", {}).get("receipts", {}))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the reports, and turn the exit code red if something was not judged."""
        if not self.gate.outcomes:
            return
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
            terminalreporter.write_line(f"target {name}: {_where(self.config.stash[TARGETS][name])}")
            terminalreporter.write_line(f"  {summary_line(self.gate, name)}")
            for verdict, reason, tests in self.gate.unjudged(name):
                terminalreporter.write_line(f"  {verdict}: {reason}: {len(tests)} tests, such as {tests[0]}")
            for fault in self.gate.common_faults(name):
                terminalreporter.write_line(f"  fault {fault} explains every wrong value, in all tests that saw one")
        args = " ".join(f"--target {name}" for name in self.gate.targets)
        terminalreporter.write_line(
            f"repeat: pytest conformance/gate {args} --profile {self.gate.profile} --seed {self.gate.seed}"
        )

    def _receive(self, receipts: dict[str, dict[str, Any]]) -> None:
        for name, receipt in receipts.items():
            self.gate.receipts.setdefault(name, []).append(receipt)


def receipts(config: pytest.Config) -> dict[str, dict[str, Any]]:
    """The receipts of the targets that this process could run."""
    return {name: target.receipt() for name, target in config.stash[TARGETS].items() if not target.unavailable()}


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker sends its receipts to the reporting process."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["receipts"] = receipts(session.config)
