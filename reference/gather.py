"""Gather rows from a paged cache: the complete gathers (SPEC.md GATHER-1 to 5, GATHER-10, TWIN-1, TWIN-5 to 7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from reference.contract import (
    check_destination,
    check_legal,
    check_legal_generic,
    check_well_formed,
    check_well_formed_generic,
)
from reference.paging import Sources, row_sources
from reference.reading import read_records
from reference.records import FP8_DS_MLA, NVFP4_DS_MLA, RecordLayout
from reference.scalars import Bf16Bits

_ROWS_AT_A_TIME = 1024  # keeps a slice's bytes, indices and products in a core's cache


def gather(
    src_cache: npt.NDArray[Any],
    block_table: npt.NDArray[np.int32],
    workspace_starts: npt.NDArray[np.int32],
    batch_size: int,
    num_rows: int,
    seq_starts: npt.NDArray[np.int32] | None = None,
    layout: RecordLayout = NVFP4_DS_MLA,
    scale: npt.ArrayLike = 1.0,
) -> Bf16Bits:
    """Gather `num_rows` rows of a paged cache.

    src_cache: layout.cache_dtype [num_blocks, block_size, layout.width], which is uint8 records, or uint16 bf16
    encodings for "auto"; block_table: int32 [>= R, max_blocks]; workspace_starts, seq_starts: int32 [>= R], the latter
    optional; batch_size: R. Any strides. scale: the one scale of the tensor, which only "fp8" uses (TWIN-9).

    Returns:
        uint16 bf16 encodings [num_rows, layout.row], or [0, layout.row] with R = 0 (GATHER-10).

    Raises:
        ValueError: If a call is not legal (SPEC.md, Contract). Names argument, place, value and range.

    """
    check_well_formed(src_cache, block_table, workspace_starts, batch_size, num_rows, seq_starts, layout)
    rows = np.empty((num_rows if batch_size else 0, layout.row), np.uint16)
    _gather_into(rows, src_cache, block_table, workspace_starts[:batch_size], seq_starts, layout, scale)
    return rows


def _gather_into(
    rows: Bf16Bits,
    src_cache: npt.NDArray[Any],
    block_table: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int32],
    seq_starts: npt.NDArray[np.int32] | None,
    layout: RecordLayout,
    scale: npt.ArrayLike = 1.0,
) -> None:
    if len(rows) == 0 or len(starts) == 0:
        return
    block_size = src_cache.shape[1]
    first = None if seq_starts is None else seq_starts[: len(starts)]
    check_legal(len(src_cache), block_size, block_table, starts, len(rows), first)
    _read_into(rows, src_cache, block_table, row_sources(starts, first, block_size, len(rows)), layout, scale)


def _read_into(
    rows: Bf16Bits,
    src_cache: npt.NDArray[Any],
    block_table: npt.NDArray[np.int32],
    source: Sources,
    layout: RecordLayout,
    scale: npt.ArrayLike,
) -> None:
    block = block_table[source.request, source.column]
    for some in (slice(t, t + _ROWS_AT_A_TIME) for t in range(0, len(rows), _ROWS_AT_A_TIME)):
        records = src_cache[block[some], source.slot[some]].view(np.uint8)
        rows[some] = read_records(layout, records, scale)


def cp_gather_and_upconvert_nvfp4_kv_cache(
    src_cache: npt.NDArray[np.uint8],
    dst: Bf16Bits,
    block_table: npt.NDArray[np.int32],
    workspace_starts: npt.NDArray[np.int32],
    batch_size: int,
    seq_starts: npt.NDArray[np.int32] | None = None,
) -> None:
    """Gather nvfp4_ds_mla records into dst, uint16 bf16 encodings [T, 576] of any row stride.

    The other arguments are those of `gather`.

    Raises:
        ValueError: If a call is not legal (GATHER-6, GATHER-10, GATHER-11). dst is then untouched.

    """
    _checked_gather(src_cache, dst, block_table, workspace_starts, batch_size, seq_starts, NVFP4_DS_MLA)


def cp_gather_and_upconvert_fp8_kv_cache(
    src_cache: npt.NDArray[np.uint8],
    dst: Bf16Bits,
    block_table: npt.NDArray[np.int32],
    workspace_starts: npt.NDArray[np.int32],
    batch_size: int,
    seq_starts: npt.NDArray[np.int32] | None = None,
) -> None:
    """Gather fp8_ds_mla records into dst, uint16 bf16 encodings [T, 576] of any row stride (TWIN).

    src_cache is uint8 [num_blocks, block_size, 656]. The other arguments are those of `gather`.

    Raises:
        ValueError: If a call is not legal (SPEC.md, Contract). dst is then untouched.

    """
    _checked_gather(src_cache, dst, block_table, workspace_starts, batch_size, seq_starts, FP8_DS_MLA)


def _checked_gather(
    src_cache: npt.NDArray[np.uint8],
    dst: Bf16Bits,
    block_table: npt.NDArray[np.int32],
    workspace_starts: npt.NDArray[np.int32],
    batch_size: int,
    seq_starts: npt.NDArray[np.int32] | None,
    layout: RecordLayout,
) -> None:
    check_destination(dst, layout)
    check_well_formed(src_cache, block_table, workspace_starts, batch_size, len(dst), seq_starts, layout)
    _gather_into(dst, src_cache, block_table, workspace_starts[:batch_size], seq_starts, layout)


def gather_and_maybe_dequant_cache(
    src_cache: npt.NDArray[Any],
    dst: Bf16Bits,
    block_table: npt.NDArray[np.int32],
    cu_seq_lens: npt.NDArray[np.int32],
    token_to_seq: npt.NDArray[np.int32],
    num_tokens: int,
    kv_cache_dtype: str,
    scale: npt.NDArray[np.float32],
    seq_starts: npt.NDArray[np.int32] | None = None,
) -> None:
    """Gather records of n equal numbers, n = 576 or 512, into the first num_tokens rows of dst (TWIN-5 to TWIN-9).

    src_cache: [num_blocks, block_size, n], uint16 bf16 encodings for "auto", uint8 for "fp8"; dst: uint16 bf16
    encodings [>= T, n] of any row stride; block_table: int32 [>= R, max_blocks]; cu_seq_lens: int32 [R + 1];
    token_to_seq: int32 [>= T]; num_tokens: T; scale: float32 [1] or []; seq_starts: int32 [>= R] or None.

    Raises:
        ValueError: If a call is not legal (SPEC.md, Contract). dst is then untouched.

    """
    layout = check_well_formed_generic(
        src_cache, block_table, cu_seq_lens, token_to_seq, num_tokens, kv_cache_dtype, scale, seq_starts
    )
    check_destination(dst, layout)
    if len(dst) < num_tokens:
        raise ValueError(f"num_tokens is {num_tokens}; allowed is at most {len(dst)}, the rows of dst")
    requests, block_size = len(cu_seq_lens) - 1, src_cache.shape[1]
    if num_tokens == 0 or requests == 0:
        return
    owners, first = token_to_seq[:num_tokens], None if seq_starts is None else seq_starts[:requests]
    check_legal_generic(len(src_cache), block_size, block_table, cu_seq_lens, owners, first)
    source = row_sources(cu_seq_lens[:-1], first, block_size, num_tokens, owners)
    _read_into(dst[:num_tokens], src_cache, block_table, source, layout, scale)
