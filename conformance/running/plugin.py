"""The pytest side of the gate: options, the fixtures that judge, and the verdict of the run."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.device_operations import OPERATIONS
from conformance.judge import SEARCHES, Crashed, Differs, Judge, NotJudged, Unsupported
from conformance.observe import lost_context
from conformance.profiles import PROFILES, Profile, derived_seed
from conformance.reports.report import write
from conformance.reports.verdicts import CONFORMS, CRASHED, DIFFERS, EXIT_NOT_JUDGED, NOT_JUDGED, UNSUPPORTED, Gate
from conformance.running.collector import Collector
from conformance.running.keeping import forget, kept, watch
from conformance.running.session import GATE, binds, claims, receipts, targets_of, use_exact_memory, where, writes
from conformance.spec import clauses
from conformance.targets.base import GATHER, GATHERS, Target

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
    group.addoption(
        "--exact-memory",
        action="store_true",
        help="end each allocation where its array ends, and use no memory pool: for runs under compute-sanitizer",
    )
    group.addoption("--report-dir", type=Path, metavar="DIR", help="where to write gate.json and gate.md")


def pytest_configure(config: pytest.Config) -> None:
    """Find the targets, so that a wrong name is a usage error before anything runs."""
    config.addinivalue_line("markers", "clause(id, ...): the clauses of SPEC.md that a test judges")
    config.addinivalue_line("markers", "unsanitized: too large for compute-sanitizer, or about what runs at a time")
    config.addinivalue_line("markers", "nightly: a test of the suite itself that profile quick leaves out")
    config.addinivalue_line("markers", "long: left out in profile quick for a target that is slow")
    if config.getoption("--exact-memory"):
        use_exact_memory(targets_of(config).values())
    targets_of(config)
    config.stash[GATE] = Gate(config.getoption("--seed"), config.getoption("--profile"))
    if hasattr(config, "workerinput"):
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # the workers share the cores already
        return
    config.pluginmanager.register(Collector(config), "conformance-collector")
    if folder := config.getoption("--report-dir"):
        try:
            write(config.stash[GATE], folder)  # says "not judged" until the run is over, whatever ends it
        except OSError as error:
            raise pytest.UsageError(
                f"--report-dir is {str(folder)!r}, where no report can be written: {error}"
            ) from error


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Keep `-n auto` from starting a worker for each core on a machine whose GPU they would all share."""
    bounds = [target.most_workers for target in targets_of(config).values() if target.most_workers]
    return min(*bounds, os.cpu_count() or 1) if bounds else None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Stop, red, if what --require asks for is not there."""
    if hasattr(session.config, "workerinput"):
        return
    session.config.stash[GATE].seconds = -time.monotonic()
    offers = [target.offers() for target in targets_of(session.config).values() if not target.unavailable()]
    for wanted in session.config.getoption("--require"):
        if not any(wanted in offered for offered in offers):
            there = ", ".join(sorted({offer for offered in offers for offer in offered})) or "nothing"
            pytest.exit(f"--require {wanted}: not there. Available: {there}", returncode=EXIT_NOT_JUDGED)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Which target runs where, and what it takes to repeat the run."""
    lines = [f"gate: profile {config.getoption('--profile')}, seed {config.getoption('--seed')}"]
    return [*lines, *(f"target {name}: {where(target)}" for name, target in targets_of(config).items())]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test that judges runs once for each target."""
    if "target" in metafunc.fixturenames:
        targets = targets_of(metafunc.config)
        metafunc.parametrize("target", list(targets), indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse a test that names no clause, or one that SPEC.md does not have; leave out what does not bind a target."""
    items[:] = [item for item in items if _binds(item, targets_of(config))]
    for item in items:
        named = _clauses(item)
        unknown = [clause for clause in named if clause not in clauses()]
        if unknown or ("target" in getattr(item, "fixturenames", ()) and not named):
            raise pytest.UsageError(f"{item.nodeid} is marked with clauses {named}; SPEC.md has {', '.join(clauses())}")


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> Target:
    """The target under judgement; not judged where it cannot run."""
    found = targets_of(request.config)[request.param]
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
    """The test's own seed, from its name and its parameters but for the target: the same for every target."""
    node = request.node
    parameters = [f"{name}={value}" for name, value in sorted(node.callspec.params.items()) if name != "target"]
    return derived_seed(request.config.getoption("--seed"), " ".join([node.originalname, *parameters]))


