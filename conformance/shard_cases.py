"""Gathers of sharded context: each rank's share of a batch, chunk by chunk, and what they make together."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from conformance.generation import Random
from conformance.judge import Judge
from fixtures.cases import GatherCase, packed_starts
from reference.chunks import Chunk, plan_mla_context_chunks
from reference.gather import gather
from reference.records import NVFP4_DS_MLA
from reference.scalars import Bf16Bits
from reference.shards import Sharding, interleaved

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


def must_gather_what_one_rank_would(judge: Judge, batch: Sharded, seed: int, with_starts: bool = True) -> None:
    """Raise Differs unless every rank's gathers are right and, interleaved, those of unsharded context (SHARD-5).

    Without starts the workspace is made to hold the whole batch.
    """
    if not with_starts:
        rows = sum(batch.sharding.padded_rows(length) for length in batch.context_lens)
        batch = replace(batch, workspace_rows=max(batch.workspace_rows, batch.sharding.ranks * rows))
    random = Random(seed)
    contexts = [random.bytes((length, NVFP4_DS_MLA.nbytes)) for length in batch.context_lens]
    ranks = [_cache_of_rank(batch, contexts, rank, random) for rank in range(batch.sharding.ranks)]
    for chunk in batch.plan():
        shards = [
            judge.rows(_gather_of_rank(batch, chunk, *cache, rank, with_starts)) for rank, cache in enumerate(ranks)
        ]
        together = interleaved(shards, chunk.seq_lens, batch.sharding)
        judge.same(together, _unsharded(batch, chunk, contexts), f"ranks together, and one rank alone, of {chunk}")


def _cache_of_rank(
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


def _gather_of_rank(
    batch: Sharded, chunk: Chunk, cache: Bytes, table: npt.NDArray[np.int32], rank: int, with_starts: bool
) -> GatherCase:
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


def _unsharded(batch: Sharded, chunk: Chunk, contexts: list[Bytes]) -> Bf16Bits:
    """The golden rows of a chunk, from one cache of blocks of one record that holds whole contexts."""
    records = np.concatenate(contexts)[:, None]
    longest = max(batch.context_lens)
    firsts = packed_starts(batch.context_lens)
    table = (firsts[:, None] + np.arange(longest)).astype(np.int32)[chunk.request_start : chunk.request_end]
    starts = np.array(chunk.starts, np.int32)
    return gather(records, table, packed_starts(chunk.seq_lens), len(starts), sum(chunk.seq_lens), starts)
