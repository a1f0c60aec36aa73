"""Check the contract of the gathers: which calls are well formed and which of those are legal (SPEC.md, Contract)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reference.paging import Sources, row_sources
from reference.records import GENERIC, RecordLayout

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
    """Raise ValueError for a type, rank, size or count that SPEC.md's table of arguments does not allow.

    src_cache: layout.cache_dtype [num_blocks, >= 1, layout.width]; block_table: int32 [>= R, max_blocks];
    workspace_starts: int32 [>= R]; seq_starts: int32 [>= R] or None; batch_size: R. The values in the arrays are not
    read.

    Raises:
        ValueError: If an argument is malformed. Names the argument, its value and the allowed one.

    """
    check_array("src_cache", src_cache, np.dtype(layout.cache_dtype).type, 3)
    if src_cache.shape[1] < 1 or src_cache.shape[2] != layout.width:
        raise ValueError(f"src_cache has shape {src_cache.shape}; allowed is [num_blocks, >= 1, {layout.width}]")
    _check_count("batch_size", batch_size)
    _check_count("num_rows", num_rows)
    requests = f"batch_size {batch_size}"
    _check_entries("block_table", block_table, 2, batch_size, requests)
    _check_entries("workspace_starts", workspace_starts, 1, batch_size, requests)
    if seq_starts is not None:
        _check_entries("seq_starts", seq_starts, 1, batch_size, requests)


def check_well_formed_generic(
    src_cache: Array,
    block_table: Array,
    cu_seq_lens: Array,
    token_to_seq: Array,
    num_tokens: int,
    kv_cache_dtype: str,
    scale: Array,
    seq_starts: Array | None,
) -> RecordLayout:
    """Return the record layout of a well-formed call of gather_and_maybe_dequant_cache.

    The arguments are those of reference.gather.gather_and_maybe_dequant_cache. The values in the arrays are not read.

    Returns:
        The layout of GENERIC for kv_cache_dtype and the last dimension of src_cache.

    Raises:
        ValueError: If an argument is malformed. Names the argument, its value and the allowed one.

    """
    forms = {layout.name: layout.cache_dtype for layout in GENERIC.values()}
    if not isinstance(kv_cache_dtype, str) or kv_cache_dtype not in forms:
        raise ValueError(f"kv_cache_dtype is {kv_cache_dtype!r}; allowed are {', '.join(forms)}")
    check_array("src_cache", src_cache, np.dtype(forms[kv_cache_dtype]).type, 3)
    layout = GENERIC.get((kv_cache_dtype, src_cache.shape[2]))
    if src_cache.shape[1] < 1 or layout is None:
        raise ValueError(f"src_cache has shape {src_cache.shape}; allowed is [num_blocks, >= 1, 576 or 512]")
    _check_count("num_tokens", num_tokens)
    check_array("cu_seq_lens", cu_seq_lens, np.int32, 1)
    if len(cu_seq_lens) < 1:
        raise ValueError("cu_seq_lens has no entries; allowed is at least 1")
    requests = len(cu_seq_lens) - 1
    _check_entries("token_to_seq", token_to_seq, 1, num_tokens, f"num_tokens {num_tokens}")
    _check_entries("block_table", block_table, 2, requests, f"cu_seq_lens of {requests} requests")
    if seq_starts is not None:
        _check_entries("seq_starts", seq_starts, 1, requests, f"cu_seq_lens of {requests} requests")
    check_array("scale", scale, np.float32, 1 if np.ndim(scale) else 0)
    if scale.size != 1:
        raise ValueError(f"scale has shape {scale.shape}; allowed is [1] or []")
    return layout


def check_destination(dst: Array, layout: RecordLayout) -> None:
    """Raise ValueError unless dst is writable uint16 [T, layout.row] whose rows do not overlap.

    Raises:
        ValueError: If dst has another dtype, shape or row stride, or is read-only.

    """
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

    block_table: int32 [>= R, max_blocks]; workspace_starts, seq_starts: int32 [R], exactly the R >= 1 entries in use.
    """
    _check_starts("workspace_starts", workspace_starts)
    source = row_sources(workspace_starts, seq_starts, block_size, num_rows)
    _check_sources(source, num_blocks, block_table, len(workspace_starts), seq_starts)


