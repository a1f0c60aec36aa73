"""List the kernels of gather_and_maybe_dequant_cache by kv_cache_dtype, and pack the struct that they take."""

from typing import Any

import numpy as np

from kernels import catalog
from kernels.generic_checks import GenericCall
from kernels.kernel import Kernel

_SYMBOLS = {"auto": "generic_copy_gather", "fp8": "generic_fp8_gather"}

GENERIC_GATHERS = {
    name: Kernel(
        name=name, source=f"cuda/{symbol}.cu", host_source="host/generic_gather.cpp", symbol=symbol, block=(32, 4)
    )
    for name, symbol in _SYMBOLS.items()
}

# GenericGatherArgs of kernels/cuda/generic_gather.cuh: the same members in the same order.
GENERIC_GATHER_ARGS = np.dtype(
    [
        ("gather", catalog.GATHER_ARGS),
        ("token_to_seq", np.uint64),
        ("scale", np.uint64),
        ("row_elements", np.int64),
    ]
)


def pack(call: GenericCall) -> np.ndarray[Any, np.dtype[np.void]]:
    """Return GenericGatherArgs for a checked call, as a 0-d structured array; see kernels.catalog.pack."""
    args = np.zeros((), GENERIC_GATHER_ARGS)
    args["gather"] = catalog.pack(call.gather)
    args["gather"]["num_rows"] = call.num_tokens
    args["token_to_seq"] = call.token_to_seq.pointer
    args["scale"] = call.scale.pointer
    args["row_elements"] = call.gather.dst.shape[1]
    return args
