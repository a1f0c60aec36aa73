"""GATHER: the seq_starts gather, whole (SPEC.md GATHER-1 to GATHER-5, GATHER-10, and its contract)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reference.contract import check_destination, check_legal, check_well_formed
from reference.paging import row_sources
from reference.reading import read_records
from reference.records import FP8_DS_MLA, NVFP4_DS_MLA, RecordLayout
from reference.scalars import Bf16Bits

_ROWS_AT_A_TIME = 1024  # keeps a slice's bytes, indices and products in a core's cache


def gather(
    src_cache: npt.NDArray[np.uint8],
    block_table: npt.NDArray[np.int32],
    workspace_starts: npt.NDArray[np.int32],
    batch_size: int,
    num_rows: int,
    seq_starts: npt.NDArray[np.int32] | None = None,
    layout: RecordLayout = NVFP4_DS_MLA,
) -> Bf16Bits:
    """Gather and read `num_rows` rows of a paged cache.

    src_cache: uint8 [num_blocks, block_size, layout.nbytes]; block_table: int32 [>= R, max_blocks];
    workspace_starts, seq_starts: int32 [>= R], the latter optional; batch_size: R. Any strides.
    Returns uint16 bf16 encodings [num_rows, layout.row]; with R = 0 no row is anybody's: [0, layout.row] (GATHER-10).

    Raises ValueError, naming argument, place, value and range, for a call that is not legal (SPEC.md, Contract).
    """
    check_well_formed(src_cache, block_table, workspace_starts, batch_size, num_rows, seq_starts, layout)
    rows = np.empty((num_rows if batch_size else 0, layout.row), np.uint16)
    _gather_into(rows, src_cache, block_table, workspace_starts[:batch_size], seq_starts, layout)
    return rows


def _gather_into(
    rows: Bf16Bits,
    src_cache: npt.NDArray[np.uint8],
    block_table: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int32],
    seq_starts: npt.NDArray[np.int32] | None,
    layout: RecordLayout,
) -> None:
    if len(rows) == 0 or len(starts) == 0:
        return
    block_size = src_cache.shape[1]
    first = None if seq_starts is None else seq_starts[: len(starts)]
    check_legal(len(src_cache), block_size, block_table, starts, len(rows), first)
    source = row_sources(starts, first, block_size, len(rows))
    block = block_table[source.request, source.column]
    for some in (slice(t, t + _ROWS_AT_A_TIME) for t in range(0, len(rows), _ROWS_AT_A_TIME)):
        rows[some] = read_records(layout, src_cache[block[some], source.slot[some]])


def cp_gather_and_upconvert_nvfp4_kv_cache(
    src_cache: npt.NDArray[np.uint8],
    dst: Bf16Bits,
    block_table: npt.NDArray[np.int32],
    workspace_starts: npt.NDArray[np.int32],
    batch_size: int,
    seq_starts: npt.NDArray[np.int32] | None = None,
) -> None:
    """Gather into dst, uint16 bf16 encodings [T, 576] of any row stride; the other arguments as for `gather`.

    Raises ValueError, with dst untouched, for a call that is not legal (GATHER-6, GATHER-10, GATHER-11).
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
    """The same from a cache of fp8_ds_mla, uint8 [num_blocks, block_size, 656] (TWIN)."""
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
