"""Write junit.xml beside the gate's reports."""

from __future__ import annotations

from contextlib import suppress

import pytest

FILE = "junit.xml"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Set pytest's junit.xml to --report-dir, unless --junitxml names a file. Runs before pytest's own plugin."""
    folder = config.getoption("--report-dir")
    if folder and not hasattr(config, "workerinput") and not getattr(config.option, "xmlpath", None):
        config.option.xmlpath = str(folder / FILE)
        with suppress(OSError):  # of a folder that cannot be written the gate says so itself
            (folder / FILE).unlink(missing_ok=True)  # an earlier run's does not outlive a run that is killed


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(report: pytest.TestReport) -> None:
    """Report the death of a worker as a failure of the test, not of its set-up."""
    report.when = "call"
