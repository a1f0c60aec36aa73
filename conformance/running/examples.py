"""Keep failing random cases, and try those of earlier runs before new ones are drawn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hypothesis.database import ExampleDatabase

TROUBLE = pytest.StashKey[list[str]]()
DATABASE: pytest.StashKey[ExampleDatabase | None] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option --examples."""
    parser.getgroup("conformance", "NVFP4 MLA conformance").addoption(
        "--examples",
        metavar="WHERE",
        help="where random cases that fail are kept and looked for: a folder (.hypothesis/examples, or nowhere if "
        '--dump-dir is ""), github:OWNER/REPO[:ARTIFACT], redis://HOST:PORT/DB, or "" for nowhere',
    )


def pytest_configure(config: pytest.Config) -> None:
    """Open the place of the examples. Raises UsageError for a wrong name, before anything runs."""
    config.stash[TROUBLE], config.stash[DATABASE] = [], None
    where = place_of(config)
    if not where:
        return
    from conformance.examples import BadExamples, database_at  # which imports hypothesis

    try:
        config.stash[DATABASE] = database_at(where, config.rootpath)
    except BadExamples as error:
        raise pytest.UsageError(str(error)) from error
    if (problem := unwritable(where, config.rootpath)) and not hasattr(config, "workerinput"):
        config.stash[TROUBLE].append(problem)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Let a random test of the gate first try its kept cases."""
    database = item.config.stash[DATABASE]
    if database is None or not is_random(item):
        return (yield)
    from conformance.drawing import asking
    from conformance.examples import OfOneTest

    def trouble(what: str) -> None:
        item.config.stash[DATABASE] = None
        item.config.stash[TROUBLE].append(what)

    kept = OfOneTest(database, item.nodeid, trouble)
    with asking(kept=kept, aside=lambda: uncounted(item)):
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send a worker's warnings to the reporting process."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["examples_trouble"] = session.config.stash[TROUBLE]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Receive the warnings of a worker."""
    node.config.stash[TROUBLE] += getattr(node, "workeroutput", {}).get("examples_trouble", [])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the first warning. Verdicts do not depend on it."""
    for what in dict.fromkeys(config.stash[TROUBLE][:1]):
        where = place_of(config)
        terminalreporter.write_line(f"warning: failing cases are not kept in {where}: {what}", yellow=True)


def place_of(config: pytest.Config) -> str:
    """Return where examples are kept. With an empty --dump-dir and no --examples it is "", which keeps nothing."""
    where: str | None = config.getoption("--examples")
    if where is not None:
        return where
    if not config.getoption("--dump-dir"):
        return ""
    from conformance.examples import FOLDER

    return FOLDER


def is_random(item: pytest.Item) -> bool:
    """Return whether a test judges a target by cases that a seed draws."""
    return {"target", "seed"} <= set(getattr(item, "fixturenames", ()))


@contextmanager
def uncounted(item: pytest.Item) -> Iterator[None]:
    """Do not count the cases of this context, since only the seed may decide how many cases are compared."""
    judge = item.funcargs.get("judge")  # type: ignore[attr-defined]
    before = dict(vars(judge.count)) if judge else {}
    try:
        yield
    finally:
        if judge:
            vars(judge.count).update(before)


def unwritable(where: str, root: Path) -> str:
    """Return why a folder cannot be written, or "". Other kinds of places are not checked."""
    folder = root / where
    if not where or ":" in where:
        return ""
    while not folder.exists():
        folder = folder.parent
    try:
        with TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return f"{type(error).__name__}: {error}"
