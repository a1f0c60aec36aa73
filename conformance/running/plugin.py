"""Define the gate's pytest options, the fixtures that judge, and the verdict of each test."""

from __future__ import annotations

import math
import time
from argparse import ArgumentTypeError
from collections.abc import Iterator

import pytest

from conformance.diagnosis.budget import MOST_SECONDS, SEARCHES
from conformance.diagnosis.engine import diagnose, in_full
from conformance.judge import Judge
from conformance.observe import lost_context
from conformance.profiles import PROFILES, Profile, derived_seed
from conformance.raised import told, writable
from conformance.remarks import remarks
from conformance.reports.gate import Gate
from conformance.reports.report import write
from conformance.reports.verdicts import EXIT_NOT_JUDGED
from conformance.reports.waivers import FILE, BadWaivers, Waiver, read_waivers
from conformance.running.accounts import Before, accounts, add, begin, since, watch_device
from conformance.running.collector import Collector
from conformance.running.keeping import forget, kept, watch
from conformance.running.pinning import architectures
from conformance.running.requiring import requirement, unmet
from conformance.running.selecting import asked_of, clauses_of, judges
from conformance.running.session import GATE, targets_of, use_exact_memory, where, worker_id
from conformance.targets.base import Target
from conformance.targets.taken import Unusable
from conformance.verdict import (
    CONFORMS,
    CRASHED,
    DIFFERS,
    NOT_JUDGED,
    UNSUPPORTED,
    Crashed,
    Differs,
    NotJudged,
    Unsupported,
)

JUDGE, BEFORE = pytest.StashKey[Judge](), pytest.StashKey[Before]()

