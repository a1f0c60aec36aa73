"""The simulator does to a cache what a scheduler does, and the scenarios reach what they are about."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from conformance.drawing import for_each
from conformance.generation import Random
from conformance.judge import Judge
from conformance.scenarios import catalogue
from conformance.scenarios.blocks import BlockPool, block_hashes
from conformance.scenarios.catalogue import SCENARIOS, compositions, request, small, text
from conformance.scenarios.engine import Tally, serve
from conformance.scenarios.golden import alone
from conformance.scenarios.model import latents_of
from conformance.scenarios.scenario import Scenario
from conformance.scenarios.scheduler import Piece, Scheduler, Step
from conformance.scenarios.workloads import workloads
from conformance.targets.base import WRITES
from conformance.targets.models import NumpyTarget
from reference.profiles import DEFAULT


class Watched(Scheduler):
    """A scheduler whose every step is looked at from outside."""

    def schedule(self) -> Step:
        before = {id(running.request): (running.computed, list(running.blocks)) for running in self.running}
        step = super().schedule()
        budget = self.budgets[min(step.number, len(self.budgets) - 1)]
        assert sum(piece.end - piece.start for piece in step.pieces) <= budget
        assert len(self.running) <= self.max_num_seqs
        users = Counter(block for running in self.running for block in running.blocks)
        assert {block: count for block, count in self.pool.users.items() if count} == dict(users)
        assert set(self.pool.free) == set(self.pool.users) - set(users)
        for running in self.running:
            assert len(set(running.blocks)) == len(running.blocks)
        for piece in step.pieces:
            assert len(piece.blocks) == -(-piece.end // self.block_size)
            computed, blocks = before.get(id(piece.request), (None, []))
            assert list(piece.blocks[: len(blocks)]) == blocks
            if computed is None:
                assert piece.start % self.block_size == 0
            else:
                assert piece.start == computed
        self._shared_blocks_hold_equal_tokens(users)
        return step

    def _shared_blocks_hold_equal_tokens(self, users: Counter[int]) -> None:
        held: dict[int, bytes] = {}
        for running in self.running:
            for column, block in enumerate(running.blocks):
                if users[block] > 1:
                    tokens = running.request.tokens[: (column + 1) * self.block_size].tobytes()
                    assert held.setdefault(block, tokens) == tokens


def dry_run(scenario: Scenario, kind: type[Scheduler] = Watched) -> tuple[Tally, list[Step], list[Piece]]:
    """All steps of a scenario, without a target, and what its requests ended with."""
    pool = BlockPool(Random(scenario.seed + 1).permutation(scenario.num_blocks).tolist())
    settings = (scenario.budgets, scenario.max_num_seqs, scenario.prefix_caching)
    queue = kind(scenario.requests, pool, scenario.block_size, *settings)
    steps, ended = [], []
    while not queue.done:
        steps.append(queue.schedule())
        ended += queue.update(steps[-1])
        assert len(steps) < 10_000
    assert len(pool.free) == scenario.num_blocks
    return Tally(len(steps), evictions=pool.evictions, reuses=pool.reuses, happened=queue.happened), steps, ended


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_blocks_belong_to_their_users_and_budgets_are_kept(scenario: Scenario) -> None:
    _, _, ended = dry_run(scenario)
    assert {id(piece.request) for piece in ended} == {id(request) for request in scenario.requests}
    assert all(piece.end == len(piece.request.tokens) - 1 for piece in ended)


def test_blocks_of_random_workloads_belong_to_their_users() -> None:
    def check(scenario: Scenario) -> None:
        dry_run(scenario)

    for_each(workloads(), 200, 5, check)


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_every_token_is_computed_once_unless_it_was_hit_or_preempted(scenario: Scenario) -> None:
    tally, steps, _ = dry_run(scenario)
    computed = sum(piece.end - piece.start for step in steps for piece in step.pieces)
    again = sum(piece.end for step in steps for piece in step.preempted)
    due = sum(len(request.tokens) - 1 for request in scenario.requests)
    assert computed == due + again - tally.happened.hit_tokens


REACHED: dict[str, Callable[[Tally], bool]] = {
    "12 prompts of 1.7 K tokens, budget 8,192": lambda t: t.happened.splits == 1 and t.reuses == 4,
    "12 prompts of 1.7 K tokens, none split": lambda t: t.happened.splits == 0,
    "12 prompts of 1.7 K tokens, budget 1,000: splits within blocks": lambda t: t.happened.splits == 20,
    "a system prompt shared, users diverge within its third block": lambda t: t.happened.hit_tokens == 2 * 32,
    "a system prompt shared within one step and one chunk": lambda t: t.happened.hits == 3 and t.happened.splits == 0,
    "24 users of a system prompt": lambda t: t.happened.hits == 23,
    "a hit up to the last full block but one: a prompt of whole blocks computes its last one again": lambda t: (
        t.happened.hit_tokens == 2 * 32
    ),
    "a hit up to the last full block: one token more than whole blocks": lambda t: t.happened.hit_tokens == 2 * 48,
    "hits after the first user has ended": lambda t: t.happened.hits == 2,
    "hits after the end of the chain was evicted": lambda t: t.evictions > 0 and 0 < t.happened.hit_tokens < 80,
    "a known block of tokens at another position is no hit": lambda t: t.happened.hits == 0,
    "a hit on blocks that a generated answer filled": lambda t: t.happened.hit_tokens == 64,
    "a prompt of 40 tokens in two parts, every split": lambda t: t.happened.splits == 39 and t.steps == 78,
    "a prompt of 9 tokens, every composition": lambda t: t.happened.splits == 8 * 2**7 and t.reuses > 700,
    "blocks reused by shorter and longer prompts": lambda t: t.reuses == 23,
    "preempted, and computed again": lambda t: t.happened.preemptions > 1,
    "preempted with a shared prefix": lambda t: t.happened.preemptions > 1 and t.happened.hits > 4,
    "many short requests beside a long one": lambda t: t.happened.mixed > 9 and t.reuses > 9,
    "decode beside chunked prefill": lambda t: t.happened.mixed > 20 and t.happened.splits > 20,
}


@pytest.mark.parametrize("name", REACHED)
def test_a_scenario_reaches_what_it_is_about(name: str) -> None:
    assert REACHED[name](dry_run(SCENARIOS[name])[0])


def test_a_full_cache_has_no_free_block_left_and_preempts_nobody() -> None:
    tally, steps, _ = dry_run(SCENARIOS["a full cache"])
    assert max(len({block for piece in step.pieces for block in piece.blocks}) for step in steps) == 12
    assert tally.happened.preemptions == 0


def test_every_composition_of_9_tokens_is_computed() -> None:
    scenario = SCENARIOS["a prompt of 9 tokens, every composition"]
    parts: dict[int, list[int]] = {}
    for step in dry_run(scenario)[1]:
        for piece in step.pieces:
            parts.setdefault(id(piece.request), []).append(piece.end - piece.start)
    assert len({tuple(way) for way in parts.values()}) == 2**8
    assert all(sum(way) == 9 for way in parts.values())


def test_there_are_as_many_compositions_as_cuts() -> None:
    assert compositions(3) == [(3,), (2, 1), (1, 2), (1, 1, 1)]


@pytest.mark.parametrize("name", [catalogue.ORIGINAL[-1].name, "decode beside chunked prefill"])
def test_chunks_start_within_blocks(name: str) -> None:
    assert serve(Judge(NumpyTarget()), SCENARIOS[name]).unaligned > 20


def test_requests_longer_than_index_topk_are_left_to_top_k() -> None:
    class Planner(NumpyTarget):
        longest = 0

        def build_mla_chunked_context_metadata(self, *asked: Any) -> Any:
            contexts, queries, *_ = asked
            lengths = [context + b - a for context, (a, b) in zip(contexts, pairwise(queries), strict=True)]
            self.longest = max(self.longest, *lengths)
            return super().build_mla_chunked_context_metadata(*asked)

    scenario, target = SCENARIOS["requests longer than index_topk beside shorter ones"], Planner()
    serve(Judge(target), scenario)
    assert 60 < target.longest <= 100 < scenario.longest


@pytest.mark.parametrize("name", ["24 users of a system prompt", catalogue.ORIGINAL[3].name])
def test_attention_is_compared_in_some_steps(name: str) -> None:
    tally = serve(Judge(NumpyTarget()), SCENARIOS[name])
    assert 3 < tally.attended <= tally.with_context / 3 + 1


def test_whatever_ends_or_is_preempted_is_read_back() -> None:
    scenario = SCENARIOS["preempted with a shared prefix"]
    _, steps, ended = dry_run(scenario)
    preempted = [piece for step in steps for piece in step.preempted]
    tally = serve(Judge(NumpyTarget()), scenario)
    assert preempted and tally.records == sum(piece.end for piece in (*ended, *preempted))


def test_what_was_preempted_goes_on_before_what_still_waits() -> None:
    requests = [request(name, [text(7, 40 + number)], 9) for number, name in enumerate(("first", "second", "waits"))]
    scenario = small("two blocks too few", requests, block_size=4, num_blocks=5, max_num_seqs=2)
    steps = dry_run(scenario)[1]
    preempted = next(step.number for step in steps if step.preempted)
    later = [piece.request.name for step in steps[preempted:] for piece in step.pieces]
    assert list(dict.fromkeys(later)) == ["first", "second", "waits"]


def test_hashes_of_a_chain_tell_what_came_before() -> None:
    first, second = block_hashes(np.arange(9), 3), block_hashes(np.array([0, 1, 7, 3, 4, 5]), 3)
    assert len(first) == 3 and len(second) == 2
    assert first[1] != second[1] and first[0] == block_hashes(np.arange(4), 3)[0]


def test_blocks_are_taken_in_the_order_in_which_they_became_free() -> None:
    pool = BlockPool([3, 1, 2])
    assert pool.take(2) == [3, 1]
    pool.release([3, 1])
    assert pool.take(3) == [2, 1, 3]


def test_a_free_block_is_found_until_it_is_taken() -> None:
    pool = BlockPool([0, 1])
    (block,) = pool.take(1)
    pool.remember(block, b"held")
    pool.release([block])
    assert pool.find([b"held"]) == [block] and pool.room([block]) == 1
    pool.take(2)
    assert pool.find([b"held"]) == [] and pool.evictions == 1


def test_a_request_that_never_fits_is_no_scenario() -> None:
    with pytest.raises(ValueError, match="num_blocks is 1; a request takes 2"):
        small("too long", [request("long", [text(20, 1)])], num_blocks=1)


def test_tokens_of_the_short_prompts_have_records_of_their_own() -> None:
    for prompt in (catalogue.SYSTEM, catalogue.WHOLE, text(9, 7)):
        records = alone(request("one", [prompt], 30), "nvfp4_ds_mla", DEFAULT).records
        assert len(np.unique(records, axis=0)) == len(records)


def test_a_token_elsewhere_and_another_token_have_other_latents() -> None:
    kv_c, k_pe = latents_of(np.array([5, 5, 6]), np.array([0, 1, 0]))
    assert len(np.unique(np.concatenate([kv_c, k_pe], axis=1), axis=0)) == 3


def test_latents_reach_the_least_scale_byte_and_most_others() -> None:
    scales = alone(catalogue.twelve()[0], "nvfp4_ds_mla", DEFAULT).records[:, 320:]
    assert (scales == 0x01).any() and len(np.unique(scales)) > 90


def test_a_target_without_a_writer_reads_what_the_golden_writer_wrote() -> None:
    class Reader(NumpyTarget):
        capabilities = NumpyTarget.capabilities - set(WRITES.values())

        def concat_and_cache_mla(self, *_: object) -> None:
            raise AssertionError("was not to be called")

    serve(Judge(Reader()), SCENARIOS["hits after the end of the chain was evicted"])


def test_a_target_without_starts_gathers_whole_contexts_and_is_handed_no_starts() -> None:
    class Bare(NumpyTarget):
        capabilities = frozenset({"gather.nvfp4"})
        gathers = 0

        def cp_gather_and_upconvert_nvfp4_kv_cache(self, *arguments: object, **named: object) -> None:
            assert named.get("seq_starts") is None
            Bare.gathers += 1
            super().cp_gather_and_upconvert_nvfp4_kv_cache(*arguments, **named)  # type: ignore[arg-type]

    judge = Judge(Bare())
    serve(judge, SCENARIOS["a full cache"])
    assert Bare.gathers > 0 and judge.count.rows > 0
