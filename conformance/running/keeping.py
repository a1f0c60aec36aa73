"""Write failing cases to --dump-dir and name the files in the report."""

from __future__ import annotations

import os
import time
from argparse import ArgumentTypeError
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conformance.judge import Judge
from conformance.running.session import worker_id

if TYPE_CHECKING:
    from conformance.replaying.dumps import Dumps

FOLDER, MOST = "fixtures/dumps", 32
DUMPS = pytest.StashKey["Dumps"]()
SINCE = pytest.StashKey[float]()
LEFT = pytest.StashKey[Path | None]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of dumps."""
    group = parser.getgroup("conformance", "NVFP4 MLA conformance")
    group.addoption(
        "--dump-dir",
        default=FOLDER,
        metavar="DIR",
        help=f"where to write a fixture for each failure ({FOLDER}); an empty name writes none",
    )
    group.addoption(
        "--dump-limit",
        type=_limit,
        default=MOST,
        metavar="N",
        help=f"fixtures that a run writes ({MOST}), at most an eighth of them, and at least one, of one clause",
    )


def _limit(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"--dump-limit is {text!r}; allowed is a whole number from 0 on")
    return int(text)


def pytest_configure(config: pytest.Config) -> None:
    """Record when the run began. Files of earlier runs are older."""
    config.stash[SINCE] = getattr(config, "workerinput", {}).get("dumps_since", time.time())
    if not hasattr(config, "workerinput"):
        _must_be_a_folder(config)
        config.stash[LEFT] = left_behind(config, "main")


def _must_be_a_folder(config: pytest.Config) -> None:
    named = config.getoption("--dump-dir")
    in_the_way = [each for each in (_folder(config), *_folder(config).parents) if each.exists() and not each.is_dir()]
    if named and in_the_way:
        raise pytest.UsageError(f"--dump-dir is {named!r}, but {str(in_the_way[0])!r} is a file; allowed is a folder")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send a worker the time at which the run began."""
    node.workerinput["dumps_since"] = node.config.stash[SINCE]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Name the fixture of a case that killed an earlier run with one process."""
    path = config.stash.get(LEFT, None)
    if path:
        terminalreporter.write_line(f"fixture {path}: left by an earlier run, which died of it")


def dumps_of(config: pytest.Config) -> Dumps | None:
    """Return this process's dumps, or None if --dump-dir is empty."""
    if not config.getoption("--dump-dir"):
        return None
    if DUMPS not in config.stash:
        from conformance.replaying.dumps import Dumps  # which imports most of the suite

        config.stash[DUMPS] = Dumps(
            _folder(config),
            config.getoption("--dump-limit"),
            worker_id(config),
            config.stash[SINCE],
            {"seed": config.getoption("--seed"), "gate_profile": config.getoption("--profile")},
        )
    return config.stash[DUMPS]


def watch(judge: Judge, item: pytest.Item) -> None:
    """Write each case before its call, if the target may kill the process."""
    dumps = dumps_of(item.config) if judge.target.crash_prone else None
    if dumps:
        judge.before = dumps.before(judge, *_asked(item))


def kept(judge: Judge, item: pytest.Item, verdict: str, error: BaseException) -> tuple[str, list[str]]:
    """Write a fixture of a failure. Return its file, or "", and lines on it."""
    dumps = dumps_of(item.config)
    if not dumps or not isinstance(error, Exception):
        return "", []
    try:
        path, lines = dumps.keep(judge, *_asked(item), verdict, error)
    except Exception as problem:  # which must not take the verdict along
        return "", [f"no fixture: {type(problem).__name__}: {problem}"]
    return str(path or ""), lines


def forget(judge: Judge, item: pytest.Item) -> None:
    """Discard the case that was written before the call, since the test has returned."""
    dumps = dumps_of(item.config) if judge.before else None
    if dumps:
        dumps.forget()


def left_behind(config: pytest.Config, worker: str) -> Path | None:
    """Return the fixture of the case that killed a worker, or None."""
    if not config.getoption("--dump-dir") or not _folder(config).is_dir():
        return None
    from conformance.replaying.dumps import left_behind as found

    return found(_folder(config), worker)


def _asked(item: pytest.Item) -> tuple[str, str]:
    """Return a test's id, and the name of its target in --target."""
    return item.nodeid, item.callspec.params["target"]  # type: ignore[attr-defined]


def _folder(config: pytest.Config) -> Path:
    folder = config.rootpath / config.getoption("--dump-dir")
    return Path(os.path.relpath(folder)) if folder.is_relative_to(Path.cwd()) else folder
