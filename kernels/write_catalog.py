"""List the writing kernels by kv_cache_dtype, and pack the struct that they take."""

from typing import Any

import numpy as np

from kernels.kernel import Kernel
from kernels.write_checks import WriteCall

_SYMBOLS = {
    "nvfp4_ds_mla": "nvfp4_ds_mla_write",
    "fp8_ds_mla": "fp8_ds_mla_write",
    "auto": "mla_copy",
    "fp8": "mla_fp8_write",
}

WRITERS = {
    name: Kernel(name=name, source=f"cuda/{symbol}.cu", host_source="host/mla_write.cpp", symbol=symbol, block=(32, 4))
    for name, symbol in _SYMBOLS.items()
}
"""The kernels by kv_cache_dtype. Build them with the `defines` of a kernels.quantization.Quantization."""

# WriteArgs of kernels/cuda/write_args.cuh: the same members in the same order, 8 bytes each.
WRITE_ARGS = np.dtype(
    [
        ("kv_c", np.uint64),
        ("k_pe", np.uint64),
        ("kv_cache", np.uint64),
        ("slot_mapping", np.uint64),
        ("scale", np.uint64),
        ("num_tokens", np.int64),
        ("block_size", np.int64),
        ("cache_block_stride", np.int64),
        ("cache_record_stride", np.int64),
        ("kv_c_row_stride", np.int64),
        ("k_pe_row_stride", np.int64),
    ]
)


def pack(call: WriteCall) -> np.ndarray[Any, np.dtype[np.void]]:
    """Return WriteArgs for a checked call, as a 0-d structured array of dtype WRITE_ARGS; see kernels.catalog.pack."""
    args = np.zeros((), WRITE_ARGS)
    for name in ("kv_c", "k_pe", "kv_cache", "slot_mapping", "scale"):
        args[name] = getattr(call, name).pointer
    args["num_tokens"] = call.num_tokens
    args["block_size"] = call.kv_cache.shape[1]
    args["cache_block_stride"] = call.kv_cache.strides[0]
    args["cache_record_stride"] = call.kv_cache.strides[1]
    args["kv_c_row_stride"] = call.kv_c.strides[0] // call.kv_c.itemsize
    args["k_pe_row_stride"] = call.k_pe.strides[0] // call.k_pe.itemsize
    return args