@pytest.fixture
def judge(target: Target, request: pytest.FixtureRequest) -> Judge:
    """Judges cases in the name of the test's clauses."""
    if target.lost:
        raise NotJudged(f"an earlier call has ruined this process's CUDA context: {target.lost}")
    judge = Judge(target, _clauses(request.node))
    watch(judge, request.node)
    request.node.stash[JUDGE] = judge
    return judge


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What looking for known faults takes is counted over the tests that judge, not over those of the suite."""
    if "target" not in getattr(item, "fixturenames", ()):
        SEARCHES.seconds = 0.0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Turn what a judging test raised into a verdict, and send that along with the report."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if "target" not in getattr(item, "fixturenames", ()) or (report.when != "call" and report.passed):
        return report  # type: ignore[return-value]
    error = call.excinfo.value if call.excinfo else None
    verdict = _verdict(error)
    if verdict == CRASHED and JUDGE in item.stash:
        target = item.stash[JUDGE].target
        if what := lost_context(target):
            target.lost = f"{what}, in {item.nodeid}"
    if isinstance(error, NotJudged | Unsupported):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, f"{verdict}: {error}")
    judged = item.stash.get(JUDGE, None)
    fixture, lines = "", list[str]()
    if judged and isinstance(error, Differs | Crashed):
        fixture, lines = kept(judged, item, verdict, error)
        report.longrepr = "\n  ".join([str(error), *lines])
    if judged:
        forget(judged, item)
    outcome = {
        "test": item.nodeid,
        "target": item.callspec.params["target"],  # type: ignore[attr-defined]
        "clauses": _clauses(item),
        "verdict": verdict,
        "message": "" if error is None else "\n  ".join([str(error), *lines]),
        "explained_by": getattr(error, "explained_by", ()),
        "fixture": fixture,
        **(vars(judged.count) if judged else {}),
    }
    report.user_properties = [*report.user_properties, *outcome.items()]
    return report  # type: ignore[return-value]


def _verdict(error: BaseException | None) -> str:
    if error is None:
        return CONFORMS
    # Another exception is a defect of the suite or of the target's set-up: never a pass.
    return next((verdict for kind, verdict in VERDICTS if isinstance(error, kind)), CRASHED)


def _binds(item: pytest.Item, targets: dict[str, Target]) -> bool:
    if item.get_closest_marker("nightly") and item.config.getoption("--profile") == "quick":
        return False
    if "target" not in getattr(item, "fixturenames", ()):
        return True
    parameters = item.callspec.params  # type: ignore[attr-defined]
    chosen = targets[parameters["target"]]
    if chosen.slow and item.get_closest_marker("long") and item.config.getoption("--profile") == "quick":
        return False
    form = parameters.get("kv_cache_dtype")
    if form is not None and not writes(chosen, form):
        return False
    gathered = parameters.get("gathered")
    if gathered not in (None, "nvfp4_ds_mla") and not claims(chosen, GATHERS[gathered][1]):
        return False
    if parameters.get("attended", "auto") not in chosen.attends:
        return False
    operation = OPERATIONS.get(parameters.get("operation"))
    if operation and operation.claims != GATHER and not claims(chosen, operation.claims):
        return False
    named = _clauses(item)
    operators = [clause for clause in named if not clause.startswith("SCALAR")]  # whose numbers those are
    return not named or any(binds(clause, chosen) for clause in operators or named)


def _clauses(item: pytest.Item) -> tuple[str, ...]:
    return tuple(str(clause) for mark in item.iter_markers("clause") for clause in mark.args)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker sends its receipts to the reporting process."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["receipts"] = receipts(session.config)
