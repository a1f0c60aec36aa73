"""Batches whose context is gathered in chunks, by name."""

from __future__ import annotations

from fixtures.serve_cases import ONE_RANK, Context, Ints
from reference.shards import Sharding


def context(context_lens: Ints, workspace_rows: int, block_size: int, sharding: Sharding = ONE_RANK) -> Context:
    """A batch with a block table of its own blocks, in an order that is not the order of the requests."""
    requests = len(context_lens)
    queries = tuple(2 + request % 3 for request in range(requests))
    columns = -(-(max(context_lens) + max(queries)) // block_size)
    # 37 generates distinct block numbers modulo a prime.
    table = tuple(tuple((column * requests + r + 1) * 37 % 1009 for column in range(columns)) for r in range(requests))
    return Context(context_lens, queries, block_size, table, workspace_rows, sharding)


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
