"""Print the visible devices as JSON. It is a separate program, so that its caller gets no CUDA context."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DRIVER = Path("/proc/driver/nvidia/version")


def by_cupy() -> Iterator[dict[str, Any]]:
    """Yield the devices that CuPy sees."""
    import cupy

    for index in range(cupy.cuda.runtime.getDeviceCount()):
        with cupy.cuda.Device(index):
            free, total = cupy.cuda.runtime.memGetInfo()
        yield {"index": index, **cupy_device(index), "free": int(free), "total": int(total), "driver": driver()}


def cupy_device(index: int) -> dict[str, str]:
    """Return name, architecture and UUID of a device, from CuPy."""
    import cupy

    found = cupy.cuda.runtime.getDeviceProperties(index)
    sm, uuid = f"sm_{found['major']}{found['minor']}", bytes(found["uuid"]).hex()
    return {"name": found["name"].decode(), "sm": sm, "uuid": uuid}


def by_torch() -> Iterator[dict[str, Any]]:
    """Yield the devices that torch sees. Raises RuntimeError if there is no device."""
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("torch sees no CUDA device")
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        yield {"index": index, **torch_device(index), "free": free, "total": total, "driver": driver()}


def torch_device(index: int) -> dict[str, str]:
    """Return name, architecture and UUID of a device, from torch."""
    import torch

    found = torch.cuda.get_device_properties(index)
    return {"name": found.name, "sm": f"sm_{found.major}{found.minor}", "uuid": str(found.uuid).replace("-", "")}


def driver(path: Path = DRIVER) -> str:
    """Return the version of the driver, such as 580.65.06, or "" if it is unknown."""
    found = re.search(r"\s(\d+(?:\.\d+)+)\s", path.read_text()) if path.exists() else None
    return found[1] if found else ""


def main() -> None:
    """Print the devices, or the reason why no device is visible. The answer is the last line of the output."""
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
