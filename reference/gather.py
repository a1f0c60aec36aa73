"""GATHER: the seq_starts gather, whole (SPEC.md GATHER-1 to GATHER-5, GATHER-10, and its contract)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reference.contract import check_destination, check_legal, check_well_formed
from reference.paging import row_sources
from reference.reading import read_records
from reference.records import NVFP4_DS_MLA, RecordLayout
from reference.scalars import Bf16Bits

_ROWS_AT_A_TIME = 512  # keeps a slice's bytes, indices and products in a core's cache


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
    if batch_size == 0 or num_rows == 0:
        return np.empty((0, layout.row), np.uint16)
    block_size = src_cache.shape[1]
    starts = workspace_starts[:batch_size]
    first = None if seq_starts is None else seq_starts[:batch_size]
    check_legal(len(src_cache), block_size, block_table, starts, num_rows, first)
    source = row_sources(starts, first, block_size, num_rows)
    block = block_table[source.request, source.column]
    rows = np.empty((num_rows, layout.row), np.uint16)
    for some in (slice(t, t + _ROWS_AT_A_TIME) for t in range(0, num_rows, _ROWS_AT_A_TIME)):
        rows[some] = read_records(layout, src_cache[block[some], source.slot[some]])
    return rows


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
    check_destination(dst, NVFP4_DS_MLA)
    rows = gather(src_cache, block_table, workspace_starts, batch_size, len(dst), seq_starts)
    dst[: len(rows)] = rows
