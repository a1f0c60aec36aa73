"""Count calls, launches and cases of each target in a worker, and report them with the receipt at the end."""

from __future__ import annotations

import resource
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pytest

from conformance import tally
from conformance.judge import Judge
from conformance.raised import told
from conformance.reports.receipts import Account
from conformance.running.device_probe import cupy_device, driver, torch_device
from conformance.running.session import targets_of, worker_id
from conformance.targets.base import Target
from conformance.targets.taken import Unusable, declarations


@dataclass
class Running:
    """Hold the sums over one target's tests in this process, and the kernels seen on the device before them."""

    sums: Counter[str] = field(default_factory=Counter)
    kernels: list[dict[str, Any]] = field(default_factory=list)
    unseen: str = ""


ACCOUNTS = pytest.StashKey[dict[str, Running]]()


@dataclass(frozen=True)
class Before:
    """Hold the numbers of calls and launches before a test."""

    calls: Mapping[str, int]
    launches: Mapping[str, int] | None


def begin(target: Target) -> Before:
    """Return the numbers of calls and launches before a test of a target."""
    return Before(dict(tally.answered(target)), target.launches())


def since(before: Before, target: Target) -> tuple[int, int | None, str]:
    """Return a test's calls, its launches (None if not counted), and what is wrong with them, or ""."""
    calls = _grown(before.calls, tally.answered(target))
    now = target.launches()
    if before.launches is None or now is None:
        return sum(calls.values()), None, ""
    launches = _grown(before.launches, now)
    return sum(calls.values()), sum(launches.values()), tally.unlaunched(calls, launches)


def watch_device(config: pytest.Config, name: str, target: Target) -> None:
    """Record the kernels that a target's operators run on the device, before the target is judged."""
    running = _running(config, name)
    if config.getoption("--exact-memory"):
        running.unseen = "--exact-memory is for sanitizers, beside which there is no profiler"
    elif target.is_gpu_code:
        running.kernels, running.unseen = _seen(target)


def add(config: pytest.Config, name: str, judge: Judge, calls: int) -> None:
    """Add a test to the sums of its target."""
    _running(config, name).sums.update({**vars(judge.count), "calls": calls})


def _running(config: pytest.Config, name: str) -> Running:
    return config.stash.setdefault(ACCOUNTS, {}).setdefault(name, Running())


def _seen(target: Target) -> tuple[list[dict[str, Any]], str]:
    from conformance.witness import seen_on_device  # which imports torch

    try:
        return seen_on_device(target), ""
    except Exception as problem:
        return [], told(problem)


def accounts(config: pytest.Config) -> list[dict[str, Any]]:
    """Return this process's account of each target that can run here, as JSON types."""
    return [asdict(_account(config, name, target)) for name, target in targets_of(config).items() if _can_run(target)]


def peak_rss_mib() -> int:
    """Return the peak resident memory of this process, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak >> (20 if sys.platform == "darwin" else 10)


def _account(config: pytest.Config, name: str, target: Target) -> Account:
    running = _running(config, name)
    receipt, launches, device, error, gpu_code = dict[str, Any](), None, "", "", False
    after = _seen(target)[0] if running.kernels and running.sums["cases"] and not target.lost else []
    try:
        receipt = target.receipt()
        counted = target.launches()
        launches = None if counted is None else sum(counted.values())
        device, gpu_code = device_of(target), target.is_gpu_code
    except Unusable as problem:
        receipt, error = {}, str(problem)
    except Exception as problem:  # after a lost context even that may fail
        receipt, error = {}, told(problem)
    return Account(
        worker=worker_id(config),
        target=name,
        receipt=receipt,
        cases=running.sums["cases"],
        rows=running.sums["rows"],
        elements=running.sums["elements"],
        calls=running.sums["calls"],
        launches=launches,
        device=device,
        error=error,
        peak_rss_mib=peak_rss_mib(),
        gpu_code=gpu_code,
        driver=driver() if device != "cpu" else "",
        kernels=running.kernels,
        kernels_after=after,
        unseen=running.unseen,
        declares=declarations(target),
    )


def device_of(target: Target) -> str:
    """Return the device of the target's arrays: "cpu", or a GPU's name, architecture and UUID."""
    if not target.memory.on_device:
        return "cpu"
    if target.memory.name == "cupy":
        import cupy

        found = cupy_device(cupy.cuda.runtime.getDevice())
    else:
        import torch

        found = torch_device(torch.cuda.current_device())
    return f"{found['name']}, {found['sm']}, {found['uuid']}"


def _can_run(target: Target) -> bool:
    try:
        return not target.unavailable()
    except Exception:
        return False


def _grown(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    return {name: count - before.get(name, 0) for name, count in now.items()}
