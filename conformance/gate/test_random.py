"""Random legal gathers: geometries that shrink, Philox bytes, unaligned starts."""

import pytest

from conformance.drawing import for_each
from conformance.judge import Judge
from conformance.profiles import Profile
from conformance.strategies import gather_cases
from conformance.targets.base import GATHER, GATHER_STARTS

ALWAYS = ("GATHER-1", "GATHER-5", "GATHER-6", "GATHER-7", "GATHER-8", "PAGE-1", "PAGE-2", "READ-1", "READ-2")
SHARES = 8  # so that workers can divide the cases among them
WITHOUT_STARTS = 5  # one case in five


@pytest.mark.clause("GATHER-2", *ALWAYS)
@pytest.mark.parametrize("share", range(SHARES))
def test_random_cases_with_starts(judge: Judge, profile: Profile, seed: int, share: int) -> None:
    judge.need(GATHER_STARTS)
    count = profile.random_cases * (WITHOUT_STARTS - 1) // WITHOUT_STARTS
    for_each(gather_cases(with_starts=True), count // SHARES, seed, judge)


@pytest.mark.clause("GATHER-3", *ALWAYS)
@pytest.mark.parametrize("share", range(SHARES))
def test_random_cases_without_starts(judge: Judge, profile: Profile, seed: int, share: int) -> None:
    judge.need(GATHER)
    for_each(gather_cases(with_starts=False), profile.random_cases // WITHOUT_STARTS // SHARES, seed, judge)
