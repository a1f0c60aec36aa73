"""Define mistakes around a gather: in refusals, in memory of earlier calls, and writes outside of the rows.

Each function takes the golden gather `proceed` and the arguments `call` by name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.faults.around import Arguments, Proceed, allocation, rows_of
from conformance.faults.steps import strip_of


def no_rows_is_an_error(proceed: Proceed, call: Arguments) -> None:
    """Raise RuntimeError if T = 0, as the launch of an empty grid does."""
    if rows_of(call) == 0:
        raise RuntimeError("CUDA error: invalid configuration argument")
    proceed(call)


def no_requests_is_an_error(proceed: Proceed, call: Arguments) -> None:
    """Raise RuntimeError if R = 0, as the launch of an empty grid does."""
    if len(call["block_table"]) == 0 or call.get("batch_size") == 0:
        raise RuntimeError("CUDA error: invalid configuration argument")
    proceed(call)


def rows_without_requests_zeroed(proceed: Proceed, call: Arguments) -> None:
    """Set dst to 0 if R = 0."""
    if call.get("batch_size") == 0:
        call["dst"][:] = 0
    proceed(call)


def nothing_refused(proceed: Proceed, call: Arguments) -> None:
    """Return without an error and without a gather where ValueError is due."""
    try:
        proceed(call)
    except ValueError:
        return


def refused_without_a_name(proceed: Proceed, call: Arguments) -> None:
    """Raise a ValueError that names no argument."""
    try:
        proceed(call)
    except ValueError:
        raise ValueError("invalid argument") from None


def refused_too_late(proceed: Proceed, call: Arguments) -> None:
    """Write zeros to the first row of dst before the ValueError is raised."""
    try:
        proceed(call)
    except ValueError:
        if isinstance(call["dst"], np.ndarray) and call["dst"].size:
            call["dst"][:1] = 0
        raise


def types_taken_for_granted(proceed: Proceed, call: Arguments) -> None:
    """Accept block_table and starts of any signed integer type, converted to int32."""
    for name in ("block_table", "workspace_starts", "seq_starts"):
        if call[name] is not None and call[name].dtype.kind == "i":
            call[name] = call[name].astype(np.int32)
    proceed(call)


def batch_size_unchecked(proceed: Proceed, call: Arguments) -> None:
    """Accept a batch_size above the entries of workspace_starts, and use their number."""
    if isinstance(call["batch_size"], int) and call["batch_size"] > len(call["workspace_starts"]):
        call["batch_size"] = len(call["workspace_starts"])
    proceed(call)


def length_taken_for_r(proceed: Proceed, call: Arguments) -> None:
    """Take R from the number of entries of workspace_starts and ignore batch_size."""
    proceed({**call, "batch_size": len(call["workspace_starts"])})


def column_576_written(proceed: Proceed, call: Arguments) -> None:
    """Write one column behind each row of dst. In a packed dst the next row overwrites it."""
    dst = call["dst"]
    allocation(dst, np.arange(len(dst)) * (dst.strides[0] // 2) + dst.shape[1], 0x1234)
    proceed(call)


def row_after_t_written(proceed: Proceed, call: Arguments) -> None:
    """Write one row behind the T rows of dst."""
    dst, rows = call["dst"], rows_of(call)
    proceed(call)
    if rows:
        allocation(dst, rows * (dst.strides[0] // 2) + np.arange(dst.shape[1]), 0x1234)


def tile_completed(proceed: Proceed, call: Arguments) -> None:
    """Write rows behind T up to a multiple of 4."""
    dst, rows = call["dst"], rows_of(call)
    proceed(call)
    for row in range(rows, -(-rows // 4) * 4):
        allocation(dst, row * (dst.strides[0] // 2) + np.arange(dst.shape[1]), 0x1234)


def table_repaired_in_place(proceed: Proceed, call: Arguments) -> None:
    """Set negative entries of the caller's block_table to 0 after the gather."""
    proceed(call)
    table = call["block_table"]
    if isinstance(table, np.ndarray):
        table[table < 0] = 0


def counter_in_the_cache(proceed: Proceed, call: Arguments) -> None:
    """Flip a bit in the first byte of src_cache."""
    proceed(call)
    if rows_of(call):
        call["src_cache"][:1, :1, :1] ^= 1


def row_stride_ignored(proceed: Proceed, call: Arguments) -> None:
    """Write dst as if its rows were packed."""
    dst = call["dst"]
    if dst.size == 0:
        return proceed(call)
    packed = np.lib.stride_tricks.as_strided(dst, dst.shape, (dst.shape[1] * dst.itemsize, dst.itemsize))
    return proceed({**call, "dst": packed})


def every_stride_heeded(proceed: Proceed, call: Arguments) -> None:
    """Refuse a column stride of block_table that is not packed, also where no element depends on it."""
    if call["block_table"].size and call["block_table"].strides[-1] != 4:
        raise ValueError("block_table is not contiguous")
    proceed(call)


def dst_offset_in_32_bits(proceed: Proceed, call: Arguments) -> None:
    """Cut byte offsets in dst to 32 bits, so that rows from 2^31 bytes on land before dst."""
    dst, rows = call["dst"], rows_of(call)
    offsets = np.arange(rows) * dst.strides[0] if rows else np.zeros(0, np.int64)
    if rows == 0 or offsets[-1] < 1 << 31:
        return proceed(call)
    kept = np.empty((rows, dst.shape[1]), np.uint16)
    proceed({**call, "dst": kept})
    strip = strip_of(dst)
    for row, offset in zip(kept, offsets.astype(np.int32) // 2, strict=True):
        strip.base[strip.first + offset :][: len(row)] = row
    return None


def misaligned_dst_rounded_down(proceed: Proceed, call: Arguments) -> None:
    """Write dst from the multiple of 16 bytes below its address on."""
    dst = call["dst"]
    off = dst.ctypes.data % 16 // dst.itemsize if dst.size else 0
    if not off:
        return proceed(call)
    strip = strip_of(dst)
    moved = np.lib.stride_tricks.as_strided(strip.base[strip.first - off :], dst.shape, dst.strides)
    return proceed({**call, "dst": moved})


class Remembers:
    """Use the content that an array had when its address was first seen."""

    def __init__(self, name: str) -> None:
        """Set `name`, the argument that is remembered."""
        self.name, self.seen = name, dict[int, Any]()

    def __call__(self, proceed: Proceed, call: Arguments) -> None:
        """Gather with the remembered array, if its shape and dtype are those of the call."""
        array = call[self.name]
        if isinstance(array, np.ndarray) and array.size:
            kept = self.seen.setdefault(array.ctypes.data, array.copy())
            if kept.shape == array.shape and kept.dtype == array.dtype:
                call[self.name] = kept
        proceed(call)


class KeepsStarts:
    """Use the last seq_starts of the same length in a call without seq_starts."""

    last: Any = None

    def __call__(self, proceed: Proceed, call: Arguments) -> None:
        """Gather, and keep a copy of this call's seq_starts."""
        starts = call["seq_starts"]
        if starts is None and self.last is not None and len(self.last) == call["batch_size"]:
            call["seq_starts"] = self.last
        self.last = starts.copy() if isinstance(starts, np.ndarray) else self.last
        proceed(call)
