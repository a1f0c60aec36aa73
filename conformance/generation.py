"""From a geometry and a seed to a case: the same two give the same case everywhere."""

from __future__ import annotations

from dataclasses import dataclass
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


def philox(seed: int) -> np.random.Generator:
    """A counter-based generator; equal seeds give equal numbers on every machine."""
    return np.random.Generator(np.random.Philox(key=seed))


def realize(
    geometry: Geometry,
    seed: int,
    kind: Bytes = "uniform",
    layout: RecordLayout = NVFP4_DS_MLA,
    origin: str = "",
) -> GatherCase:
    """A legal case of that geometry, with table and cache bytes drawn from the seed."""
    random = philox(seed)
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


def _block_table(geometry: Geometry, needed: npt.NDArray[np.int64], random: np.random.Generator) -> Int32s:
    columns = max(1, int(needed.max(initial=0))) + geometry.extra_columns
    shape = (len(needed), columns)
    spread = geometry.extra_blocks
    if geometry.table == "shared":  # requests with a common prefix: one row of blocks for all
        return np.tile(random.permutation(columns + spread)[:columns].astype(np.int32), (len(needed), 1))
    count = len(needed) * columns
    blocks = random.permutation(count + spread)[:count] if geometry.table == "scattered" else np.arange(count)
    return blocks.reshape(shape).astype(np.int32)


def _bytes(shape: tuple[int, ...], kind: Bytes, random: np.random.Generator) -> npt.NDArray[np.uint8]:
    if kind == "special":
        return random.choice(np.array([byte for byte, _ in SPECIAL_BYTES], np.uint8), shape)
    return random.integers(0, 256, shape, np.uint8)
