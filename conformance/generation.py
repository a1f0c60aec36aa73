"""From a geometry and a seed to a case: the same two give the same case everywhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from fixtures.cases import CONTIGUOUS, Arrangement, GatherCase, Int32s, packed_starts
from reference.paging import row_owners
from reference.records import NVFP4_DS_MLA, RecordLayout

Table = Literal["scattered", "ascending", "shared"]
Bytes = Literal["uniform", "special"]

SPECIAL_BYTES = (
    (0x00, "+0; codes 0 0"),
    (0x80, "-0; codes 0 -0"),
    (0x08, "smallest normal e4m3; codes -0 0"),
    (0x01, "smallest e4m3 subnormal; codes 0.5 0"),
    (0x07, "largest e4m3 subnormal; codes 6 0"),
    (0x87, "its negative; codes 6 -0"),
    (0x7E, "448, the largest e4m3; codes -4 6"),
    (0xFE, "-448; codes -4 -6"),
    (0x7F, "NaN; codes -6 6"),
    (0xFF, "NaN with a sign; codes -6 -6"),
    (0x38, "1; codes -0 1.5"),
    (0x61, "36; codes 0.5 4: unlike nibbles"),
)


@dataclass(frozen=True)
class Geometry:
    """A gather without its bytes.

    `lengths` and `starts` (None: no seq_starts) have an entry a request. `extra_rows` moves T away from the lengths'
    sum: up (the last request owns the rows) or down. The table has `extra_columns` more than the longest request needs,
    the cache `extra_blocks` more than the table names.
    """

    block_size: int
    lengths: tuple[int, ...]
    starts: tuple[int, ...] | None = None
    extra_rows: int = 0
    extra_columns: int = 0
    extra_blocks: int = 0
    table: Table = "scattered"
    arrangement: Arrangement = CONTIGUOUS

    @property
    def num_rows(self) -> int:
        """T."""
        return max(0, sum(self.lengths) + self.extra_rows)


class Random:
    """Numbers from Philox's raw stream, which NumPy keeps the same in every release (unlike its distributions)."""

    def __init__(self, seed: int) -> None:
        """Equal seeds give equal numbers on every machine."""
        self._philox = np.random.Philox(key=seed)

    def bytes(self, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
        """Uniform bytes."""
        count = int(np.prod(shape))
        raw = np.asarray(self._philox.random_raw(-(-count // 8)), "<u8")
        return raw.view(np.uint8)[:count].reshape(shape)

    def permutation(self, count: int) -> npt.NDArray[np.int32]:
        """The numbers below `count` in random order."""
        return np.argsort(self._philox.random_raw(count), kind="stable").astype(np.int32)


def realize(
    geometry: Geometry,
    seed: int,
    kind: Bytes = "uniform",
    layout: RecordLayout = NVFP4_DS_MLA,
    origin: str = "",
) -> GatherCase:
    """A legal case of that geometry, with table and cache bytes drawn from the seed."""
    random = Random(seed)
    starts = packed_starts(geometry.lengths)
    needed = blocks_needed(geometry, starts)
    table = _block_table(geometry, needed, random)
    num_blocks = int(table.max(initial=-1)) + 1 + geometry.extra_blocks
    shape = (num_blocks, geometry.block_size, layout.nbytes)
    return GatherCase(
        records=_bytes(shape, kind, random),
        block_table=table,
        workspace_starts=starts,
        num_rows=geometry.num_rows,
        seq_starts=None if geometry.starts is None else np.array(geometry.starts, np.int32),
        arrangement=geometry.arrangement,
        layout=layout,
        origin=origin or f"seed={seed}, {kind} bytes",
    )


def blocks_needed(geometry: Geometry, workspace_starts: Int32s) -> npt.NDArray[np.int64]:
    """int64 [R]: how many columns of its table row each request needs, 0 if it owns no row."""
    count = len(geometry.lengths)
    if count == 0:
        return np.zeros(0, np.int64)
    owned = np.bincount(row_owners(workspace_starts, geometry.num_rows), minlength=count)
    first = np.zeros(count, np.int64) if geometry.starts is None else np.array(geometry.starts)
    return np.where(owned > 0, -(-(first + owned) // geometry.block_size), 0)


def _block_table(geometry: Geometry, needed: npt.NDArray[np.int64], random: Random) -> Int32s:
    columns = max(1, int(needed.max(initial=0))) + geometry.extra_columns
    shape = (len(needed), columns)
    spread = geometry.extra_blocks
    if geometry.table == "shared":  # requests with a common prefix: one row of blocks for all
        return np.tile(random.permutation(columns + spread)[:columns], (len(needed), 1))
    count = len(needed) * columns
    blocks = random.permutation(count + spread)[:count] if geometry.table == "scattered" else np.arange(count)
    return blocks.reshape(shape).astype(np.int32)


def _bytes(shape: tuple[int, ...], kind: Bytes, random: Random) -> npt.NDArray[np.uint8]:
    drawn = random.bytes(shape)
    special = np.array([byte for byte, _ in SPECIAL_BYTES], np.uint8)
    return special[drawn % len(special)] if kind == "special" else drawn


def without_nan(case: GatherCase) -> GatherCase:
    """Return the case of nvfp4_ds_mla with a number in place of each scale and RoPE byte that is NaN."""
    records, layout = case.records.copy(), case.layout
    part = records[..., layout.rope.offset : layout.scales.end]
    part[(part & 0x7F) == 0x7F] ^= 0x40
    return replace(case, records=records)
