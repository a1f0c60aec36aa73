"""The public operators, with vLLM's signatures: checked on the host, then run where the arrays are."""

import ctypes
import functools
from pathlib import Path
from typing import Any

from kernels import cuda_build, host_build
from kernels.catalog import DEFAULT, KERNELS, pack
from kernels.checks import GatherCall, check_gather


class Operators:
    """The operators built from one set of sources with one kernel, and a count of what they launched.

    Nothing is built before the first call that needs it.
    """

    def __init__(self, root: Path | None = None, kernel: str = DEFAULT) -> None:
        """Take a sources root (None: this package's own) and a name in kernels.catalog.KERNELS, or raise ValueError."""
        if kernel not in KERNELS:
            raise ValueError(f"kernel: found {kernel!r}, expected one of {', '.join(KERNELS)}")
        self.root = root
        self.kernel = KERNELS[kernel]
        self._host: host_build.HostLibrary | None = None
        self._failure: host_build.BuildError | None = None
        self._devices: dict[int, cuda_build.DeviceKernel] = {}
        self._launches: dict[str, int] = {}

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self,
        src_cache: object,
        dst: object,
        block_table: object,
        workspace_starts: object,
        batch_size: int,
        seq_starts: object = None,
    ) -> None:
        """Gather nvfp4_ds_mla records into bf16 rows; see the module's function of this name."""
        call = check_gather(
            src_cache,
            dst,
            block_table,
            workspace_starts,
            batch_size,
            seq_starts,
            cache_alignment=self.kernel.cache_alignment,
            dst_alignment=self.kernel.dst_alignment,
        )
        if call.is_empty:
            return
        device = call.dst.device
        if device == "cpu":
            self._run_on_host(call)
        else:
            self._run_on_device(call, int(device.removeprefix("cuda:")))
        self._launches[device] = self._launches.get(device, 0) + 1

    def receipt(self) -> dict[str, Any]:
        """Return what ran: the kernel, the sums of launches, and for each device what was built for it and by whom."""
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
        return {"kernel": self.kernel.symbol, "launches": sum(self._launches.values()), "devices": builds}

    def _run_on_host(self, call: GatherCall) -> None:
        if self._failure is not None:
            raise self._failure  # the same sources fail again, and a caller may well try thousands of times
        if self._host is None:
            try:
                self._host = host_build.build(self.kernel.host_source, self.root)
            except host_build.BuildError as error:
                self._failure = error
                raise
        entry = getattr(self._host.library, f"{self.kernel.symbol}_host")
        entry.argtypes = (ctypes.c_void_p, ctypes.c_longlong, ctypes.c_uint, ctypes.c_uint)
        entry.restype = None
        args = pack(call)
        entry(args.ctypes.data, self.kernel.blocks(call.dst.shape[0]), *self.kernel.block)

    def _run_on_device(self, call: GatherCall, device: int) -> None:
        cupy = cuda_build.import_cupy()
        if device not in self._devices:
            self._devices[device] = cuda_build.load(device, self.root, self.kernel.name)
        with cupy.cuda.Device(device), cuda_build.current_stream(call.dst.library, device):
            grid = (self.kernel.blocks(call.dst.shape[0]),)
            # CuPy passes a NumPy array of size one by value, which makes this the kernel's struct.
            kernel = self._devices[device].kernel
            kernel(grid, self.kernel.block, (pack(call),), shared_mem=self.kernel.reserved_bytes)


@functools.cache
def _default() -> Operators:
    return Operators()


def cp_gather_and_upconvert_nvfp4_kv_cache(
    src_cache: object,
    dst: object,
    block_table: object,
    workspace_starts: object,
    batch_size: int,
    seq_starts: object = None,
) -> None:
    """Gather nvfp4_ds_mla records into bf16 rows: SPEC.md, chapters READ, PAGE and GATHER.

    The arrays are NumPy arrays, PyTorch tensors (CPU or CUDA) or CuPy arrays, all on one device:

    - src_cache: uint8 [num_blocks, block_size, 352], records; address and strides are multiples of 8 bytes.
    - dst: bf16 [T, 576], written, as uint16, ml_dtypes.bfloat16 or torch.bfloat16; address and row stride are multiples
      of 16 bytes, rows do not overlap.
    - block_table: int32 [>= R, max_blocks], physical block numbers; the row stride is free.
    - workspace_starts: int32 [>= R], the first row of each request in dst.
    - batch_size: R, requests.
    - seq_starts: int32 [>= R], the first token of each request to gather, or None for 0.

    Arrays on a GPU are gathered on the current stream of dst's library, without a synchronisation and without an
    allocation; the first call on a device compiles. T = 0 and R = 0 return at once (GATHER-10).

    Raises ValueError naming the argument for every malformed call (GATHER-11) and for too little alignment (GATHER-12),
    before anything is built or written; kernels.cache.BuildError and kernels.headers.MissingHeaders if a build fails.
    Numbers in the arrays are not checked.
    """
    _default().cp_gather_and_upconvert_nvfp4_kv_cache(
        src_cache, dst, block_table, workspace_starts, batch_size, seq_starts
    )
