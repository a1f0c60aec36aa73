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


def cpus() -> int:
    """The CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
