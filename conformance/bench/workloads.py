"""Make the arrays of a gather's geometry, without the bytes of its cache."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from conformance.generation import Random
from fixtures.cases import Int32s, packed_starts
from reference.paging import Sources, row_sources
from reference.records import NVFP4_DS_MLA

RECORD = NVFP4_DS_MLA.nbytes
ROW = NVFP4_DS_MLA.row
BYTES_A_ROW = RECORD + 2 * ROW
"""Bytes to read and write for one row of dst: a record and a row of bf16, together 1,504."""


@dataclass(frozen=True, order=True)
class Case:
    """Hold the rows of dst, the records of a block, and the number of requests that share the rows."""

    rows: int
    block_size: int
    requests: int

    @property
    def nbytes(self) -> int:
        """The bytes that one gather has to read and write."""
        return self.rows * BYTES_A_ROW


@dataclass(frozen=True, eq=False)
class Workload:
    """Hold the int32 arguments of a case's gather: block_table [R, columns], workspace_starts [R], seq_starts [R].

    The cache has `num_blocks` blocks, all of them in use.
    """

    case: Case
    block_table: Int32s
    workspace_starts: Int32s
    seq_starts: Int32s
    num_blocks: int

    @property
    def cache_shape(self) -> tuple[int, int, int]:
        """The shape of src_cache, which is uint8."""
        return (self.num_blocks, self.case.block_size, RECORD)

    @property
    def set_nbytes(self) -> int:
        """The bytes of a cache and a dst together."""
        return self.num_blocks * self.case.block_size * RECORD + 2 * ROW * self.case.rows

    @cached_property
    def sources(self) -> Sources:
        """The source of each row: int64 [rows] for its request, token, column and slot."""
        return row_sources(self.workspace_starts, self.seq_starts, self.case.block_size, self.case.rows)


def workload(case: Case, seed: int = 0) -> Workload:
    """Return a legal gather: uneven lengths, unaligned starts, and scattered blocks that no two requests share."""
    random = Random(seed)
    lengths = _uneven(case.rows, case.requests, random)
    amid = 1 + _below(case.block_size - 1, case.requests, random) if case.block_size > 1 else 0
    first = case.block_size * _below(3, case.requests, random) + amid
    # No row needs the blocks before a request's first token, so that only those from there on are in the cache.
    first_column, columns = first // case.block_size, -(-(first + lengths) // case.block_size)
    numbers = np.arange(columns.max())
    used = (numbers >= first_column[:, None]) & (numbers < columns[:, None]) & (lengths[:, None] > 0)
    table = np.zeros(used.shape, np.int32)
    num_blocks = int(used.sum())
    table[used] = random.permutation(num_blocks)
    return Workload(case, table, packed_starts(lengths.tolist()), first.astype(np.int32), num_blocks)


def rows_to_check(work: Workload, seed: int = 1) -> npt.NDArray[np.int64]:
    """Return rows to compare, int64 [N] ascending: first, last, some at request boundaries, and random ones."""
    random, rows = Random(seed), work.case.rows
    starts = work.workspace_starts.astype(np.int64)
    beside = np.concatenate([starts, starts - 1])
    some = beside[random.permutation(len(beside))[:512]]
    chosen = np.unique(np.concatenate([[0, rows - 1], some, _below(rows, 256, random)]))
    return chosen[(chosen >= 0) & (chosen < rows)]


def _uneven(rows: int, requests: int, random: Random) -> npt.NDArray[np.int64]:
    fractions = (random.bytes((requests, 8)).view("<u8").ravel() >> np.uint64(11)) / float(1 << 53)
    weights = fractions**2 + 0.05
    ends = np.floor(np.cumsum(weights) / weights.sum() * rows).astype(np.int64)
    ends[-1] = rows
    lengths: npt.NDArray[np.int64] = np.diff(ends, prepend=0)
    return lengths


def _below(limit: int, count: int, random: Random) -> npt.NDArray[np.int64]:
    return (random.bytes((count, 8)).view("<u8").ravel() % np.uint64(limit)).astype(np.int64)
