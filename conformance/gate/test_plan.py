"""PLAN: the chunks of a batch's context, and what a planner refuses."""

import numpy as np
import pytest
from hypothesis import strategies as st

from conformance.drawing import for_each
from conformance.judge import Judge
from conformance.plans import PlanCase, judge_plan, small_scope
from conformance.profiles import Profile

ALWAYS = ("PLAN-1", "PLAN-2", "PLAN-3", "PLAN-4", "PLAN-5", "PLAN-6", "PLAN-7")

NAMED = {
    "vllm 41229: a budget that is no multiple of the alignment": PlanCase((1000, 100, 64), 500, 448, 64),
    "vllm 53603: no request has context": PlanCase((0, 0, 0), 64, 64, 16),
    "vllm 49294: contexts of twice the budget and 1": PlanCase((128, 1), 64, 64, 16),
    "the acceptance test of the original change": PlanCase((1000, 100, 64, 0), 512, 512, 64),
    "a request without context between two that fit together": PlanCase((3, 0, 3), 64, 64),
    "room for a part of the next request": PlanCase((5, 9), 8, 8),
    "room for less than an aligned part of the next request": PlanCase((6, 9), 8, 8, 4),
    "a rest of exactly the alignment": PlanCase((8, 8), 8, 4, 4),
    "padding that makes the last piece not fit": PlanCase((7, 6), 12, 12, 6, 6),
}


@pytest.mark.clause(*ALWAYS)
@pytest.mark.parametrize("case", NAMED.values(), ids=NAMED)
def test_plans_that_broke_real_planners(judge: Judge, case: PlanCase) -> None:
    judge_plan(judge, case)


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
    padding = draw(st.sampled_from((1, 1, 2, 3, 8, 24)))
    alignment = padding * draw(st.sampled_from((1, 2, 3, 16)))
    budget = draw(st.integers(alignment, 9 * alignment + 3))
    near = st.builds(lambda times, by: max(0, times * budget + by), st.integers(0, 3), st.integers(-2, 2))
    lengths = draw(st.lists(st.just(0) | near | st.integers(0, 4 * budget), max_size=12))
    longest = draw(st.integers(1, max(1, budget // alignment))) * alignment
    return PlanCase(tuple(lengths), budget, longest, alignment, padding)