def check_legal_generic(
    num_blocks: int,
    block_size: int,
    block_table: npt.NDArray[np.int32],
    cu_seq_lens: npt.NDArray[np.int32],
    owners: npt.NDArray[np.int32],
    seq_starts: npt.NDArray[np.int32] | None,
) -> None:
    """Raise ValueError for the first value that makes a call of gather_and_maybe_dequant_cache illegal.

    cu_seq_lens: int32 [R + 1]; `owners`: int32 [T], exactly the entries of token_to_seq in use. The other arguments are
    those of check_legal.
    """
    _check_starts("cu_seq_lens", cu_seq_lens)
    requests, rows = len(cu_seq_lens) - 1, len(owners)
    check_each("cu_seq_lens", cu_seq_lens[-1:], cu_seq_lens[-1:] != rows, f"num_tokens, {rows}", first_index=requests)
    check_each("token_to_seq", owners, (owners < 0) | (owners >= requests), f"0 to {requests - 1}")
    row = np.arange(rows)
    another = (cu_seq_lens[owners] > row) | (cu_seq_lens[owners + 1] <= row)
    check_each("token_to_seq", owners, another, "the request that cu_seq_lens has the row belong to")
    source = row_sources(cu_seq_lens[:-1], seq_starts, block_size, rows, owners)
    _check_sources(source, num_blocks, block_table, requests, seq_starts)


def _check_starts(name: str, first_rows: npt.NDArray[np.int32]) -> None:
    starts = np.asarray(first_rows, np.int64)
    if starts[0] != 0:
        raise ValueError(f"{name}[0] is {starts[0]}; allowed is 0")
    check_each(name, starts[1:], np.diff(starts) < 0, "no less than the entry before it", first_index=1)


def _check_sources(
    source: Sources,
    num_blocks: int,
    block_table: npt.NDArray[np.int32],
    requests: int,
    seq_starts: npt.NDArray[np.int32] | None,
) -> None:
    if seq_starts is not None:
        owns = np.isin(np.arange(requests), source.request)
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
    """Raise ValueError, with place and value, for the first of `values` [N] at which `wrong`, bool [N], is true."""
    if wrong.any():
        index = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"{name}[{index + first_index}] is {values[index]}; allowed is {allowed}")


def check_array(name: str, array: Array, dtype: type[np.generic], rank: int) -> None:
    """Raise ValueError unless `array` is a NumPy array of that dtype and rank with usable strides."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != rank:
        found = f"{array.dtype} of rank {array.ndim}" if isinstance(array, np.ndarray) else type(array).__name__
        raise ValueError(f"{name} is {found}; allowed is {np.dtype(dtype)} of rank {rank}")
    _check_strides(name, array)


def rows_overlap(array: Array) -> bool:
    """Return whether two rows of an array [A, B, N] share memory. The array must not be empty. Rows may interleave."""
    outer, inner = array.shape[:2]
    of_outer = array.strides[0] if outer > 1 else 0
    of_inner = array.strides[1] if inner > 1 else 0
    width = array.shape[2] * array.itemsize
    # For each distance along the second dimension, those along the first that come nearest to cancelling it.
    by_inner = np.arange(inner if of_inner else 1, dtype=np.int64)
    nearest = -by_inner * of_inner // of_outer if of_outer else np.zeros_like(by_inner)
    for by_outer in (nearest - 1, nearest, nearest + 1):
        near = np.abs(by_outer * of_outer + by_inner * of_inner) < width
        if (near & (np.abs(by_outer) < outer) & ((by_inner > 0) | (by_outer != 0))).any():
            return True
    return bool(outer > 1 and of_outer == 0) or bool(inner > 1 and of_inner == 0)


def _check_strides(name: str, array: Array) -> None:
    if array.size == 0:
        return
    # The stride of a dimension with one entry is never used, and NumPy may put anything there.
    used = [stride for stride, size in zip(array.strides, array.shape, strict=True) if size > 1]
    if any(stride < 0 for stride in used):
        raise ValueError(f"{name} has strides of {array.strides} bytes; allowed are none below 0")
    if array.ndim and array.shape[-1] > 1 and array.strides[-1] != array.itemsize:
        raise ValueError(f"{name} has an innermost stride of {array.strides[-1]} bytes; allowed is {array.itemsize}")


def _check_count(name: str, count: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
        raise ValueError(f"{name} is {count!r}; allowed is an integer of at least 0")


def _check_entries(name: str, array: Array, rank: int, count: int, needing: str) -> None:
    check_array(name, array, np.int32, rank)
    if len(array) < count:
        raise ValueError(f"{name} has {len(array)} entries; {needing} needs {count}")
