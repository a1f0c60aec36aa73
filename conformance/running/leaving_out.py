"""Report which features random tests left out of their cases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.running.plugin import JUDGE


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Add what a test left out to its outcome, and to the text of its failure."""
    judge = item.stash.get(JUDGE, None)  # which the plugin takes away
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if judge and judge.left_out and any(name == "verdict" for name, _ in report.user_properties):
        report.user_properties = [*report.user_properties, ("left_out", tuple(judge.left_out))]
        if report.failed:
            report.longrepr = f"{report.longrepr}\n  random cases without {', '.join(judge.left_out)}"
    return report  # type: ignore[return-value]
