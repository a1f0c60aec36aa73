"""Find the visible devices without initialising CUDA in this process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.running.workers import Gpu

PROBE = (sys.executable, "-P", str(Path(__file__).with_name("device_probe.py")))
SECONDS = 120
"""The time limit of the program, which initialises each device."""


def found(program: Sequence[str] = PROBE, seconds: float = SECONDS) -> tuple[tuple[Gpu, ...], str]:
    """Return the devices that CUDA sees, in its order, and ""; or no devices, and the reason in one line."""
    try:
        done = subprocess.run(program, capture_output=True, text=True, errors="replace", timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return (), f"asking for the devices took more than {seconds:g} s"
    except OSError as error:
        return (), f"the devices cannot be asked for: {error}"
    said = done.stdout.strip().splitlines()[-1:]
    try:
        answer = json.loads(said[0])
        devices = tuple(Gpu(**device) for device in answer["devices"])
        why = str(answer.get("why", "no CUDA device is visible"))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        last = (done.stderr.strip().splitlines() or said or ["nothing"])[-1]
        return (), f"asking for the devices ended with status {done.returncode}: {last[:200]}"
    return devices, "" if devices else " ".join(why.split())[:200]
