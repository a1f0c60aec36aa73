"""Choose the number of workers of `-n auto`, and pin each worker to a device before it sees any."""

from __future__ import annotations

import ctypes
import fcntl
import gc
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from conformance import machine
from conformance.reports.receipts import ARCHITECTURE
from conformance.running import devices
from conformance.running.session import targets_of
from conformance.running.workers import Demand, Plan, Supply, plan
from conformance.targets.base import Target

VISIBLE = "CUDA_VISIBLE_DEVICES"
DEVICE, DEVICE_BYTES, ROOMS = "device", "device_bytes", "rooms"
"""The keys of the values that a worker gets: its VISIBLE, the bytes for its arrays, and the rooms for more."""

FOLDER = pytest.StashKey[TemporaryDirectory[str]]()
"""The folder of the lock files of the rooms."""

MOMENT = 0.02
"""The seconds that a worker waits before it looks again for a free room."""

_NOT_INITIALIZED = 3  # CUDA_ERROR_NOT_INITIALIZED


class Places:
    """Assign each worker a place of the plan. A replacement gets the place of the dead worker."""

    def __init__(self) -> None:
        """Start without workers."""
        self._of: dict[str, int] = {}
        self._vacant: list[int] = []
        self._next = 0

    def take(self, worker: str) -> int:
        """Return the place of a new worker."""
        if not self._vacant:
            self._vacant.append(self._next)
            self._next += 1
        self._of[worker] = self._vacant.pop()  # the last to die is replaced at once
        return self._of[worker]

    def leave(self, worker: str) -> None:
        """Free the place of a dead worker."""
        if worker in self._of:
            self._vacant.append(self._of.pop(worker))


SUPPLY, PLACES = pytest.StashKey[Supply](), pytest.StashKey[Places]()


def entry(index: int, visible: str | None) -> str:
    """Return the value of VISIBLE that shows only the device that CUDA counts as `index` under `visible`."""
    listed = [each.strip() for each in (visible or "").split(",") if each.strip()]
    return listed[index] if index < len(listed) else str(index)


def cuda_is_initialised() -> bool:
    """Return whether this process has initialised CUDA, so that a change of VISIBLE has no effect."""
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except (OSError, AttributeError):  # it is not even loaded, or this is not Linux
        return False
    return int(driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int()))) != _NOT_INITIALIZED


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Pin a worker to its device. Raises RuntimeError if CUDA is initialised already."""
    device = getattr(config, "workerinput", {}).get(DEVICE)
    if device is None:
        config.stash[PLACES] = Places()
        return
    if cuda_is_initialised():
        raise RuntimeError(f"{VISIBLE}={device} comes too late: something has initialised CUDA before pytest_configure")
    os.environ[VISIBLE] = device


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return the number of workers for the CPUs and the memory of the devices."""
    return plan(_supply(config), _demand(config)).workers


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(specs: Sequence[object]) -> None:
    """Give each worker its share of the CPUs."""
    machine.share_threads(len(specs))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send a worker its device, and how much of it the worker may use."""
    planned = plan_of(node.config)
    if planned is None or not node.gateway.spec.popen:
        return
    place = node.config.stash[PLACES].take(node.gateway.id)
    gpu = planned.devices[place % planned.workers]
    if gpu:
        node.workerinput[DEVICE] = entry(gpu.index, os.environ.get(VISIBLE))
        node.workerinput[DEVICE_BYTES] = planned.limits[gpu]
        if rooms := planned.rooms.get(gpu):
            folder = node.config.stash.setdefault(FOLDER, TemporaryDirectory(prefix="conformance-rooms-")).name
            node.workerinput[ROOMS] = [f"{folder}/{gpu.index}", rooms.count, rooms.nbytes]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Keep the place of a dead worker for its replacement."""
    if error:
        node.config.stash[PLACES].leave(node.gateway.id)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Limit a worker's targets to its share of the device."""
    nbytes = getattr(session.config, "workerinput", {}).get(DEVICE_BYTES)
    if nbytes is not None:
        _limit(session.config, nbytes)


def _limit(config: pytest.Config, nbytes: int) -> None:
    budgets = _budgets(config)
    for target in filter(_wants_a_device, targets_of(config).values()):
        target.memory.limit(nbytes * budgets[target.memory.name] // sum(budgets.values()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Wait for a room before a test of the largest cases, and return to the usual limit after it."""
    told = getattr(item.config, "workerinput", {})
    if ROOMS not in told or not item.get_closest_marker("roomy"):
        return (yield)
    path, count, nbytes = told[ROOMS]
    with taken(path, count):
        _limit(item.config, nbytes)
        try:
            return (yield)
        finally:
            gc.collect()
            _limit(item.config, told[DEVICE_BYTES])


@contextmanager
def taken(path: str, count: int) -> Iterator[int]:
    """Hold the first free room of `count`. The operating system frees the room of a process that dies."""
    with ExitStack() as files:
        locks = [files.enter_context(open(f"{path}-{number}", "w")) for number in range(count)]
        while True:
            for number, lock in enumerate(locks):
                with suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield number
                    return
            time.sleep(MOMENT)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Return lines on the number of workers, the reason, and their devices."""
    planned = plan_of(config)
    return planned.lines() if planned else []


def plan_of(config: pytest.Config) -> Plan | None:
    """Return the plan of this run's workers, or None without workers."""
    if hasattr(config, "workerinput") or not config.getoption("tx", None):
        return None
    from xdist.workermanage import parse_tx_spec_config

    return plan(_supply(config), _demand(config), len(parse_tx_spec_config(config)))


def architectures(config: pytest.Config) -> set[str]:
    """Return the architectures of the workers' devices. The controller may see another device."""
    planned = plan_of(config)
    return {gpu.sm for gpu in planned.devices if gpu} if planned else set()


def _supply(config: pytest.Config) -> Supply:
    # Asked once: what is free changes as soon as the workers are there.
    if SUPPLY not in config.stash:
        told = os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS", "")
        cpus = int(told) if told.isdecimal() and int(told) else machine.cpus()
        gpus, why = devices.found() if _budgets(config) else ((), "no target is GPU code")
        config.stash[SUPPLY] = Supply(cpus, machine.free_bytes(), gpus, why)
    return config.stash[SUPPLY]


def _demand(config: pytest.Config) -> Demand:
    budgets = _budgets(config)
    most = [target.most_workers for target in targets_of(config).values() if target.most_workers]
    usual = [target.usual_device_bytes for target in targets_of(config).values() if _wants_a_device(target)]
    return Demand(
        sum(budgets.values()) if budgets else None,
        max(usual) * len(budgets) if budgets and not config.getoption("--exact-memory") else None,
        min(most, default=None),
        frozenset(each for each in config.getoption("--require") if ARCHITECTURE.fullmatch(each)),
    )


def _budgets(config: pytest.Config) -> dict[str, int]:
    """Return the device bytes that each library's arrays need, by name of the memory. Libraries keep freed memory."""
    budgets: dict[str, int] = {}
    for target in filter(_wants_a_device, targets_of(config).values()):
        budgets[target.memory.name] = max(budgets.get(target.memory.name, 0), target.device_bytes)
    return budgets


def _wants_a_device(target: Target) -> bool:
    try:
        return (target.is_gpu_code or target.memory.on_device) and not target.unavailable()
    except Exception:  # a target that cannot even say so is to crash in a test, by name
        return False
