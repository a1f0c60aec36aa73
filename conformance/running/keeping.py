"""The pytest side of dumps: where they go, and what a report says of them."""

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
    """The options of dumps."""
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
    """Note when the run began, which the files of other runs are older than."""
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
    """Tell a worker so."""
    node.workerinput["dumps_since"] = node.config.stash[SINCE]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say which case took an earlier run down that had one process."""
    path = config.stash.get(LEFT, None)
    if path:
        terminalreporter.write_line(f"fixture {path}: left by an earlier run, which died of it")


def dumps_of(config: pytest.Config) -> Dumps | None:
    """This process's dumps; None if there are to be none."""
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
    """Let each case be written before its call, if the target may take the process down."""
    dumps = dumps_of(item.config) if judge.target.crash_prone else None
    if dumps:
        judge.before = dumps.before(judge, *_asked(item))


def kept(judge: Judge, item: pytest.Item, verdict: str, error: BaseException) -> tuple[str, list[str]]:
    """Write a fixture of a failure: its file, or "", and lines on it."""
    dumps = dumps_of(item.config)
    if not dumps or not isinstance(error, Exception):
        return "", []
    try:
        path, lines = dumps.keep(judge, *_asked(item), verdict, error)
    except Exception as problem:  # which must not take the verdict along
        return "", [f"no fixture: {type(problem).__name__}: {problem}"]
    return str(path or ""), lines


def forget(judge: Judge, item: pytest.Item) -> None:
    """The test has returned, and its process lives."""
    dumps = dumps_of(item.config) if judge.before else None
    if dumps:
        dumps.forget()


def left_behind(config: pytest.Config, worker: str) -> Path | None:
    """The fixture of the case that a worker died of, if it left one."""
    if not config.getoption("--dump-dir") or not _folder(config).is_dir():
        return None
    from conformance.replaying.dumps import left_behind as found

    return found(_folder(config), worker)


def _asked(item: pytest.Item) -> tuple[str, str]:
    """A test's id, and the name by which its target was asked for."""
    return item.nodeid, item.callspec.params["target"]  # type: ignore[attr-defined]


def _folder(config: pytest.Config) -> Path:
    folder = config.rootpath / config.getoption("--dump-dir")
    return Path(os.path.relpath(folder)) if folder.is_relative_to(Path.cwd()) else folder
