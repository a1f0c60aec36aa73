"""Compile the CUDA sources for the device in this machine and load them as a RawModule, through CuPy.

RawModule can compile too, but it is not used for that, for four reasons. It chooses the architecture itself, without
the suffix that Blackwell's own instructions need. It overrides another -arch. It adds -ftz=true. Its cache ignores a
changed .cuh. So kernels.cross compiles, and RawModule loads the cubin.
"""

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels import cross
from kernels.cache import BuildError
from kernels.kernel import Kernel


@dataclass(frozen=True)
class DeviceKernel:
    """Hold a kernel that is loaded on one device, and the facts for a receipt.

    `kernel` is the cupy.RawKernel. `registers` and `local_bytes` (spills and stack) are per thread. Hashes are SHA-256
    in hex. `driver` is CUDA's version number, 13000 for 13.0.
    """

    kernel: Any
    device_name: str
    arch: str
    driver: int
    compiler: str
    options: tuple[str, ...]
    registers: int
    local_bytes: int
    sources_sha256: str
    binary_sha256: str


def load(device: int, kernel: Kernel, root: Path | None = None) -> DeviceKernel:
    """Load a kernel on CUDA device number `device`. Compiles it first, unless the cache has it.

    Raises BuildError without CuPy or if the compiler fails (with its first lines), and headers.MissingHeaders.

    Returns:
        The loaded kernel.

    """
    cupy = import_cupy()
    current = cupy.cuda.Device(device)
    with current:
        recipe = cross.recipe(arch_of(current.compute_capability), root, kernel)
        path = recipe.cached()
        loaded = cupy.RawModule(path=str(path)).get_function(kernel.symbol)
        return DeviceKernel(
            kernel=loaded,
            device_name=_text(cupy.cuda.runtime.getDeviceProperties(device)["name"]),
            arch=recipe.arch,
            driver=int(cupy.cuda.runtime.driverGetVersion()),
            compiler=recipe.compiler,
            options=recipe.options,
            registers=int(loaded.num_regs),
            local_bytes=int(loaded.local_size_bytes),
            sources_sha256=recipe.sources_sha256,
            binary_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        )


def arch_of(compute_capability: str) -> str:
    """Return the architecture to compile for, given CuPy's "90", "100", "103" or "120".

    From 10.0 on it has the suffix "a". NVIDIA's headers use the e2m1 instructions of the hardware only with it.

    Returns:
        A name such as "sm_90" or "sm_100a".

    """
    return f"sm_{compute_capability}" + ("a" if int(compute_capability) >= 100 else "")


def import_cupy() -> Any:
    """Return the cupy module. Raises BuildError with advice if it cannot be imported."""
    try:
        import cupy
    except ImportError as error:
        raise BuildError(f"arrays on a GPU need CuPy: {error}; run `pip install cupy-cuda13x`") from error
    return cupy


def current_stream(library: str, device: int) -> Any:
    """Return the current stream of `library`, "torch" or "cupy", on CUDA device number `device`.

    That device must be current.

    Returns:
        A CuPy stream. As a context manager it becomes CuPy's current stream.

    """
    cupy = import_cupy()
    if library != "torch":
        return cupy.cuda.get_current_stream()
    pointer = int(sys.modules["torch"].cuda.current_stream(device).cuda_stream)
    if hasattr(cupy.cuda.Stream, "from_external"):
        return cupy.cuda.Stream.from_external(_ForeignStream(pointer))
    return cupy.cuda.ExternalStream(pointer, device)  # CuPy 13, where it is not deprecated yet


class _ForeignStream:
    """Wrap a stream pointer in CUDA's stream protocol, which some versions of PyTorch do not implement."""

    def __init__(self, pointer: int) -> None:
        self._pointer = pointer

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._pointer


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
