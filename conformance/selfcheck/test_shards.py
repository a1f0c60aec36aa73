"""Shards of context: where each token lives, by enumeration, and what breaks when starts are not local."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from conformance import shard_cases, shard_gathers
from conformance.judge import Judge
from conformance.selfcheck.meddling import Call, Meddling
from conformance.shard_cases import Sharded
from conformance.shard_gathers import must_gather_what_one_rank_would
from conformance.targets.models import NumpyTarget
from conformance.verdict import Crashed, Differs
from fixtures.cases import GatherCase
from reference.shards import Sharding, interleaved

SHARDINGS = [Sharding(ranks, turn) for ranks, turn in product(range(1, 5), repeat=2)]
TOKENS = np.arange(60)


def test_two_ranks_that_take_turns_of_two_tokens() -> None:
    sharding = Sharding(2, 2)
    assert sharding.rank_of(TOKENS[:9]).tolist() == [0, 0, 1, 1, 0, 0, 1, 1, 0]
    assert sharding.local_index(TOKENS[:9]).tolist() == [0, 1, 0, 1, 2, 3, 2, 3, 4]
    assert [sharding.padded_rows(tokens) for tokens in (0, 1, 4, 5, 8, 9)] == [0, 2, 2, 4, 4, 6]
    assert [sharding.local_length(7, rank) for rank in (0, 1)] == [4, 3]


@pytest.mark.parametrize("sharding", SHARDINGS, ids=str)
def test_every_token_has_one_place_and_a_rank_holds_its_own_without_a_gap(sharding: Sharding) -> None:
    for rank in range(sharding.ranks):
        mine = TOKENS[sharding.rank_of(TOKENS) == rank]
        assert sharding.local_index(mine).tolist() == list(range(len(mine)))
    for tokens, rank in product(range(60), range(sharding.ranks)):
        held = sharding.local_length(tokens, rank)
        assert held == (sharding.rank_of(TOKENS[:tokens]) == rank).sum() <= sharding.padded_rows(tokens)


@pytest.mark.parametrize("sharding", SHARDINGS, ids=str)
def test_interleaving_undoes_sharding_and_drops_padding(sharding: Sharding) -> None:
    lengths = (5, 0, 17, 1)
    shards = [
        np.concatenate([_shard(length, number, sharding, rank) for number, length in enumerate(lengths)])
        for rank in range(sharding.ranks)
    ]
    rows = interleaved(shards, lengths, sharding)
    assert rows[:, 0].tolist() == [100 * number + token for number, n in enumerate(lengths) for token in range(n)]


def _shard(length: int, number: int, sharding: Sharding, rank: int) -> np.ndarray:
    rows = np.full((sharding.padded_rows(length), 1), 9999, np.uint16)
    tokens = np.arange(length)
    mine = tokens[sharding.rank_of(tokens) == rank]
    rows[sharding.local_index(mine), 0] = 100 * number + mine
    return rows


BATCH = Sharded((100, 37), Sharding(2), 16, 32)


def test_a_gather_that_ignores_its_starts_is_caught() -> None:
    def ignore(call: Call) -> None:
        call["seq_starts"] = None

    with pytest.raises((Differs, Crashed)):  # the table entries that it reads are poison
        must_gather_what_one_rank_would(Judge(Meddling(before=ignore), ["SHARD-5"]), BATCH, 1)


def test_global_starts_instead_of_local_ones_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    local = shard_cases.gather_of_rank

    def with_global_starts(batch: Sharded, chunk: Any, cache: Any, table: Any, rank: int, with_starts: bool) -> Any:
        case = local(batch, chunk, cache, np.tile(table, (1, 8)), rank, with_starts)  # columns enough for any start
        return GatherCase(
            case.records, case.block_table, case.workspace_starts, case.num_rows, np.array(chunk.starts, np.int32)
        )

    monkeypatch.setattr(shard_gathers, "gather_of_rank", with_global_starts)
    with pytest.raises(Differs, match="ranks together, and one rank alone"):
        must_gather_what_one_rank_would(Judge(NumpyTarget(), ["SHARD-5"]), BATCH, 1)
