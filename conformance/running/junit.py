"""junit.xml beside the gate's own reports."""

from __future__ import annotations

from contextlib import suppress

import pytest

FILE = "junit.xml"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Have pytest write it into --report-dir, unless --junitxml says where: before pytest's own plugin asks."""
    folder = config.getoption("--report-dir")
    if folder and not hasattr(config, "workerinput") and not getattr(config.option, "xmlpath", None):
        config.option.xmlpath = str(folder / FILE)
        with suppress(OSError):  # of a folder that cannot be written the gate says so itself
            (folder / FILE).unlink(missing_ok=True)  # an earlier run's does not outlive a run that is killed


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(report: pytest.TestReport) -> None:
    """A worker died in a test, not in its set-up, which is what is written of a report of another phase."""
    report.when = "call"
