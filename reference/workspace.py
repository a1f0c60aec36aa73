"""Compute the number of rows in the workspace of a chunk (SPEC.md PLAN-20, PLAN-21, SHARD-13)."""

from __future__ import annotations

from typing import Literal

from reference.shards import Sharding

MOST = 65_536
"""The upper limit, in rows, before alignment."""


def determine_chunked_prefill_workspace_size(
    builder: Literal["dense", "sparse"],
    max_model_len: int,
    max_num_seqs: int,
    block_size: int,
    index_topk: int,
    sharding: Sharding,
) -> int:
    """Compute the number of rows of a builder's workspace. `index_topk` counts only for the builder "sparse".

    Returns:
        The number of rows, a multiple of the alignment unless the builder is "sparse" on one rank.

    Raises:
        ValueError: If a number is below 1, or the builder is neither "dense" nor "sparse".

    """
    numbers = {
        "max_model_len": max_model_len,
        "max_num_seqs": max_num_seqs,
        "block_size": block_size,
        "index_topk": index_topk,
        "ranks": sharding.ranks,
        "interleave": sharding.interleave,
    }
    for name, number in numbers.items():
        if number < 1:
            raise ValueError(f"{name} is {number}; allowed is at least 1")
    if builder not in ("dense", "sparse"):
        raise ValueError(f"builder is {builder!r}; allowed are 'dense' and 'sparse'")
    rows = min(max(8 * max_model_len, 4 * max_num_seqs * block_size), MOST)
    if builder == "sparse":
        rows = max(min(rows, max_num_seqs * index_topk), block_size)
        if sharding.ranks == 1:
            return rows
    alignment = sharding.alignment(block_size) if sharding.ranks > 1 else block_size
    return -(-rows // alignment) * alignment
