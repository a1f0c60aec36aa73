"""Find the targets that a run asks for, and say where they run, for all parts of the pytest plugin."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest

import conformance.faults.scheme  # noqa: F401  lets fault:NAME be found
from conformance.reports.gate import Gate
from conformance.targets.base import WRITES, Target
from conformance.targets.registry import UnknownTarget, find, resolve

GATE = pytest.StashKey[Gate]()
TARGETS = pytest.StashKey[dict[str, Target]]()


def targets_of(config: pytest.Config) -> dict[str, Target]:
    """Return the targets asked for, by name. Raises UsageError for an unknown name."""
    # xdist asks before pytest_configure, if -n is auto.
    if TARGETS not in config.stash:
        names = list(dict.fromkeys(resolve(name) for name in config.getoption("--target") or ["auto"]))
        try:
            config.stash[TARGETS] = {name: find(name) for name in names}
        except UnknownTarget as error:
            raise pytest.UsageError(str(error)) from error
    return config.stash[TARGETS]


def worker_id(config: pytest.Config) -> str:
    """Return the name of this process in the run, or "main" without xdist."""
    return str(getattr(config, "workerinput", {}).get("workerid", "main"))


def claims(target: Target, capability: str) -> bool:
    """Return whether a target claims a capability. True if the target raises, so that a test reports the crash."""
    try:
        return capability in target.capabilities
    except Exception:
        return True


def writes(target: Target, kv_cache_dtype: str) -> bool:
    """Return whether a target claims to write a kv_cache_dtype."""
    return claims(target, WRITES[kv_cache_dtype])


def use_exact_memory(targets: Iterable[Target]) -> None:
    """Make each allocation end where its array ends, and come directly from the CUDA runtime."""
    on_device = [target.memory for target in targets if target.memory.on_device]
    for memory in on_device:
        memory.exact = True
    if any(memory.name == "cupy" for memory in on_device):
        import cupy

        cupy.cuda.set_allocator(None)  # torch has PYTORCH_NO_CUDA_MEMORY_CACHING for that
    os.environ.setdefault("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")


def where(target: Target) -> str:
    """Return where a target runs, or why it cannot, in one line."""
    reason = target.unavailable()
    return f"not judged: {reason}" if reason else target.describe()
