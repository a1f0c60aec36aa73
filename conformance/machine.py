"""What this machine has for processes: CPUs, and memory that nobody uses."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

_CGROUPS = (
    ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Versions 2 and 1: a container's folder, its limit, what it uses, and what of that is given back when it is needed."""

_QUOTAS = (
    (("sys/fs/cgroup/cpu.max", r"^(\d+) "), ("sys/fs/cgroup/cpu.max", r" (\d+)$")),
    (("sys/fs/cgroup/cpu/cpu.cfs_quota_us", r"^(\d+)$"), ("sys/fs/cgroup/cpu/cpu.cfs_period_us", r"^(\d+)$")),
)
"""Versions 2 and 1: where a container's CPU time in a period, and that period, stand in microseconds."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""What NumPy's BLAS, OpenMP and torch read, when they are loaded, to know how many threads to start."""

_GIVEN = frozenset(name for name in THREADS if os.environ.get(name))


def share_threads(processes: int = 1) -> None:
    """Divide the CPUs among some processes: change what THREADS say to libraries and processes that start from here on.

    A variable that a person or a parent process has set before this module was imported stays as it is.
    """
    threads = str(max(1, cpus() // processes))
    os.environ.update({name: threads for name in THREADS if name not in _GIVEN})


def cpus(root: Path = Path("/")) -> int:
    """Return how many CPUs this process may keep busy: those it may run on, or a container's quota of them."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([allowed, *_quotas(root)])


def _quotas(root: Path) -> Iterator[int]:
    for (quota_file, quota_pattern), (period_file, period_pattern) in _QUOTAS:
        quota, period = _number(root / quota_file, quota_pattern), _number(root / period_file, period_pattern)
        if quota and period:
            yield max(1, quota // period)


def free_bytes(root: Path = Path("/")) -> int | None:
    """The memory that is free, or can be freed, for this process and its children; None where nothing says so.

    A container's own limit counts, which /proc/meminfo does not know of.
    """
    return min(_free(root), default=None)


def _free(root: Path) -> Iterator[int]:
    if (available := _number(root / "proc/meminfo", r"MemAvailable:\s+(\d+) kB")) is not None:
        yield available << 10
    for folder, limit, usage, inactive in _CGROUPS:
        most, used = _number(root / folder / limit), _number(root / folder / usage)
        if most is not None and used is not None:
            kept = _number(root / folder / "memory.stat", rf"^{inactive} (\d+)$") or 0
            yield max(most - used + kept, 0)


def _number(path: Path, pattern: str = r"^(\d+)$") -> int | None:
    try:
        found = re.search(pattern, path.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None
