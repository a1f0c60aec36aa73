"""The contract of a gather: which calls are well formed, and which of those are legal (SPEC.md, Contract)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reference.paging import row_sources
from reference.records import RecordLayout

Array = npt.NDArray[np.generic]


def check_well_formed(
    src_cache: Array,
    block_table: Array,
    workspace_starts: Array,
    batch_size: int,
    num_rows: int,
    seq_starts: Array | None,
    layout: RecordLayout,
) -> None:
    """Raise ValueError for a type, a rank, a size or a count that SPEC.md's table of arguments does not allow."""
    check_array("src_cache", src_cache, np.uint8, 3)
    if src_cache.shape[1] < 1 or src_cache.shape[2] != layout.nbytes:
        raise ValueError(f"src_cache has shape {src_cache.shape}; allowed is [num_blocks, >= 1, {layout.nbytes}]")
    _check_count("batch_size", batch_size)
    _check_count("num_rows", num_rows)
    _check_requests("block_table", block_table, 2, batch_size)
    _check_requests("workspace_starts", workspace_starts, 1, batch_size)
    if seq_starts is not None:
        _check_requests("seq_starts", seq_starts, 1, batch_size)


def check_destination(dst: Array, layout: RecordLayout) -> None:
    """Raise ValueError unless dst is writable uint16 [T, layout.row] whose rows do not overlap."""
    check_array("dst", dst, np.uint16, 2)
    if dst.shape[1] != layout.row:
        raise ValueError(f"dst has shape {dst.shape}; allowed is [T, {layout.row}]")
    if len(dst) > 1 and dst.strides[0] < layout.row * dst.itemsize:
        least = layout.row * dst.itemsize
        raise ValueError(f"dst has a row stride of {dst.strides[0]} bytes; allowed is at least {least}")
    if not dst.flags.writeable:
        raise ValueError("dst is read-only; allowed is a writable array")


def check_legal(
    num_blocks: int,
    block_size: int,
    block_table: npt.NDArray[np.int32],
    workspace_starts: npt.NDArray[np.int32],
    num_rows: int,
    seq_starts: npt.NDArray[np.int32] | None,
) -> None:
    """Raise ValueError for the first value that makes a well-formed call illegal.

    workspace_starts and seq_starts hold exactly the R >= 1 entries in use.
    """
    starts = np.asarray(workspace_starts, np.int64)
    if starts[0] != 0:
        raise ValueError(f"workspace_starts[0] is {starts[0]}; allowed is 0")
    check_each("workspace_starts", starts[1:], np.diff(starts) < 0, "no less than the entry before it", first_index=1)
    source = row_sources(starts, seq_starts, block_size, num_rows)
    if seq_starts is not None:
        owns = np.isin(np.arange(len(starts)), source.request)
        check_each("seq_starts", seq_starts, owns & (np.asarray(seq_starts) < 0), "at least 0")
    _check_columns(source.request, source.token, source.column, block_table.shape[1])
    blocks = block_table[source.request, source.column]
    beyond = np.flatnonzero((blocks < 0) | (blocks >= num_blocks))
    if beyond.size:
        row = beyond[0]
        entry = f"block_table[{source.request[row]}, {source.column[row]}], needed by row {row},"
        raise ValueError(f"{entry} is {blocks[row]}; allowed is 0 to {num_blocks - 1}")


def _check_columns(
    request: npt.NDArray[np.int64], token: npt.NDArray[np.int64], column: npt.NDArray[np.int64], max_blocks: int
) -> None:
    beyond = np.flatnonzero(column >= max_blocks)
    if beyond.size:
        row = beyond[0]
        raise ValueError(
            f"block_table has {max_blocks} columns; row {row}, which is token {token[row]} of request {request[row]}, "
            f"needs column {column[row]}"
        )


def check_each(name: str, values: Array, wrong: npt.NDArray[np.bool_], allowed: str, first_index: int = 0) -> None:
    """Raise ValueError for the first of `values` that is wrong, with its place and value."""
    if wrong.any():
        index = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"{name}[{index + first_index}] is {values[index]}; allowed is {allowed}")


def check_array(name: str, array: Array, dtype: type[np.generic], rank: int) -> None:
    """Raise ValueError unless `array` is a NumPy array of that dtype and rank with usable strides."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != rank:
        found = f"{array.dtype} of rank {array.ndim}" if isinstance(array, np.ndarray) else type(array).__name__
        raise ValueError(f"{name} is {found}; allowed is {np.dtype(dtype)} of rank {rank}")
    _check_strides(name, array)


def _check_strides(name: str, array: Array) -> None:
    if array.size == 0:
        return
    # The stride of a dimension with one entry is never used, and NumPy may put anything there.
    used = [stride for stride, size in zip(array.strides, array.shape, strict=True) if size > 1]
    if any(stride < 0 for stride in used):
        raise ValueError(f"{name} has strides of {array.strides} bytes; allowed are none below 0")
    if array.shape[-1] > 1 and array.strides[-1] != array.itemsize:
        raise ValueError(f"{name} has an innermost stride of {array.strides[-1]} bytes; allowed is {array.itemsize}")


def _check_count(name: str, count: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
        raise ValueError(f"{name} is {count!r}; allowed is an integer of at least 0")


def _check_requests(name: str, array: Array, rank: int, batch_size: int) -> None:
    check_array(name, array, np.int32, rank)
    if len(array) < batch_size:
        raise ValueError(f"{name} has {len(array)} entries; batch_size {batch_size} needs as many")
