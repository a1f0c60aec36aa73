"""Random legal gathers: geometries that shrink, Philox bytes, unaligned starts."""

import pytest

from conformance.broken_features import broken_features_of_gathers
from conformance.drawing import for_each
from conformance.judge import Judge
from conformance.profiles import Profile
from conformance.strategies import gather_cases
from conformance.targets.base import GATHER, GATHER_STARTS
from reference.records import NVFP4_DS_MLA

ALWAYS = ("GATHER-1", "GATHER-5", "GATHER-6", "GATHER-7", "GATHER-8", "PAGE-1", "PAGE-2")
SHARES = 8  # so that workers can divide the cases among them
WITHOUT_STARTS = 5  # one case in five
WITHOUT_ROWS = 20  # one more for twenty


@pytest.mark.clause("GATHER-2")
@pytest.mark.parametrize("share", range(SHARES))
def test_random_cases_with_starts(judge: Judge, profile: Profile, seed: int, share: int) -> None:
    judge.need(GATHER_STARTS)
    count = profile.random_cases * (WITHOUT_STARTS - 1) // WITHOUT_STARTS
    cases = gather_cases(True, "some", broken_features_of_gathers(judge, NVFP4_DS_MLA))
    for_each(cases, count // SHARES, seed, judge)


@pytest.mark.clause("GATHER-3", "READ-1", "READ-2", *ALWAYS)
@pytest.mark.parametrize("share", range(SHARES))
def test_random_cases_without_starts(judge: Judge, profile: Profile, seed: int, share: int) -> None:
    judge.need(GATHER)
    cases = gather_cases(False, "some", broken_features_of_gathers(judge, NVFP4_DS_MLA))
    for_each(cases, profile.random_cases // WITHOUT_STARTS // SHARES, seed, judge)


@pytest.mark.clause("GATHER-10")
@pytest.mark.parametrize("with_starts", [True, False], ids=["starts", "no starts"])
def test_random_cases_without_rows(judge: Judge, profile: Profile, seed: int, with_starts: bool) -> None:
    judge.need(GATHER_STARTS if with_starts else GATHER)
    for_each(gather_cases(with_starts, "none"), profile.random_cases // WITHOUT_ROWS, seed, judge)
