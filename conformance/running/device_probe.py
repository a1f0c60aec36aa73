"""A program of its own, so that whoever runs it has no CUDA context: prints the visible devices as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DRIVER = Path("/proc/driver/nvidia/version")


def by_cupy() -> Iterator[dict[str, Any]]:
    """The devices as CuPy sees them."""
    import cupy

    runtime = cupy.cuda.runtime
    for index in range(runtime.getDeviceCount()):
        found = runtime.getDeviceProperties(index)
        with cupy.cuda.Device(index):
            free, total = runtime.memGetInfo()
        yield {
            "index": index,
            "name": found["name"].decode(),
            "sm": f"sm_{found['major']}{found['minor']}",
            "free": int(free),
            "total": int(total),
            "uuid": bytes(found["uuid"]).hex(),
            "driver": driver(),
        }


def by_torch() -> Iterator[dict[str, Any]]:
    """The devices as torch sees them."""
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("torch sees no CUDA device")
    for index in range(torch.cuda.device_count()):
        found = torch.cuda.get_device_properties(index)
        free, total = torch.cuda.mem_get_info(index)
        yield {
            "index": index,
            "name": found.name,
            "sm": f"sm_{found.major}{found.minor}",
            "free": free,
            "total": total,
            "uuid": str(found.uuid).replace("-", ""),
            "driver": driver(),
        }


def driver(path: Path = DRIVER) -> str:
    """The version of the driver, such as 580.65.06; "" where nothing says so."""
    found = re.search(r"\s(\d+(?:\.\d+)+)\s", path.read_text()) if path.exists() else None
    return found[1] if found else ""


def main() -> None:
    """Print the devices, or why there are none; the last line is the answer, whatever a library prints."""
    answer: dict[str, Any] = {"devices": []}
    for ask in (by_cupy, by_torch):
        try:
            answer = {"devices": list(ask())}
            break
        except Exception as error:
            answer.setdefault("why", f"{type(error).__name__}: {error}")
    print("\n" + json.dumps(answer))


if __name__ == "__main__":
    main()
