"""What goes wrong around a gather: what is refused, what is remembered, and writes to where nothing may be written."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.faults.around import Arguments, Proceed, allocation, rows_of
from conformance.faults.steps import strip_of


def no_rows_is_an_error(proceed: Proceed, call: Arguments) -> None:
    """An empty grid is a launch error."""
    if rows_of(call) == 0:
        raise RuntimeError("CUDA error: invalid configuration argument")
    proceed(call)


def no_requests_is_an_error(proceed: Proceed, call: Arguments) -> None:
    """As if there were always an entry to begin with."""
    if len(call["block_table"]) == 0 or call.get("batch_size") == 0:
        raise RuntimeError("CUDA error: invalid configuration argument")
    proceed(call)


def rows_without_requests_zeroed(proceed: Proceed, call: Arguments) -> None:
    """A workspace made tidy that is nobody's."""
    if call.get("batch_size") == 0:
        call["dst"][:] = 0
    proceed(call)


def nothing_refused(proceed: Proceed, call: Arguments) -> None:
    """What cannot be gathered is not gathered, without a word."""
    try:
        proceed(call)
    except ValueError:
        return


def refused_without_a_name(proceed: Proceed, call: Arguments) -> None:
    """No argument is named."""
    try:
        proceed(call)
    except ValueError:
        raise ValueError("invalid argument") from None


def refused_too_late(proceed: Proceed, call: Arguments) -> None:
    """A check after the first row is written."""
    try:
        proceed(call)
    except ValueError:
        if isinstance(call["dst"], np.ndarray) and call["dst"].size:
            call["dst"][:1] = 0
        raise


def types_taken_for_granted(proceed: Proceed, call: Arguments) -> None:
    """An array of other integers read as it comes."""
    for name in ("block_table", "workspace_starts", "seq_starts"):
        if call[name] is not None and call[name].dtype.kind == "i":
            call[name] = call[name].astype(np.int32)
    proceed(call)


def batch_size_unchecked(proceed: Proceed, call: Arguments) -> None:
    """As many requests as there are entries, whatever is asked for."""
    if isinstance(call["batch_size"], int) and call["batch_size"] > len(call["workspace_starts"]):
        call["batch_size"] = len(call["workspace_starts"])
    proceed(call)


def length_taken_for_r(proceed: Proceed, call: Arguments) -> None:
    """The entries of workspace_starts are the requests."""
    proceed({**call, "batch_size": len(call["workspace_starts"])})


def column_576_written(proceed: Proceed, call: Arguments) -> None:
    """One column too many, which the next row repairs where rows are packed."""
    dst = call["dst"]
    allocation(dst, np.arange(len(dst)) * (dst.strides[0] // 2) + dst.shape[1], 0x1234)
    proceed(call)


def row_after_t_written(proceed: Proceed, call: Arguments) -> None:
    """One row too many."""
    dst, rows = call["dst"], rows_of(call)
    proceed(call)
    if rows:
        allocation(dst, rows * (dst.strides[0] // 2) + np.arange(dst.shape[1]), 0x1234)


def tile_completed(proceed: Proceed, call: Arguments) -> None:
    """All rows of the last tile of 4 written."""
    dst, rows = call["dst"], rows_of(call)
    proceed(call)
    for row in range(rows, -(-rows // 4) * 4):
        allocation(dst, row * (dst.strides[0] // 2) + np.arange(dst.shape[1]), 0x1234)


def table_repaired_in_place(proceed: Proceed, call: Arguments) -> None:
    """A negative entry becomes block 0, as padding is made harmless."""
    proceed(call)
    table = call["block_table"]
    if isinstance(table, np.ndarray):
        table[table < 0] = 0


def counter_in_the_cache(proceed: Proceed, call: Arguments) -> None:
    """The first byte of the cache used for a lock."""
    proceed(call)
    if rows_of(call):
        call["src_cache"][:1, :1, :1] ^= 1


def row_stride_ignored(proceed: Proceed, call: Arguments) -> None:
    """dst taken as packed."""
    dst = call["dst"]
    if dst.size == 0:
        return proceed(call)
    packed = np.lib.stride_tricks.as_strided(dst, dst.shape, (dst.shape[1] * dst.itemsize, dst.itemsize))
    return proceed({**call, "dst": packed})


def every_stride_heeded(proceed: Proceed, call: Arguments) -> None:
    """A check for contiguity that counts strides which are never used."""
    if call["block_table"].size and call["block_table"].strides[-1] != 4:
        raise ValueError("block_table is not contiguous")
    proceed(call)


def dst_offset_in_32_bits(proceed: Proceed, call: Arguments) -> None:
    """Rows above 2^31 bytes land before dst."""
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
    """Stores of 16 bytes that begin at the multiple of 16 below."""
    dst = call["dst"]
    off = dst.ctypes.data % 16 // dst.itemsize if dst.size else 0
    if not off:
        return proceed(call)
    strip = strip_of(dst)
    moved = np.lib.stride_tricks.as_strided(strip.base[strip.first - off :], dst.shape, dst.strides)
    return proceed({**call, "dst": moved})


class Remembers:
    """Uses what an array held when one at its address was first seen."""

    def __init__(self, name: str) -> None:
        """`name` is the argument."""
        self.name, self.seen = name, dict[int, Any]()

    def __call__(self, proceed: Proceed, call: Arguments) -> None:
        """See Meddler."""
        array = call[self.name]
        if isinstance(array, np.ndarray) and array.size:
            kept = self.seen.setdefault(array.ctypes.data, array.copy())
            if kept.shape == array.shape and kept.dtype == array.dtype:
                call[self.name] = kept
        proceed(call)


class KeepsStarts:
    """Without seq_starts, uses those of the last call with as many."""

    last: Any = None

    def __call__(self, proceed: Proceed, call: Arguments) -> None:
        """See Meddler."""
        starts = call["seq_starts"]
        if starts is None and self.last is not None and len(self.last) == call["batch_size"]:
            call["seq_starts"] = self.last
        self.last = starts.copy() if isinstance(starts, np.ndarray) else self.last
        proceed(call)
