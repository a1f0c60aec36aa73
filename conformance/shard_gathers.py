"""Judge the gathers of sharded context: each rank's, and the rows that all ranks make together."""

from __future__ import annotations

from dataclasses import replace

from conformance.generation import Random
from conformance.judge import Judge
from conformance.shard_cases import Sharded, cache_of_rank, gather_of_rank, unsharded
from reference.records import NVFP4_DS_MLA
from reference.shards import interleaved


def must_gather_what_one_rank_would(judge: Judge, batch: Sharded, seed: int, with_starts: bool = True) -> None:
    """Raise Differs unless every rank's gathers are right and, interleaved, those of unsharded context (SHARD-5).

    Without starts the workspace is made to hold the whole batch.
    """
    if not with_starts:
        rows = sum(batch.sharding.padded_rows(length) for length in batch.context_lens)
        batch = replace(batch, workspace_rows=max(batch.workspace_rows, batch.sharding.ranks * rows))
    random = Random(seed)
    contexts = [random.bytes((length, NVFP4_DS_MLA.nbytes)) for length in batch.context_lens]
    ranks = [cache_of_rank(batch, contexts, rank, random) for rank in range(batch.sharding.ranks)]
    for chunk in batch.plan():
        shards = [
            judge.rows(gather_of_rank(batch, chunk, *cache, rank, with_starts)) for rank, cache in enumerate(ranks)
        ]
        together = interleaved(shards, chunk.seq_lens, batch.sharding)
        judge.same(together, unsharded(batch, chunk, contexts), f"ranks together, and one rank alone, of {chunk}")
