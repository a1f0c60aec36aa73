"""What the parts of the pytest plugin share: the targets asked for, and where they run."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.targets.base import Target
from conformance.targets.registry import UnknownTarget, find, resolve
from conformance.verdicts import Gate

GATE = pytest.StashKey[Gate]()
TARGETS = pytest.StashKey[dict[str, Target]]()


def targets_of(config: pytest.Config) -> dict[str, Target]:
    """The targets asked for, by name; a name that is none is a usage error."""
    # xdist asks before pytest_configure, if -n is auto.
    if TARGETS not in config.stash:
        names = list(dict.fromkeys(resolve(name) for name in config.getoption("--target") or ["auto"]))
        try:
            config.stash[TARGETS] = {name: find(name) for name in names}
        except UnknownTarget as error:
            raise pytest.UsageError(str(error)) from error
    return config.stash[TARGETS]


def where(target: Target) -> str:
    """Where a target runs, or why it cannot, in one line."""
    reason = target.unavailable()
    return f"not judged: {reason}" if reason else target.describe()


def receipts(config: pytest.Config) -> dict[str, dict[str, Any]]:
    """The receipts of the targets that this process could run."""
    return {name: target.receipt() for name, target in targets_of(config).items() if not target.unavailable()}
