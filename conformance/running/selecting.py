"""Select the tests for each target, and the parts of the gate that a run leaves out (-k, a path, --shard, quick)."""

from __future__ import annotations

import gc
import re
from argparse import ArgumentTypeError
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest

from conformance.bindings import BindingError, bindings, binds_any
from conformance.device_operations import OPERATIONS
from conformance.reports.selection import Selection, Shard
from conformance.running.session import claims, targets_of, writes
from conformance.spec import clauses
from conformance.targets.base import GATHER, GATHERS, Target

GATE_FOLDER = Path(__file__).parents[1] / "gate"
SELECTION = pytest.StashKey[Selection]()
LONG = "heavy", "long"
"""The marks of tests that start first, the longest before all others."""

APART = 7
"""The number of other tests between two that are marked roomy."""

_COLLECTED = pytest.StashKey[tuple[list[str], list[str], list[str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options on parts of the gate."""
    group = parser.getgroup("conformance", "NVFP4 MLA conformance")
    group.addoption(
        "--shard", type=_shard, metavar="I/N", help="judge part I of N; `python -m conformance merge` joins the reports"
    )
    group.addoption(
        "--partial-ok",
        action="store_true",
        help="a part of the gate, selected by -k, -m, a path and the like, may be green: exit 0 instead of 6",
    )


def _shard(text: str) -> Shard:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise ArgumentTypeError(f"--shard is {text!r}; allowed is I/N with 1 <= I <= N, such as 2/4")
    return Shard(int(found[1]), int(found[2]))


class Selecting:
    """Implement pytest_collection_modifyitems as the first of all plugins. The module's hook runs as the last."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Remove tests that do not bind a target. Raises UsageError for a test with no clause or an unknown one."""
        targets = targets_of(config)
        files = {item.path for item in items}
        quick = config.getoption("--profile") == "quick"
        for item in items:
            _check_clauses(item)
        items[:] = [item for item in items if _binds(item, targets) and not (quick and _is_nightly(item))]
        spared = [item for item in items if quick and _is_spared(item, targets)]
        items[:] = [item for item in items if not (quick and _is_spared(item, targets))]
        if hasattr(config, "workerinput"):
            _longest_first(items)
        config.stash[_COLLECTED] = (_ids(items), _ids(spared), _parts(config, files))


def pytest_configure(config: pytest.Config) -> None:
    """Read SPEC.md's table of bindings and register the first hook. Raises UsageError if the table is wrong."""
    try:
        bindings()
    except BindingError as error:
        raise pytest.UsageError(str(error)) from error
    config.pluginmanager.register(Selecting(), "conformance-selecting")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Record which tests are left after -k, -m and other plugins, and keep only those of this shard."""
    collected, spared, parts = config.stash[_COLLECTED]
    left = set(_ids(items))
    shard = config.getoption("--shard")
    selection = Selection(
        tests=tuple(test for test in collected if test in left),
        deselected=tuple(test for test in collected if test not in left),
        spared=tuple(spared),
        parts=tuple(parts),
    )
    config.stash[SELECTION] = selection
    if shard:
        items[:] = [item for item in items if shard.holds(item.nodeid)]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Exclude the tests from garbage collection, since thousands of them live until the end."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send a worker's selection to the reporting process."""
    if hasattr(session.config, "workeroutput") and SELECTION in session.config.stash:
        session.config.workeroutput["selection"] = session.config.stash[SELECTION].told()


def clauses_of(item: pytest.Item) -> tuple[str, ...]:
    """Return the clauses that a test is marked with."""
    return tuple(str(clause) for mark in item.iter_markers("clause") for clause in mark.args)


def judges(item: pytest.Item) -> bool:
    """Return whether a test judges a target."""
    return "target" in getattr(item, "fixturenames", ())


def asked_of(function: str, arguments: Sequence[str], names: list[str]) -> list[str]:
    """Return the targets for which a test is asked, if all arguments are test ids, else all targets.

    pytest itself would first make the tests for all targets.

    Returns:
        A part of `names`, in the same order.

    """
    ids = [argument.rpartition("::")[2] for argument in arguments]
    if not all("[" in test for test in ids):
        return names
    mine = [test.partition("[")[2] for test in ids if test.startswith(f"{function}[")]
    return [name for name in names if any(test.startswith((f"{name}-", f"{name}]")) for test in mine)]


def _ids(items: list[pytest.Item]) -> list[str]:
    return [item.nodeid for item in items if judges(item)]


def _parts(config: pytest.Config, files: set[Path]) -> list[str]:
    """Return which files and tests of the gate were not collected. Empty for a run without any test of the gate."""
    gate = sorted(GATE_FOLDER.glob("test_*.py"))
    missing = [path.name for path in gate if path not in files]
    single = [str(arg) for arg in config.args if "::" in str(arg)]
    parts = [f"{len(missing)} files were not collected: {', '.join(missing)}"] if missing else []
    parts += [f"of a file, one test alone: {arg}" for arg in single]
    return parts if any(path in files for path in gate) else []


def _longest_first(items: list[pytest.Item]) -> None:
    """Move the tests that are marked heavy or long to the front, so that workers end together.

    Roomy tests use much of a device, so that workers wait for each other in them. They are spread among the others.
    """

    def marked(item: pytest.Item, name: str) -> bool:
        return item.get_closest_marker(name) is not None

    roomy = iter([item for item in items if marked(item, "roomy")])
    others = sorted(
        (item for item in items if not marked(item, "roomy")),
        key=lambda item: [not marked(item, name) for name in LONG],
    )
    mixed = [[*islice(roomy, 1 if place % APART == 0 else 0), item] for place, item in enumerate(others)]
    items[:] = [*chain.from_iterable(mixed), *roomy]


def _check_clauses(item: pytest.Item) -> None:
    named = clauses_of(item)
    if any(clause not in clauses() for clause in named) or (judges(item) and not named):
        raise pytest.UsageError(f"{item.nodeid} is marked with clauses {named}; SPEC.md has {', '.join(clauses())}")


def _is_nightly(item: pytest.Item) -> bool:
    return item.get_closest_marker("nightly") is not None


def _is_spared(item: pytest.Item, targets: dict[str, Target]) -> bool:
    return judges(item) and _target_of(item, targets).slow and item.get_closest_marker("long") is not None


def _target_of(item: pytest.Item, targets: dict[str, Target]) -> Target:
    return targets[_parameters(item)["target"]]


def _parameters(item: pytest.Item) -> dict[str, Any]:
    found: dict[str, Any] = item.callspec.params  # type: ignore[attr-defined]
    return found


def _binds(item: pytest.Item, targets: dict[str, Target]) -> bool:
    if not judges(item):
        return True
    parameters, chosen = _parameters(item), _target_of(item, targets)
    form = parameters.get("kv_cache_dtype")
    if form is not None and not writes(chosen, form):
        return False
    gathered = parameters.get("gathered", "nvfp4_ds_mla")
    if gathered != "nvfp4_ds_mla" and not claims(chosen, GATHERS[gathered][1]):
        return False
    if parameters.get("attended", "auto") not in chosen.attends:
        return False
    operation = OPERATIONS.get(parameters.get("operation", ""))
    if operation and operation.claims != GATHER and not claims(chosen, operation.claims):
        return False
    named = clauses_of(item)
    return not named or binds_any(named, chosen)
