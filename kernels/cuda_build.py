"""The CUDA sources on a GPU, through CuPy: compiled for the device's own architecture and loaded as a RawModule.

RawModule would compile the sources too, but it chooses the architecture itself, without the suffix that Blackwell's own
instructions need, overrides another -arch, adds -ftz=true, and caches by the text of the .cu file alone, blind to a
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
    """A kernel loaded on one device, and what a receipt says of it.

    `kernel` is the cupy.RawKernel; `registers` and `local_bytes` (spills and stack) are those of a thread; hashes are
    SHA-256 in hex; `driver` is CUDA's number, 13000 for 13.0.
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
    """Compile a kernel for CUDA device number `device`, or take it from the cache, and load it there.

    Raises BuildError (no CuPy, or the compiler's own first lines) or headers.MissingHeaders.
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

    From 10.0 on with the suffix "a": only then NVIDIA's headers may use the e2m1 instructions of the hardware.
    """
    return f"sm_{compute_capability}" + ("a" if int(compute_capability) >= 100 else "")


def import_cupy() -> Any:
    """Return the cupy module; raise BuildError with advice if it cannot be imported."""
    try:
        import cupy
    except ImportError as error:
        raise BuildError(f"arrays on a GPU need CuPy: {error}; run `pip install cupy-cuda13x`") from error
    return cupy


def current_stream(library: str, device: int) -> Any:
    """Return the stream that `library`, "torch" or "cupy", uses on CUDA device number `device`, as a CuPy stream.

    Call it with that device current. The result is a context manager that makes the stream CuPy's current one.
    """
    cupy = import_cupy()
    if library != "torch":
        return cupy.cuda.get_current_stream()
    pointer = int(sys.modules["torch"].cuda.current_stream(device).cuda_stream)
    if hasattr(cupy.cuda.Stream, "from_external"):
        return cupy.cuda.Stream.from_external(_ForeignStream(pointer))
    return cupy.cuda.ExternalStream(pointer, device)  # CuPy 13, where it is not deprecated yet


class _ForeignStream:
    """A stream as CUDA's stream protocol shows it, since not every PyTorch speaks the protocol itself."""

    def __init__(self, pointer: int) -> None:
        self._pointer = pointer

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._pointer


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