VERDICTS = (
    (Unsupported, UNSUPPORTED),
    ((NotJudged, MemoryError, pytest.skip.Exception), NOT_JUDGED),
    (Differs, DIFFERS),
    (Crashed, CRASHED),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the gate's options."""
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
        type=requirement,
        default=[],
        metavar="WHAT",
        help="cuda, sm_100, a capability, or a range of versions such as 'vllm>=0.33,<0.34', without which the run is "
        "red; may repeat",
    )
    group.addoption(
        "--waivers", metavar="FILE", help=f"what may stand unjudged for now ({FILE}, if there is such a file)"
    )
    group.addoption(
        "--exact-memory",
        action="store_true",
        help="end each allocation where its array ends, and use no memory pool: for runs under compute-sanitizer",
    )
    group.addoption(
        "--explain",
        type=_seconds,
        default=MOST_SECONDS,
        metavar="S",
        help=f"for how long each process looks for known faults that explain what differs ({MOST_SECONDS:g}); 0: never",
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise ArgumentTypeError(f"--explain is {text!r}; allowed is a number of seconds from 0 on")
    return seconds


def pytest_configure(config: pytest.Config) -> None:
    """Find the targets and start the report. Raises UsageError if an option is wrong, before anything runs."""
    config.addinivalue_line("markers", "clause(id, ...): the clauses of SPEC.md that a test judges")
    config.addinivalue_line("markers", "unsanitized: too large for compute-sanitizer, or about what runs at a time")
    config.addinivalue_line("markers", "nightly: a test of the suite itself that profile quick leaves out")
    config.addinivalue_line("markers", "heavy: one of the longest tests, which start first if there are workers")
    config.addinivalue_line("markers", "roomy: takes more of a device's memory than usual (Target.usual_device_bytes)")
    config.addinivalue_line("markers", "long: left out in profile quick for a target that is slow")
    if config.getoption("--exact-memory"):
        use_exact_memory(targets_of(config).values())
    SEARCHES.most = config.getoption("--explain")
    config.stash[GATE] = Gate(
        config.getoption("--seed"),
        config.getoption("--profile"),
        tuple(targets_of(config)),
        config.getoption("--shard"),
        partial_ok=config.getoption("--partial-ok"),
        waivers=_waivers(config),
        required=tuple(config.getoption("--require")),
    )
    if hasattr(config, "workerinput"):
        return
    if config.option.collectonly:
        return
    config.pluginmanager.register(Collector(config), "conformance-collector")
    if folder := config.getoption("--report-dir"):
        try:
            write(config.stash[GATE], folder)  # says "not judged" until the run is over, whatever ends it
        except OSError as error:
            raise pytest.UsageError(
                f"--report-dir is {str(folder)!r}, where no report can be written: {error}"
            ) from error


def _waivers(config: pytest.Config) -> tuple[Waiver, ...]:
    named = config.getoption("--waivers")
    path = config.invocation_params.dir / named if named else config.rootpath / FILE
    if not named and not path.exists():
        return ()
    try:
        return read_waivers(path)
    except BadWaivers as error:
        raise pytest.UsageError(str(error)) from error


def pytest_sessionstart(session: pytest.Session) -> None:
    """End the run with EXIT_NOT_JUDGED if --require is not met. Raises UsageError for an unusable target."""
    if hasattr(session.config, "workerinput"):
        return
    gate = session.config.stash[GATE]
    try:
        offers = [target.offers() for target in targets_of(session.config).values() if not target.unavailable()]
    except Unusable as reason:
        raise pytest.UsageError(str(reason)) from reason
    offered = {offer for each in offers for offer in each} | architectures(session.config)
    gate.unmet = tuple(filter(None, (unmet(wanted, offered) for wanted in gate.required)))
    if gate.unmet:
        if folder := session.config.getoption("--report-dir"):
            write(gate, folder)
        pytest.exit("\n".join(gate.unmet), returncode=EXIT_NOT_JUDGED)
    gate.seconds = -time.monotonic()


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Return lines on the profile, the seed, and where each target runs."""
    shard = config.getoption("--shard")
    part = f", shard {shard}" if shard else ""
    lines = [f"gate: profile {config.getoption('--profile')}, seed {config.getoption('--seed')}{part}"]
    return [*lines, *(f"target {name}: {where(target)}" for name, target in targets_of(config).items())]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that judges once for each target."""
    if "target" in metafunc.fixturenames:
        names = asked_of(metafunc.definition.name, metafunc.config.args, list(targets_of(metafunc.config)))
        metafunc.parametrize("target", names, indirect=True, scope="session")


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> Target:
    """Return the target under judgement. Raises NotJudged if it cannot run here."""
    found = targets_of(request.config)[request.param]
    reason = found.unavailable()
    if reason:
        raise NotJudged(reason)
    watch_device(request.config, request.param, found)
    return found


@pytest.fixture(scope="session")
def profile(request: pytest.FixtureRequest) -> Profile:
    """Return how much the run generates."""
    return PROFILES[request.config.getoption("--profile")]


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Return the test's seed, derived from its name and its parameters except the target. All targets have the same."""
    node = request.node
    parameters = [f"{name}={value}" for name, value in sorted(node.callspec.params.items()) if name != "target"]
    return derived_seed(request.config.getoption("--seed"), " ".join([node.originalname, *parameters]))


@pytest.fixture
def judge(target: Target, request: pytest.FixtureRequest) -> Judge:
    """Return a judge of the target that reports under the test's clauses. Raises NotJudged if the target is lost."""
    if target.lost:
        raise NotJudged(f"an earlier call has ruined this process's CUDA context: {target.lost}")
    judge = Judge(target, clauses_of(request.node))
    watch(judge, request.node)
    try:
        request.node.stash[BEFORE] = begin(target)
    except Unusable as reason:
        raise NotJudged(f"no receipt: {reason}") from reason
    request.node.stash[JUDGE] = judge
    return judge


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Count the search for known faults only over tests that judge. Other tests reset it."""
    if not judges(item):
        SEARCHES.seconds = 0.0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Turn the exception of a judging test into a verdict, and send it with the report."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if not judges(item) or (report.when != "call" and report.passed):
        return report  # type: ignore[return-value]
    error = call.excinfo.value if call.excinfo else None
    if isinstance(error, MemoryError):  # that no judge caught
        error = NotJudged(f"too little memory: {str(error) or 'the process has none left'}")
    judged = item.stash.get(JUDGE, None)
    calls, launches = 0, None
    if judged:
        calls, launches, error = _accounted(judged, item, error)
    verdict = _verdict(error)
    if verdict == CRASHED and judged and (what := lost_context(judged.target)):
        judged.target.lost = f"{what}, in {item.nodeid}"
    if verdict in (UNSUPPORTED, NOT_JUDGED):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, f"{verdict}: {error}")
    fixture, lines = "", remarks(error)
    if judged and isinstance(error, Differs | Crashed):
        fixture, more = kept(judged, item, verdict, error)
        lines += more
        report.longrepr = writable("\n  ".join([in_full(error), *lines]))
    if judged:
        if isinstance(error, Differs) and judged.asked:
            judged.count.add(0, 0)  # the case that differs was compared
        forget(judged, item)
        del item.stash[JUDGE]  # so that a failing teardown does not count the test again
        add(item.config, item.callspec.params["target"], judged, calls)  # type: ignore[attr-defined]
    outcome = {
        "test": item.nodeid,
        "target": item.callspec.params["target"],  # type: ignore[attr-defined]
        "clauses": clauses_of(item),
        "verdict": verdict,
        "message": "" if error is None else writable("\n  ".join([in_full(error), *lines])),
        "explained_by": diagnose(error).explained_by,
        "fixture": fixture,
        "worker": worker_id(item.config),
        "calls": calls,
        "launches": launches,
        **(vars(judged.count) if judged else {}),
    }
    report.user_properties = [*report.user_properties, *outcome.items()]
    return report  # type: ignore[return-value]


def _accounted(
    judge: Judge, item: pytest.Item, error: BaseException | None
) -> tuple[int, int | None, BaseException | None]:
    """Return a test's calls, launches and error. A test without a compared case or with wrong counts judged nothing."""
    try:
        calls, launches, wrong = since(item.stash[BEFORE], judge.target)
    except Exception as problem:
        return 0, None, error or Crashed(f"the target cannot say what it launched: {told(problem)}")
    if error is None and wrong:
        error = NotJudged(f"no receipt: {wrong}")
    if error is None and not judge.count.cases:
        error = NotJudged("the test compared no case")
    return calls, launches, error


def _verdict(error: BaseException | None) -> str:
    if error is None:
        return CONFORMS
    # Another exception is a defect of the suite or of the target's set-up: never a pass.
    return next((verdict for kind, verdict in VERDICTS if isinstance(error, kind)), CRASHED)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send a worker's counts and receipts to the reporting process."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["accounts"] = accounts(session.config)
