"""Contain a target that kills its process, hangs, or destroys its CUDA context: it costs one test and no other."""

from __future__ import annotations

import concurrent.futures.thread
import faulthandler
import os
import subprocess
import sys
import threading
from argparse import ArgumentTypeError
from collections.abc import Iterator, Set
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from conformance.patience import PATIENCE
from conformance.reports.verdicts import EXIT_NOT_JUDGED
from conformance.running.accounts import accounts
from conformance.running.endings import how_it_ended
from conformance.running.selecting import GATE_FOLDER, clauses_of, judges
from conformance.running.session import GATE, targets_of
from conformance.targets.base import Target
from conformance.verdict import CRASHED, DIFFERS

SECONDS = 300.0
"""The default time limit of a case, in seconds."""

MOST_FRUITLESS = 3
"""The number of workers that may die in a row without a test between them. Further ones would die too."""

MOMENT = 5.0
"""The seconds that a process may take to end after it closed its pipes."""

ALONE = pytest.StashKey[bool]()
TRACES = pytest.StashKey[TemporaryDirectory[str]]()
CODE, THREADS = pytest.StashKey[int](), pytest.StashKey[Set[threading.Thread]]()
FRUITLESS, DIED_LAST = pytest.StashKey[int](), pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option --case-timeout."""
    group = parser.getgroup("conformance", "NVFP4 MLA conformance")
    group.addoption(
        "--case-timeout",
        type=_seconds,
        default=SECONDS,
        metavar="S",
        help=f"after how many seconds without an answer a case has crashed ({SECONDS:g}); 0: never",
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e6:
        raise ArgumentTypeError(f"--case-timeout is {text!r}; allowed is a number of seconds from 0 to 1,000,000")
    return seconds


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run a target that may die in a worker, and allow any number of replacements of workers."""
    config.stash[THREADS] = _threads()
    if hasattr(config, "workerinput") or not hasattr(config.option, "numprocesses"):
        return
    option = config.option
    if _asks_for_nothing_else(config) and any(_may_die(target) for target in targets_of(config).values()):
        option.numprocesses, option.dist, option.tx = 1, "load", ["popen"]
        config.stash[ALONE] = True
    if option.maxworkerrestart is None:
        option.maxworkerrestart = str(sys.maxsize)


def _asks_for_nothing_else(config: pytest.Config) -> bool:
    option = config.option
    if not any(_is_of_the_gate(argument) for argument in config.args):
        return False
    elsewhere = option.numprocesses is not None or option.dist != "no" or option.tx
    here = option.usepdb or option.trace or option.collectonly or config.getoption("--exact-memory")
    return not elsewhere and not here


def _is_of_the_gate(argument: str) -> bool:
    path = Path(argument.partition("::")[0]).resolve()
    return path == GATE_FOLDER or GATE_FOLDER in path.parents or path in GATE_FOLDER.parents


def _may_die(target: Target) -> bool:
    try:
        return (target.crash_prone or target.is_gpu_code) and not target.unavailable()
    except Exception:  # one that cannot even say so
        return True


