"""Gathers of sharded context: each rank's share of a batch, chunk by chunk, and what they make together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from conformance.generation import Random
from fixtures.cases import GatherCase, packed_starts
from reference.chunks import Chunk, plan_mla_context_chunks
from reference.gather import gather
from reference.records import NVFP4_DS_MLA
from reference.scalars import Bf16Bits
from reference.shards import Sharding

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Sharded:
    """A batch whose context is spread over ranks, and the workspace rows of one of them."""

    context_lens: tuple[int, ...]
    sharding: Sharding
    block_size: int
    workspace_rows: int

    def plan(self) -> list[Chunk]:
        """The chunks, in tokens (SHARD-3)."""
        alignment = self.sharding.alignment(1)
        budget = self.workspace_rows // self.sharding.ranks
        most = self.workspace_rows // alignment * alignment
        return plan_mla_context_chunks(self.context_lens, budget, most, alignment, self.sharding.padded_rows)


def cache_of_rank(
    batch: Sharded, contexts: list[Bytes], rank: int, random: Random
) -> tuple[Bytes, npt.NDArray[np.int32]]:
    """The paged cache of a rank, uint8 [num_blocks, block_size, 352], and its block_table; padding holds any bytes."""
    sharding, size = batch.sharding, batch.block_size
    columns = max(1, -(-max(sharding.padded_rows(length) for length in batch.context_lens) // size))
    table = random.permutation(len(contexts) * columns).reshape(-1, columns)
    cache = random.bytes((table.size, size, NVFP4_DS_MLA.nbytes))
    for request, records in enumerate(contexts):
        tokens = np.arange(len(records))
        mine = tokens[sharding.rank_of(tokens) == rank]
        column, slot = np.divmod(sharding.local_index(mine), size)
        cache[table[request, column], slot] = records[mine]
    return cache, table


def gather_of_rank(
    batch: Sharded, chunk: Chunk, cache: Bytes, table: npt.NDArray[np.int32], rank: int, with_starts: bool
) -> GatherCase:
    """Return one rank's gather of a chunk, of whose starts and lengths it has its own share."""
    padded = batch.sharding.padded_rows
    rows = [padded(length) for length in chunk.seq_lens]
    return GatherCase(
        cache,
        table[chunk.request_start : chunk.request_end],
        packed_starts(rows),
        sum(rows),
        np.array([padded(start) for start in chunk.starts], np.int32) if with_starts else None,
        origin=f"rank {rank} of {batch.sharding}",
    )


def unsharded(batch: Sharded, chunk: Chunk, contexts: list[Bytes]) -> Bf16Bits:
    """The golden rows of a chunk, from one cache of blocks of one record that holds whole contexts."""
    records = np.concatenate(contexts)[:, None]
    longest = max(batch.context_lens)
    firsts = packed_starts(batch.context_lens)
    table = (firsts[:, None] + np.arange(longest)).astype(np.int32)[chunk.request_start : chunk.request_end]
    starts = np.array(chunk.starts, np.int32)
    return gather(records, table, packed_starts(chunk.seq_lens), len(starts), sum(chunk.seq_lens), starts)
