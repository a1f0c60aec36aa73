"""What is asked of the code that prefills over cached context, and what it asks of its gathers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from reference.chunks import Chunk, plan_mla_context_chunks
from reference.shards import Sharding

SITES = ("dense", "dcp", "kimi_k3", "sparse_masked", "sparse_topk")
"""The places that choose a gather: dense prefill, its path under decode context parallelism, Kimi-K3's own path, and
two of sparse MLA: masked attention over chunks of context, and top-k attention, which gathers whole requests."""

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
