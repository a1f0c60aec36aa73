"""SHARD: gathers of a rank's own tokens, with the local starts that sharding leads to, and all ranks together."""

import numpy as np
import pytest

from conformance.judge import Judge
from conformance.shard_cases import Sharded
from conformance.shard_gathers import must_gather_what_one_rank_would
from conformance.targets.base import GATHER_STARTS
from reference.shards import Sharding

SHARDINGS = [(1, 1), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1), (8, 1)]


@pytest.mark.unsanitized
@pytest.mark.clause("SHARD-1", "SHARD-2", "SHARD-3", "SHARD-4", "SHARD-5", "GATHER-2")
@pytest.mark.parametrize(("ranks", "interleave"), SHARDINGS)
@pytest.mark.parametrize("block_size", [4, 64])
def test_ranks_together_gather_what_one_would(judge: Judge, ranks: int, interleave: int, block_size: int) -> None:
    judge.need(GATHER_STARTS)
    sharding = Sharding(ranks, interleave)
    for seed, lengths in enumerate([(100, 37, 0, 5, 64), (1, 2, 3, 4, 5), (300,), (0, 0, 7)]):
        rows = 16 * sharding.stripe
        must_gather_what_one_rank_would(judge, Sharded(lengths, sharding, block_size, rows), seed)


@pytest.mark.unsanitized
@pytest.mark.clause("SHARD-1", "SHARD-2", "SHARD-4", "SHARD-5")
@pytest.mark.parametrize(("ranks", "interleave"), SHARDINGS)
@pytest.mark.parametrize("block_size", [4, 64])
def test_ranks_together_gather_whole_contexts(judge: Judge, ranks: int, interleave: int, block_size: int) -> None:
    sharding = Sharding(ranks, interleave)
    batch = Sharded((100, 37, 0, 5, 64, 1), sharding, block_size, 16 * sharding.stripe)
    must_gather_what_one_rank_would(judge, batch, ranks, with_starts=False)


@pytest.mark.clause("SHARD-1", "SHARD-3", "SHARD-5")
def test_one_rank_may_be_short_of_tokens_in_the_last_of_two_chunks(judge: Judge) -> None:
    judge.need(GATHER_STARTS)  # vllm 28514: N = 2, one rank short, two chunks
    must_gather_what_one_rank_would(judge, Sharded((33, 1), Sharding(2), 16, 32), 5)


@pytest.mark.unsanitized
@pytest.mark.clause("SHARD-1", "SHARD-2", "SHARD-3", "SHARD-5")
@pytest.mark.parametrize("seed", range(12))
def test_random_batches(judge: Judge, seed: int) -> None:
    judge.need(GATHER_STARTS)
    must_gather_what_one_rank_would(judge, _random_batch(seed), seed)


@pytest.mark.unsanitized
@pytest.mark.clause("SHARD-1", "SHARD-2", "SHARD-5")
@pytest.mark.parametrize("seed", range(12))
def test_random_batches_of_whole_contexts(judge: Judge, seed: int) -> None:
    must_gather_what_one_rank_would(judge, _random_batch(seed), seed, with_starts=False)


def _random_batch(seed: int) -> Sharded:
    drawn = np.random.Generator(np.random.Philox(seed))
    sharding = Sharding(int(drawn.integers(1, 5)), int(drawn.integers(1, 5)))
    lengths = tuple(
        int(n) * int(keep) for n, keep in zip(drawn.integers(1, 150, 6), drawn.integers(0, 4, 6) > 0, strict=True)
    )
    rows = sharding.stripe * int(drawn.integers(2, 20)) + int(drawn.integers(0, 3))
    return Sharded((*lengths, 1), sharding, int(drawn.integers(1, 20)), rows)