@pytest.hookimpl(trylast=True)  # after pytest's own faulthandler, whose traces of signals go elsewhere
def pytest_configure(config: pytest.Config) -> None:
    """Set where faulthandler writes: a worker writes into a file, which the reporting process reads."""
    told = getattr(config, "workerinput", {})
    folder = Path(told.get("traces", ""))
    if told and folder.is_dir():  # not on another machine
        trace = os.open(_trace(folder, told["workerid"]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        faulthandler.enable(trace)
    else:
        trace = os.dup(2)
    PATIENCE.limit(0 if config.option.usepdb or config.option.trace else config.getoption("--case-timeout"), trace)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send a worker the folder of traces, and whether others take over its tests. Stop if workers die without tests."""
    config = node.config
    if config.stash.get(FRUITLESS, 0) >= MOST_FRUITLESS:
        _give_up(config)
    if TRACES not in config.stash:
        config.stash[TRACES] = TemporaryDirectory(prefix="conformance-")
    node.workerinput["traces"] = config.stash[TRACES].name
    node.workerinput["may_retire"] = config.option.dist == "load"


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the traces, and do not wait for threads of a target that do not end."""
    PATIENCE.end()
    if TRACES in config.stash:
        config.stash[TRACES].cleanup()
    if CODE in config.stash and (left := [each for each in _threads() - config.stash[THREADS] if _goes_on(each)]):
        names = ", ".join(sorted(each.name for each in left))
        print(f"gate: threads that a target has started do not end ({names}): the process ends without them")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(config.stash[CODE])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Record the exit code."""
    if not hasattr(session.config, "workerinput"):
        session.config.stash[CODE] = int(session.exitstatus)


def _threads() -> Set[threading.Thread]:
    """Return the threads that Python waits for at exit, except those of pools, which Python ends itself."""
    pooled = getattr(concurrent.futures.thread, "_threads_queues", {})
    others = {threading.main_thread(), *pooled}
    return {each for each in threading.enumerate() if not each.daemon and each not in others}


def _goes_on(thread: threading.Thread) -> bool:
    thread.join(MOMENT)
    return thread.is_alive()


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Return lines on settings that the gate changes or ignores."""
    lines = []
    if config.stash.get(ALONE, False):
        lines.append("gate: in a process of its own, as if by -n 1, which a crash may end (-n 0: in this one)")
    if float(config.getini("faulthandler_timeout") or 0) and config.getoption("--case-timeout"):
        lines.append("gate: faulthandler_timeout does not count in a test that judges: --case-timeout does")
    return lines


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return a scheduler for --dist load that lets a worker leave."""
    if config.getoption("dist") != "load":
        return None
    from conformance.running.scheduling import ContainingScheduling

    return ContainingScheduling(config, log)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """End a process whose CUDA context is lost, before its next test."""
    if _retires(item.config):
        os._exit(0)  # all that it had to say has been sent, and CUDA's own way out may hang
    try:
        return (yield)
    finally:
        PATIENCE.end()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Limit the time of a judging test, case by case, until its report."""
    if judges(item):
        PATIENCE.begin()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Add the test's clauses to the report, since the process may die, and the accounts if this is its last test."""
    report: Any = yield
    if judges(item):
        report.clauses = clauses_of(item)
        report.farewell = accounts(item.config) if _retires(item.config) else None
    return report  # type: ignore[no-any-return]


def _retires(config: pytest.Config) -> bool:
    """Return whether this process is a worker that can judge no more, and whose tests others take over."""
    may = getattr(config, "workerinput", {}).get("may_retire", False)
    return may and any(target.lost for target in targets_of(config).values())


def pytest_runtest_logreport(report: Any) -> None:
    """Receive the clauses and the last accounts of a worker."""
    node = getattr(report, "node", None)
    if node is None:
        return
    node.config.stash[FRUITLESS] = 0
    node.clauses_of = {report.nodeid: getattr(report, "clauses", ())}
    if getattr(report, "farewell", None) is not None:
        node.retires, node.workeroutput = report.nodeid, {"accounts": report.farewell}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Count the workers that died since the last report of a test."""
    if error:
        node.config.stash[FRUITLESS] = node.config.stash.get(FRUITLESS, 0) + 1
        node.config.stash[DIED_LAST] = node


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: Any) -> None:
    """Add the cause of death to the report, and make -x and --maxfail count it."""
    node = report.node
    report.clauses = getattr(node, "clauses_of", {}).get(crashitem, ())
    report.longrepr = f"worker {node.gateway.id!r} crashed while running {crashitem!r}: {_ending(node)}"
    node.config.pluginmanager.getplugin("dsession")._handlefailures(report)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    """End a run by -x and --maxfail with the same exit status with and without workers. Raises session.Failed."""
    try:
        return (yield)
    except KeyboardInterrupt as stopped:
        if not str(stopped).startswith("stopping after "):
            raise
        session.shouldfail = str(stopped)
        raise session.Failed(session.shouldfail) from stopped


def _give_up(config: pytest.Config) -> None:
    red = any(outcome.verdict in (DIFFERS, CRASHED) for outcome in config.stash[GATE].outcomes)
    status = pytest.ExitCode.INTERRUPTED if red else EXIT_NOT_JUDGED
    died = f"{MOST_FRUITLESS} workers in a row died without a test between them"
    pytest.exit(f"{died}; of the last one: {_ending(config.stash[DIED_LAST])}", returncode=status)


def _ending(node: Any) -> str:
    traces, limit = Path(node.workerinput["traces"]), node.config.getoption("--case-timeout")
    trace = _trace(traces, node.gateway.id)
    said = trace.read_text(errors="replace") if trace.exists() else ""
    return how_it_ended(_status(node), said, limit)


def _status(node: Any) -> int | None:
    """Return the exit status of a worker's process. None on another machine, or if it is still ending."""
    process: subprocess.Popen[bytes] | None = getattr(node.gateway._io, "popen", None)
    try:
        return process.wait(MOMENT) if process else None
    except subprocess.TimeoutExpired:
        return None


def _trace(folder: Path, worker: str) -> Path:
    return folder / f"{worker}.txt"
