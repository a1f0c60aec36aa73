"""What is asked of the code that prefills over cached context, and what it asks of its gathers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from reference.chunks import Chunk, plan_mla_context_chunks
from reference.shards import Sharding

SITES = ("dense", "dcp", "kimi_k3", "sparse_masked", "sparse_topk")
"""The places that choose a gather: dense prefill, its path under decode context parallelism, Kimi-K3's own path, and
two of sparse MLA: masked attention over chunks of context, and top-k attention, which gathers whole requests."""

FP8_SITES = ("dense", "kimi_k3")
"""Those that may gather into a workspace of fp8."""

Ints = tuple[int, ...]
ONE_RANK = Sharding(1)


@dataclass(frozen=True)
class Context:
    """A batch whose context is to be gathered in chunks.

    block_table has a row for each request. A site that gathers whole requests ("sparse_topk") has one chunk for each.
    """

    context_lens: Ints
    query_lens: Ints
    block_size: int
    block_table: tuple[Ints, ...]
    workspace_rows: int
    sharding: Sharding = ONE_RANK
    workspace: str = "bf16"

    def chunks(self, site: str) -> list[Chunk]:
        """The plan that a site is handed, in tokens of the whole context."""
        if site == "sparse_topk":
            lengths = [context + query for context, query in zip(self.context_lens, self.query_lens, strict=True)]
            firsts = range(0, len(lengths), 2)
            pairs = [tuple(lengths[first : first + 2]) for first in firsts]
            return [Chunk(r, r + len(pair), (0,) * len(pair), pair) for r, pair in zip(firsts, pairs, strict=True)]
        alignment = self.sharding.alignment(self.block_size)
        budget = self.workspace_rows // self.sharding.ranks
        most = self.workspace_rows // alignment * alignment
        return plan_mla_context_chunks(self.context_lens, budget, most, alignment, self.sharding.padded_rows)

    def local(self, chunk: Chunk) -> tuple[Ints, Ints]:
        """The chunk's starts and lengths on one rank, in rows (SHARD-2, SHARD-3); with one rank they are tokens."""
        rows = self.sharding.padded_rows
        return tuple(map(rows, chunk.starts)), tuple(map(rows, chunk.seq_lens))


@dataclass(frozen=True)
class DispatchCase:
    """What a site is asked to gather, as a fixture holds it."""

    site: str
    kv_cache_dtype: str
    context: Context


@dataclass(frozen=True)
class GatherCall:
    """One call of a gather operator: its arguments by value, and where in the target's code it was made.

    `rows` rows of the workspace are written from row first_row on, those of the first `requests` entries of
    workspace_starts (cu_seq_lens). `owners` is token_to_seq, where an operator is told it; kv_cache_dtype likewise.
    """

    operator: str
    rows: int
    block_table: tuple[Ints, ...]
    workspace_starts: Ints
    requests: int
    seq_starts: Ints | None = None
    first_row: int = 0
    owners: Ints | None = None
    kv_cache_dtype: str | None = None
    where: str = "the target"


def context(context_lens: Ints, workspace_rows: int, block_size: int, sharding: Sharding = ONE_RANK) -> Context:
    """A batch with a block table of its own blocks, in an order that is not the order of the requests."""
    requests = len(context_lens)
    queries = tuple(2 + request % 3 for request in range(requests))
    columns = -(-(max(context_lens) + max(queries)) // block_size)
    # 37 generates distinct block numbers modulo a prime.
    table = tuple(tuple((column * requests + r + 1) * 37 % 1009 for column in range(columns)) for r in range(requests))
    return Context(context_lens, queries, block_size, table, workspace_rows, sharding)


def cumulated(lengths: Ints) -> Ints:
    """cu_seq_lens: where each begins, and the sum."""
    return tuple(accumulate(lengths, initial=0))


CONTEXTS = {
    "one request of two chunks": context((128,), 64, 64),
    "one request of one chunk": context((40,), 64, 64),
    "one request of 18 chunks": context((1100,), 64, 64),
    "the acceptance test of the original change": context((1000, 100, 64, 0), 512, 64),
    "requests without context between others": context((0, 70, 0, 0, 5, 130), 128, 64),
    "no request with context": context((0, 0), 64, 64),
    "blocks of 16": context((40, 3), 32, 16),
}
SHARDED = {
    "2 ranks, whose second chunk starts at row 96": context((256,), 192, 64, Sharding(2)),
    "3 ranks that take turns of 2 tokens": context((1000, 101, 0, 64), 576, 64, Sharding(3, 2)),
    "4 ranks": context((600,), 256, 64, Sharding(4)),
}


def batches(site: str) -> list[Context]:
    """What a site is asked about."""
    return list((SHARDED if site == "dcp" else CONTEXTS).values())
