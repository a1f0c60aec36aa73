"""ATTEND: each chunk of context as a target gathers it, what attention makes of it, and a target's own loop."""

from dataclasses import replace

import pytest

from conformance.attend_calls import judge_alone, judge_attend, judge_cuts, judge_one_after_the_other
from conformance.attending import must_attend_to_its_context
from conformance.context_cases import ACCEPTANCE, NAMED, SHARDED, of, random_case
from conformance.judge import Judge
from conformance.profiles import Profile
from conformance.targets.base import GATHERS, WRITES
from fixtures.context_cases import ContextCase, Records
from fixtures.placement import POISONS, Poison
from reference.shards import Sharding

SHARDINGS = [Sharding(ranks, interleave) for ranks in (2, 3, 4) for interleave in (1, 2)]
OWN_LOOPS = {
    "no context between two": ContextCase((9, 0, 5), (2, 3, 1), 4, 12, seed=30),
    "a continuation beside two others": ContextCase((100, 20, 6), (3, 5, 2), 16, 64, seed=31),
    "no query but the last has much context": ContextCase((1, 1, 300), (1, 1, 4), 16, 48, seed=32),
}


@pytest.mark.clause("ATTEND-1")
@pytest.mark.parametrize("poison", POISONS, ids=lambda poison: poison.name)
@pytest.mark.parametrize("records", ["quantized", "bytes"])
@pytest.mark.parametrize("gathered", GATHERS)
def test_the_acceptance_test(judge: Judge, gathered: str, records: Records, poison: Poison) -> None:
    must_attend_to_its_context(judge, replace(ACCEPTANCE, kv_cache_dtype=gathered, records=records), poison)


@pytest.mark.clause("ATTEND-1")
@pytest.mark.parametrize("case", NAMED.values(), ids=NAMED)
@pytest.mark.parametrize("gathered", GATHERS)
def test_batches_that_are_unusual(judge: Judge, gathered: str, case: ContextCase) -> None:
    must_attend_to_its_context(judge, of(case, gathered))


@pytest.mark.unsanitized
@pytest.mark.clause("ATTEND-1")
@pytest.mark.parametrize("gathered", GATHERS)
def test_random_batches(judge: Judge, gathered: str, profile: Profile, seed: int) -> None:
    for number in range(profile.random_cases // 20):
        must_attend_to_its_context(judge, of(random_case(seed + number), gathered))


@pytest.mark.clause("ATTEND-1", "ATTEND-7")
@pytest.mark.parametrize("case", SHARDED.values(), ids=SHARDED)
@pytest.mark.parametrize("gathered", GATHERS)
def test_ranks_together_attend_to_what_one_would(judge: Judge, gathered: str, case: ContextCase) -> None:
    must_attend_to_its_context(judge, of(case, gathered))


@pytest.mark.long
@pytest.mark.unsanitized
@pytest.mark.clause("ATTEND-1", "ATTEND-7")
@pytest.mark.parametrize("sharding", SHARDINGS, ids=lambda s: f"{s.ranks} ranks, turns of {s.interleave}")
@pytest.mark.parametrize("gathered", GATHERS)
def test_the_acceptance_test_over_ranks(judge: Judge, gathered: str, sharding: Sharding) -> None:
    must_attend_to_its_context(judge, replace(ACCEPTANCE, kv_cache_dtype=gathered, sharding=sharding))
    unaligned = replace(ACCEPTANCE, kv_cache_dtype=gathered, sharding=sharding, aligned=False, records="bytes")
    must_attend_to_its_context(judge, replace(unaligned, workspace_rows=301))


@pytest.mark.unsanitized
@pytest.mark.clause("ATTEND-1", "ATTEND-7")
@pytest.mark.parametrize("gathered", GATHERS)
def test_random_batches_over_ranks(judge: Judge, gathered: str, profile: Profile, seed: int) -> None:
    for number in range(profile.random_cases // 30):
        sharding = SHARDINGS[number % len(SHARDINGS)]
        must_attend_to_its_context(judge, of(random_case(seed + number, sharding), gathered))


@pytest.mark.clause("ATTEND-2", "ATTEND-3", "ATTEND-4", "ATTEND-5")
@pytest.mark.parametrize(
    "case", [ACCEPTANCE, *NAMED.values(), *OWN_LOOPS.values()], ids=["acceptance", *NAMED, *OWN_LOOPS]
)
@pytest.mark.parametrize("attended", WRITES)
def test_a_loop_gives_one_softmax_over_the_whole_context(judge: Judge, attended: str, case: ContextCase) -> None:
    judge_attend(judge, of(case, attended))


@pytest.mark.unsanitized
@pytest.mark.clause("ATTEND-2", "ATTEND-3", "ATTEND-4", "ATTEND-5")
@pytest.mark.parametrize("attended", WRITES)
def test_a_loop_over_random_batches(judge: Judge, attended: str, profile: Profile, seed: int) -> None:
    for number in range(profile.random_cases // 20):
        judge_attend(judge, of(random_case(seed + number), attended))


@pytest.mark.clause("ATTEND-6")
@pytest.mark.parametrize("aligned", [False, True], ids=["anywhere", "on blocks"])
@pytest.mark.parametrize("attended", WRITES)
def test_a_context_cut_for_every_workspace_has_the_same_result(judge: Judge, attended: str, aligned: bool) -> None:
    judge_cuts(judge, ContextCase((11,), (3,), 1, 1, False, kv_cache_dtype=attended, seed=40))
    batch = ContextCase((7, 0, 9, 2), (2, 1, 3, 2), 4, 4, aligned, kv_cache_dtype=attended, seed=41)
    judge_cuts(judge, batch)


@pytest.mark.clause("ATTEND-6")
@pytest.mark.parametrize("attended", WRITES)
def test_a_request_has_the_same_result_alone_and_among_others(judge: Judge, attended: str) -> None:
    batch = ContextCase((40, 0, 9, 33, 1), (2, 1, 3, 2, 4), 16, 48, kv_cache_dtype=attended, seed=42)
    judge_alone(judge, batch)
    judge_alone(judge, replace(batch, largest_score=2048))


@pytest.mark.clause("ATTEND-3", "ATTEND-6")
@pytest.mark.parametrize("attended", WRITES)
def test_a_call_after_other_ones_has_its_own_result(judge: Judge, attended: str) -> None:
    like = ContextCase((40, 9, 33), (2, 3, 4), 16, 48, kv_cache_dtype=attended, seed=43)
    without = replace(like, context_lens=(0, 9, 0), seed=44)  # of the same shape, so that it may find the same memory
    other_scale = replace(like, largest_score=64, seed=46)
    others = [like, other_scale, without, replace(like, context_lens=(3, 0, 50), seed=45), without]
    judge_one_after_the_other(judge, others)
