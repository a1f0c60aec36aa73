"""MERGE-10, and calls on the same memory: malformed merges, random ones, and merges one after another."""

import pytest

from conformance.drawing import for_each
from conformance.judge import Judge
from conformance.merge_calls import MALFORMED, MalformedMerge, must_accumulate, must_merge_anew, must_refuse_merge
from conformance.merge_generation import KINDS
from conformance.merge_strategies import merge_cases
from conformance.merges import judge_merge
from conformance.profiles import Profile
from fixtures.merge_cases import MergeCase

SHARE = 3  # of the random cases of a profile, for each type

# What differs between the types is which kernel is launched, and a refused call launches none.
kinds_refused = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.unsanitized] if kind != "bf16" else []) for kind in KINDS]
)


@pytest.mark.clause("MERGE-10")
@pytest.mark.parametrize("malformed", MALFORMED, ids=lambda m: f"{m.argument} {m.found}")
@kinds_refused
def test_a_malformed_merge_is_refused_and_writes_nothing(judge: Judge, malformed: MalformedMerge, kind: str) -> None:
    must_refuse_merge(judge, malformed, kind)


@pytest.mark.clause("MERGE-11")
@pytest.mark.parametrize("kind", KINDS)
def test_a_second_merge_on_the_same_arrays_reads_them_anew(judge: Judge, kind: str) -> None:
    must_merge_anew(judge, kind)


@pytest.mark.clause("MERGE-6")
@pytest.mark.parametrize("kind", KINDS)
def test_merging_in_place_one_by_one_is_one_merge_of_them_all(judge: Judge, kind: str) -> None:
    must_accumulate(judge, kind)


@pytest.mark.unsanitized
@pytest.mark.clause(*(f"MERGE-{number}" for number in range(1, 10)))
@pytest.mark.parametrize("kind", KINDS)
def test_random_merges(judge: Judge, profile: Profile, seed: int, kind: str) -> None:
    def check(case: MergeCase) -> None:
        judge_merge(judge, case)

    for_each(merge_cases(kind), profile.random_cases // SHARE, seed, check)
