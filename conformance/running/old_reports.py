"""Replace the report of an earlier run at the start of this one, and record in it why a run stopped.

Options may be wrong, and a target may end the process while it is imported. gate.json must not hold an earlier result
then.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from conformance.raised import writable
from conformance.reports.gate import Gate
from conformance.reports.reading import FILE
from conformance.reports.report import write
from conformance.running.junit import FILE as JUNIT_FILE
from conformance.running.session import GATE

OPTION = "--report-dir"
JUDGE_NOTHING = {
    "--collect-only",
    "--collectonly",
    "--co",
    "-h",
    "--help",
    "--version",
    "-V",
    "--fixtures",
    "--markers",
}
"""The options of pytest with which a run writes no report."""


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the option, and mark an old report before a wrong option can stop the run."""
    group = parser.getgroup("conformance", "NVFP4 MLA conformance")
    group.addoption(OPTION, type=_folder, metavar="DIR", help="where to write gate.json, gate.md and junit.xml")
    config = pluginmanager.get_plugin("pytestconfig")  # whose options are not read yet
    given = config.invocation_params.args if config else ()
    for folder in _named(list(map(str, given))) if "PYTEST_XDIST_WORKER" not in os.environ else ():
        if (folder / FILE).exists() or (folder / JUNIT_FILE).exists():
            _say("its options could not be read, or something ended the process before they were", folder)


def _folder(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{OPTION} is {text!r}; allowed is the name of a folder")
    return Path(text)


def _named(given: Sequence[str]) -> Iterator[Path]:
    """Yield the folders that a command line names, without knowing the other options."""
    try:
        given = [*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *given]
    except ValueError:
        given = list(given)
    if JUDGE_NOTHING.intersection(given):
        return
    for place, word in enumerate(given):
        name, _, value = word.partition("=")
        if name == OPTION and (value or given[place + 1 :]):
            yield Path(value or given[place + 1])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, int, int]:
    """Write a usage error into the report."""
    folder = None if hasattr(config, "workerinput") or config.option.collectonly else config.getoption(OPTION)
    try:
        return (yield)
    except pytest.UsageError as error:
        if folder:
            _say(" ".join(map(str, error.args)), folder, config)
        raise


def _say(stopped: str, folder: Path, config: pytest.Config | None = None) -> None:
    gate = config.stash.get(GATE, None) if config else None
    gate = gate or Gate(None, None)
    gate.stopped = writable(stopped)
    with suppress(OSError):  # where nothing can be written there is no report either
        write(gate, folder)
        (folder / JUNIT_FILE).unlink(missing_ok=True)
