"""List the gather kernels by name, and pack the struct of arguments that they take."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.checks import GatherCall
from kernels.kernel import Kernel
from kernels.layout import CACHE_FORMATS, NVFP4_DS_MLA


@dataclass(frozen=True, kw_only=True)
class GatherKernel(Kernel):
    """Describe one gather kernel. The alignments, in bytes, apply to addresses and strides (GATHER-12)."""

    cache_alignment: int
    dst_alignment: int
    record_bytes: int = NVFP4_DS_MLA.record_bytes


DEFAULT = "tuned"
"""The kernel that the public operators run. The kernel "plain" is the readable one and the benchmark's baseline."""

KERNELS = {
    kernel.name: kernel
    for kernel in (
        GatherKernel(
            name="plain",
            source="cuda/nvfp4_gather_plain.cu",
            host_source="host/nvfp4_gather.cpp",
            symbol="nvfp4_gather_plain",
            block=(32, 4),
            cache_alignment=1,  # it loads single bytes
            dst_alignment=4,  # it stores two bf16 at once
        ),
        GatherKernel(
            name="tuned",
            source="cuda/nvfp4_gather_tuned.cu",
            host_source="host/nvfp4_gather.cpp",
            symbol="nvfp4_gather_tuned",
            block=(32, 2),
            rows_of_warp=4,
            # More rows under way than keep memory busy scatter its accesses and slow it down (docs/bench.md).
            reserved_bytes=13 << 10,
            cache_alignment=8,  # it loads up to 8 bytes at once
            dst_alignment=16,  # it stores eight bf16 at once
        ),
    )
}

FP8_KERNEL = GatherKernel(
    name="fp8_ds_mla",
    source="cuda/fp8_gather.cu",
    host_source="host/fp8_gather.cpp",
    symbol="fp8_gather",
    block=(32, 4),
    cache_alignment=4,  # it loads floats
    dst_alignment=4,  # it stores two bf16 at once
    record_bytes=CACHE_FORMATS["fp8_ds_mla"].elements,
)
"""The gather kernel of fp8_ds_mla."""

GATHERS = {**KERNELS, FP8_KERNEL.name: FP8_KERNEL}
"""All gather kernels, by name."""

# GatherArgs of kernels/cuda/gather_args.cuh: the same members in the same order, 8 bytes each.
GATHER_ARGS = np.dtype(
    [
        ("src_cache", np.uint64),
        ("dst", np.uint64),
        ("block_table", np.uint64),
        ("workspace_starts", np.uint64),
        ("seq_starts", np.uint64),
        ("num_rows", np.int64),
        ("num_requests", np.int64),
        ("block_size", np.int64),
        ("cache_block_stride", np.int64),
        ("cache_record_stride", np.int64),
        ("table_row_stride", np.int64),
        ("table_columns", np.int64),
        ("dst_row_stride", np.int64),
    ]
)


def pack(call: GatherCall) -> np.ndarray[Any, np.dtype[np.void]]:
    """Return the struct GatherArgs of a checked call.

    CuPy passes the array to a kernel by value. For C, `.ctypes.data` is a pointer to it.

    Returns:
        A 0-d structured array of dtype GATHER_ARGS.

    """
    cache, dst, table = call.src_cache, call.dst, call.block_table
    args = np.zeros((), GATHER_ARGS)
    args["src_cache"] = cache.pointer
    args["dst"] = dst.pointer
    args["block_table"] = table.pointer
    args["workspace_starts"] = call.workspace_starts.pointer
    args["seq_starts"] = 0 if call.seq_starts is None else call.seq_starts.pointer
    args["num_rows"] = dst.shape[0]
    args["num_requests"] = call.batch_size
    args["block_size"] = cache.shape[1]
    args["cache_block_stride"] = cache.strides[0]
    args["cache_record_stride"] = cache.strides[1]
    args["table_row_stride"] = table.strides[0] // table.itemsize
    args["table_columns"] = table.shape[1]
    args["dst_row_stride"] = dst.strides[0] // dst.itemsize
    return args
