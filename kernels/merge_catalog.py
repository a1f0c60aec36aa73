"""List the kernels of merge_attn_states by the dtype of the outputs, and pack the struct that they take."""

from typing import Any

import numpy as np

from kernels.arrays import StridedArray
from kernels.kernel import Kernel
from kernels.layout import BF16
from kernels.merge_checks import MergeCall

_SYMBOLS = {"bfloat16": "merge_bf16", "float16": "merge_f16", "float32": "merge_f32"}

MERGES = {
    name: Kernel(name=name, source=f"cuda/{symbol}.cu", host_source="host/merge.cpp", symbol=symbol, block=(32, 4))
    for name, symbol in _SYMBOLS.items()
}

_PARTIAL = np.dtype(
    [
        ("output", np.uint64),
        ("lse", np.uint64),
        ("output_token_stride", np.int64),
        ("output_head_stride", np.int64),
        ("lse_head_stride", np.int64),
        ("lse_token_stride", np.int64),
    ]
)
# MergeArgs of kernels/cuda/merge_args.cuh: the same members in the same order.
MERGE_ARGS = np.dtype(
    [
        ("merged", _PARTIAL),
        ("prefix", _PARTIAL),
        ("suffix", _PARTIAL),
        ("num_tokens", np.int64),
        ("num_heads", np.int64),
        ("head_size", np.int64),
    ]
)


def kernel_for(call: MergeCall) -> str:
    """Return the key in MERGES of the kernel for a checked call."""
    return "bfloat16" if call.output.dtype in BF16 else call.output.dtype


def pack(call: MergeCall) -> np.ndarray[Any, np.dtype[np.void]]:
    """Return MergeArgs for a checked call, as a 0-d structured array of dtype MERGE_ARGS; see kernels.catalog.pack."""
    args = np.zeros((), MERGE_ARGS)
    args["merged"] = _pack_partial(call.output, call.output_lse)
    args["prefix"] = _pack_partial(call.prefix_output, call.prefix_lse)
    args["suffix"] = _pack_partial(call.suffix_output, call.suffix_lse)
    args["num_tokens"], args["num_heads"], args["head_size"] = call.output.shape
    return args


def _pack_partial(output: StridedArray, lse: StridedArray | None) -> np.ndarray[Any, np.dtype[np.void]]:
    partial = np.zeros((), _PARTIAL)
    partial["output"] = output.pointer
    partial["output_token_stride"] = output.strides[0] // output.itemsize
    partial["output_head_stride"] = output.strides[1] // output.itemsize
    if lse is not None:
        partial["lse"] = lse.pointer
        partial["lse_head_stride"] = lse.strides[0] // lse.itemsize
        partial["lse_token_stride"] = lse.strides[1] // lse.itemsize
    return partial
