"""PLAN: the chunks of a batch's context, and what a planner refuses."""

import numpy as np
import pytest
from hypothesis import strategies as st

from conformance.drawing import for_each
from conformance.judge import Judge
from conformance.plans import PlanCase, judge_kept_plans, judge_plan, small_scope
from conformance.profiles import Profile

ALWAYS = ("PLAN-1", "PLAN-2", "PLAN-3", "PLAN-4", "PLAN-5", "PLAN-6", "PLAN-7", "PLAN-23")

NAMED = {
    "vllm 41229: a budget that is no multiple of the alignment": PlanCase((1000, 100, 64), 500, 448, 64),
    "vllm 53603: no request has context": PlanCase((0, 0, 0), 64, 64, 16),
    "vllm 49294: contexts of twice the budget and 1": PlanCase((128, 1), 64, 64, 16),
    "the acceptance test of the original change": PlanCase((1000, 100, 64, 0), 512, 512, 64),
    "a request without context between two that fit together": PlanCase((3, 0, 3), 64, 64),
    "room for a part of the next request": PlanCase((5, 9), 8, 8),
    "room for less than an aligned part of the next request": PlanCase((6, 9), 8, 8, 4),
    "a rest of exactly the alignment": PlanCase((8, 8), 8, 4, 4),
    "a largest piece that is no multiple of the alignment": PlanCase((1000,), 500, 400, 64),
    "a largest piece beyond the budget": PlanCase((20,), 8, 16, 4),
    "a budget below the alignment, where all fits": PlanCase((3,), 3, 4, 4),
    "fewer rows than tokens": PlanCase((33, 1), 16, 32, 16, 2, 2),
    "a largest piece of fewer rows than tokens": PlanCase((100,), 16, 32, 16, 2, 2),
    "a chunk of 300 requests": PlanCase((1,) * 300, 512, 512, 64),
    "a context beyond 2^24": PlanCase(((1 << 24) + 1,), 1 << 20, 1 << 20, 64),
    "a context beyond 2^31": PlanCase(((1 << 31) + 5,), 1 << 30, 1 << 30, 64),
    "contexts beyond 2^31 together": PlanCase((1 << 30, 1 << 30, 5), 1 << 30, 1 << 30, 64),
    "an alignment of 512": PlanCase((2000, 3), 1000, 1024, 512),
    "padding that makes the last piece not fit": PlanCase((7, 6), 12, 12, 6, 6),
}


@pytest.mark.clause(*ALWAYS)
@pytest.mark.parametrize("case", NAMED.values(), ids=NAMED)
def test_plans_that_broke_real_planners(judge: Judge, case: PlanCase) -> None:
    judge_plan(judge, case)


@pytest.mark.clause("PLAN-22")
def test_a_plan_is_the_same_after_later_ones(judge: Judge) -> None:
    judge_kept_plans(judge, [*NAMED.values()])


@pytest.mark.clause(*ALWAYS)
@pytest.mark.parametrize("requests", [1, 2, 3])
def test_every_plan_of_a_small_scope(judge: Judge, requests: int) -> None:
    for case in small_scope(requests, {1: 12, 2: 9, 3: 5}[requests]):
        judge_plan(judge, case)


@pytest.mark.clause(*ALWAYS)
@pytest.mark.parametrize("share", range(2))
def test_random_plans(judge: Judge, profile: Profile, seed: int, share: int) -> None:
    for_each(plans(), profile.random_cases // 2, seed, lambda case: judge_plan(judge, case))


@pytest.mark.clause(*ALWAYS)
def test_a_thousand_requests_of_up_to_a_million_tokens(judge: Judge) -> None:
    lengths = np.random.Generator(np.random.Philox(7)).integers(0, 1 << 20, 1024)
    lengths[::17] = 0
    judge_plan(judge, PlanCase(tuple(int(n) for n in lengths), 65_536, 65_536, 64))


@st.composite
def plans(draw: st.DrawFn) -> PlanCase:
    """Legal plans, more often with lengths near multiples of budget and alignment."""
    ranks = draw(st.sampled_from((1, 1, 2, 3)))
    padding = ranks * draw(st.sampled_from((1, 1, 2, 3, 8, 24)))
    alignment = padding * draw(st.sampled_from((1, 2, 3, 16)))
    budget = draw(st.integers(alignment // ranks, 9 * alignment + 3))
    near = st.builds(lambda times, by: max(0, times * budget * ranks + by), st.integers(0, 3), st.integers(-2, 2))
    lengths = draw(st.lists(st.just(0) | near | st.integers(0, 4 * budget * ranks), max_size=12))
    multiple = draw(st.integers(1, 1 + budget * ranks // alignment)) * alignment
    longest = multiple + draw(st.just(0) | st.integers(0, alignment - 1))
    return PlanCase(tuple(lengths), budget, longest, alignment, padding, ranks)
