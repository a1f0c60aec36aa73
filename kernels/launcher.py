"""Build a kernel before its first launch on each device, run it, and count builds and launches."""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from kernels import cuda_build, host_build
from kernels.arrays import StridedArray
from kernels.kernel import Kernel


class Launcher:
    """Launch one kernel of one set of sources, and count the launches. Nothing is built before the first launch."""

    def __init__(self, kernel: Kernel, root: Path | None = None) -> None:
        """Take a sources root, None for this package. Errors in it appear at the first launch."""
        self.kernel = kernel
        self.root = root
        self._host: host_build.HostLibrary | None = None
        self._failure: host_build.BuildError | None = None
        self._devices: dict[int, cuda_build.DeviceKernel] = {}
        self._launches: dict[str, int] = {}

    def launch(self, args: np.ndarray[Any, np.dtype[np.void]], rows: int, caller: StridedArray) -> None:
        """Run the kernel for `rows` rows, rows >= 1. `args` is its struct as a 0-d structured array.

        The kernel runs on the device of the array `caller`. On a GPU it runs on the current stream of that array's
        library, without a synchronisation and without an allocation. The first launch on a device builds, and raises
        kernels.cache.BuildError, kernels.headers.MissingHeaders or FileNotFoundError if that fails.
        """
        if caller.device == "cpu":
            self._run_on_host(args, rows)
        else:
            self._run_on_device(args, rows, int(caller.device.removeprefix("cuda:")), caller.library)
        self._launches[caller.device] = self._launches.get(caller.device, 0) + 1

    @property
    def launches(self) -> int:
        """The number of launches on all devices."""
        return sum(self._launches.values())

    def receipt(self) -> dict[str, Any]:
        """Return the facts of the runs: the kernel, the number of launches, and the build for each device."""
        builds: dict[str, dict[str, Any]] = {}
        if self._host is not None:
            host = self._host
            builds["cpu"] = {
                "compiler": host.compiler,
                "flags": list(host.flags),
                "sources_sha256": host.sources_sha256,
                "binary_sha256": host.binary_sha256,
            }
        for number, build in self._devices.items():
            builds[f"cuda:{number}"] = {
                "device_name": build.device_name,
                "arch": build.arch,
                "driver": build.driver,
                "compiler": build.compiler,
                "flags": list(build.options),
                "registers": build.registers,
                "local_bytes": build.local_bytes,
                "sources_sha256": build.sources_sha256,
                "binary_sha256": build.binary_sha256,
            }
        for device, build_facts in builds.items():
            build_facts["launches"] = self._launches.get(device, 0)
        return {"kernel": self.kernel.symbol, "launches": self.launches, "devices": builds}

    def _run_on_host(self, args: np.ndarray[Any, np.dtype[np.void]], rows: int) -> None:
        if self._failure is not None:
            raise self._failure  # the same sources fail again, and a caller may well try thousands of times
        if self._host is None:
            try:
                self._host = host_build.build(self.kernel.host_source, self.root, self.kernel.defines)
            except host_build.BuildError as error:
                self._failure = error
                raise
        entry = getattr(self._host.library, f"{self.kernel.symbol}_host")
        entry.argtypes = (ctypes.c_void_p, ctypes.c_longlong, ctypes.c_uint, ctypes.c_uint)
        entry.restype = None
        entry(args.ctypes.data, self.kernel.blocks(rows), *self.kernel.block)

    def _run_on_device(self, args: np.ndarray[Any, np.dtype[np.void]], rows: int, device: int, library: str) -> None:
        cupy = cuda_build.import_cupy()
        if device not in self._devices:
            self._devices[device] = cuda_build.load(device, self.kernel, self.root)
        with cupy.cuda.Device(device), cuda_build.current_stream(library, device):
            # CuPy passes a NumPy array of size one by value, which makes this the kernel's struct.
            grid = (self.kernel.blocks(rows),)
            self._devices[device].kernel(grid, self.kernel.block, (args,), shared_mem=self.kernel.reserved_bytes)
