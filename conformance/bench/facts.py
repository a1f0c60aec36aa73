"""Collect the facts that a benchmark's numbers depend on: versions, processor, device, clocks."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

_ASKED = ("driver_version", "clocks.current.sm", "clocks.max.sm", "clocks.current.memory", "clocks.max.memory")
_NAMES = ("driver", "sm_mhz", "sm_max_mhz", "memory_mhz", "memory_max_mhz")
_PATIENCE = 20  # seconds


def machine_facts() -> dict[str, Any]:
    """Return facts on Python, the libraries and the processor. A missing library is None, and so is `device`."""
    return {
        "python": platform.python_version(),
        "numpy": _version("numpy"),
        "torch": _version("torch"),
        "cupy": _cupy_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "device": None,
    }


def nvidia_smi(identity: str, load: Callable[[], object] = lambda: None) -> dict[str, Any]:
    """Return the driver's version, and the present and the highest clocks in MHz.

    `load` is called again and again meanwhile, to keep the device busy.

    Returns:
        The values by the keys driver, sm_mhz, sm_max_mhz, memory_mhz, memory_max_mhz. All are None if nvidia-smi is
        missing or does not answer within 20 seconds.

    """
    command = ["nvidia-smi", f"--id={identity}", f"--query-gpu={','.join(_ASKED)}", "--format=csv,noheader,nounits"]
    try:
        asking = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return read_answer("")
    with asking:
        deadline = time.monotonic() + _PATIENCE
        while asking.poll() is None and time.monotonic() < deadline:
            load()
        asking.kill()
        return read_answer(asking.stdout.read() if asking.stdout else "")


def read_answer(line: str) -> dict[str, Any]:
    """Return nvidia-smi's line as numbers and text by name. A value that is no number is None."""
    values = [value.strip() for value in line.strip().split(",")]
    if len(values) != len(_NAMES):
        return dict.fromkeys(_NAMES)
    clocks = {name: int(value) if value.isdigit() else None for name, value in zip(_NAMES, values, strict=True)}
    return {**clocks, "driver": values[0]}


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _cupy_version() -> str | None:
    try:
        import cupy  # its distribution has a name for each version of CUDA
    except ImportError:
        return None
    return str(cupy.__version__)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
