"""Run random tests for the time of --minutes, and count their cases."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from conformance.reports.campaign_report import campaign_lines
from conformance.running.accounts import peak_rss_mib
from conformance.running.examples import is_random
from conformance.running.session import GATE, worker_id

if TYPE_CHECKING:
    from conformance.reports.campaign import Meter

METER: pytest.StashKey[Meter] = pytest.StashKey()
TOLD = pytest.StashKey[list[dict[str, Any]]]()
SECONDS = pytest.StashKey[float]()
"""The time of each random test, in seconds."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of campaigns."""
    group = parser.getgroup("conformance", "NVFP4 MLA conformance")
    group.addoption(
        "--minutes",
        type=_minutes,
        metavar="M",
        help="go on drawing random cases for M minutes, and report what kinds of cases there were",
    )
    group.addoption(
        "--round",
        type=_round,
        default=1,
        metavar="K",
        help="begin with the cases of round K (1), to repeat a failure of a campaign",
    )


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = -1.0
    if not 0 < minutes < math.inf:
        raise argparse.ArgumentTypeError(f"--minutes is {text!r}; allowed is a number above 0, such as 90 or 0.5")
    return minutes


def _round(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"--round is {text!r}; allowed is a whole number from 1 on")
    return int(text)


def is_campaign(config: pytest.Config) -> bool:
    """Return whether a run counts the cases that it tries."""
    return config.getoption("--minutes") is not None or config.getoption("--profile") == "nightly"


def pytest_configure(config: pytest.Config) -> None:
    """Set up the counters."""
    config.stash[TOLD] = []
    config.stash[SECONDS] = 0.0
    if is_campaign(config):
        from conformance.reports.campaign import Meter

        config.stash[METER] = Meter()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Divide the time among the random tests that are selected."""
    yield
    minutes = config.getoption("--minutes")
    if minutes is not None:
        from conformance.reports.campaign import slice_of

        workers = getattr(config, "workerinput", {}).get("workercount", 1)
        config.stash[SECONDS] = slice_of(minutes, workers, sum(map(is_random, items)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Give a random test its time, and count the cases that it draws."""
    config = item.config
    meter, first = config.stash.get(METER, None), config.getoption("--round")
    if not is_random(item) or (meter is None and first == 1):
        return (yield)
    from conformance.drawing import asking

    with asking(seconds=config.stash[SECONDS], first_round=first, meter=meter):
        return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Receive the counters of a worker."""
    told = getattr(node, "workeroutput", {}).get("campaign")
    if told:
        node.config.stash[TOLD].append(told)


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Send a worker's counters. The reporting process adds them up before the report is written."""
    config = session.config
    meter = config.stash.get(METER, None)
    if meter is not None:
        mine = meter.told(worker_id(config), peak_rss_mib())
        if hasattr(config, "workeroutput"):
            config.workeroutput["campaign"] = mine
        else:
            from conformance.reports.campaign import campaign_as_json

            told = config.stash[TOLD] or [mine]
            gate, minutes = config.stash[GATE], config.getoption("--minutes")
            gate.campaign = campaign_as_json(minutes, told)
            if minutes is not None and gate.asked and not gate.campaign["cases"]:
                gate.undrawn = f"--minutes {minutes:g}: no random test was selected, so that nothing was drawn"
    return (yield)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print how much was drawn, and the values that were never tried."""
    campaign = config.stash[GATE].campaign
    if campaign:
        for line in campaign_lines(campaign):
            terminalreporter.write_line(line)
