"""MERGE: two partial results into one, within the stated bounds where both have weight and exactly where not."""

import numpy as np
import pytest

from conformance import merge_cases as cases
from conformance.judge import Judge
from conformance.merge_cases import NAMED, STRIDED, Named, cases_of
from conformance.merge_generation import FEW_ORDINARY, KINDS, mixed, permuted
from conformance.merges import judge_merge, merged_by, must_be_same
from fixtures.placement import POISONS

Shapes = tuple[tuple[int, int, int], ...]

kinds = pytest.mark.parametrize("kind", KINDS)
# What the numbers are is the same to a sanitizer, and each type has its kernel launched by the other tests.
kinds_sanitized_once = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.unsanitized] if kind != "bf16" else []) for kind in KINDS]
)
SHAPES = (
    pytest.param(((5, 3, 64),), id="of 5 tokens"),
    pytest.param(((2, 4, 128), (3, 1, 64), (1, 3, 64), (2, 130, 8)), id="of others", marks=pytest.mark.unsanitized),
)


@pytest.mark.clause("MERGE-1", "MERGE-2", "MERGE-3", "MERGE-4", "MERGE-5")
@kinds_sanitized_once
@pytest.mark.parametrize("named", NAMED, ids=lambda named: named.__name__)
def test_inputs_that_broke_real_merges_and_those_that_a_shortcut_does_not_expect(
    judge: Judge, named: Named, kind: str
) -> None:
    for case in cases_of(named, kind):
        judge_merge(judge, case)


@pytest.mark.unsanitized
@pytest.mark.clause("MERGE-1")
def test_every_pair_of_256_numbers_is_merged_under_every_difference_of_lses(judge: Judge) -> None:
    judge_merge(judge, cases.every_pair_of_bf16(), POISONS[:1])


@pytest.mark.clause("MERGE-1", "MERGE-2", "MERGE-9")
@kinds
def test_every_number_of_tokens_heads_and_elements_is_served(judge: Judge, kind: str) -> None:
    for case in cases.shapes(kind):
        judge_merge(judge, case)


@pytest.mark.long
@pytest.mark.unsanitized
@pytest.mark.clause("MERGE-1", "MERGE-2", "MERGE-9")
@kinds
def test_large_numbers_of_tokens_heads_and_elements_are_served(judge: Judge, kind: str) -> None:
    for case in cases.large(kind):
        judge_merge(judge, case)


@pytest.mark.clause("MERGE-9")
@kinds
@pytest.mark.parametrize(("heads", "size"), [(1, 64), (3, 128), (1, 1)])
def test_no_tokens_are_no_error(judge: Judge, heads: int, size: int, kind: str) -> None:
    judge_merge(judge, mixed(0, heads, size, kind, 8))


@pytest.mark.clause("MERGE-8", "MERGE-9")
@kinds
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("how", STRIDED)
def test_strided_arrays_are_merged_in_place_or_refused(judge: Judge, how: str, kind: str, shapes: Shapes) -> None:
    for shape in shapes:
        judge_merge(judge, mixed(*shape, kind, 1, arrangement=STRIDED[how]))


@pytest.mark.clause("MERGE-8")
@kinds
def test_one_partial_for_all_tokens_or_all_heads_is_merged_or_refused(judge: Judge, kind: str) -> None:
    for case in cases.one_for_all(kind):
        judge_merge(judge, case)


@pytest.mark.clause("MERGE-8")
@kinds
def test_strides_that_are_never_used_mean_nothing(judge: Judge, kind: str) -> None:
    judge_merge(judge, cases.strides_that_mean_nothing(kind))


@pytest.mark.roomy
@pytest.mark.long
@pytest.mark.unsanitized
@pytest.mark.clause("MERGE-8")
@pytest.mark.parametrize("far", cases.FAR, ids=" ".join)
def test_offsets_of_more_than_31_bits_are_reached_or_refused(judge: Judge, far: tuple[str, str, str]) -> None:
    judge_merge(judge, cases.far(*far))


@pytest.mark.clause("MERGE-6", "MERGE-7", "MERGE-9")
@kinds
def test_the_results_may_lie_in_the_memory_of_an_input_and_the_lse_may_be_left_out(judge: Judge, kind: str) -> None:
    for case in cases.in_place(kind):
        judge_merge(judge, case)


@pytest.mark.clause("MERGE-6")
@kinds
def test_wide_calls_in_place_read_before_they_write(judge: Judge, kind: str) -> None:
    for output, lse in (("prefix_output", "prefix_lse"), ("suffix_output", "suffix_lse")):
        judge_merge(judge, mixed(97, 8, 512, kind, 21, output_in=output, lse_in=lse))


@pytest.mark.clause("MERGE-7")
@kinds
def test_without_an_output_lse_the_output_is_the_same(judge: Judge, kind: str) -> None:
    (without, _), (given, _) = (merged_by(judge, mixed(9, 4, 64, kind, 22, lse_in=lse)) for lse in (None, "output_lse"))
    must_be_same(judge, without, given, "output without and with an output_lse")


@pytest.mark.clause("MERGE-11")
@kinds
def test_a_token_and_head_is_the_same_wherever_it_stands(judge: Judge, kind: str) -> None:
    case = mixed(37, 5, 64, kind, 23, FEW_ORDINARY)
    rng = np.random.default_rng(23)
    tokens, heads = rng.permutation(37), rng.permutation(5)
    output, lse = merged_by(judge, case)
    moved_output, moved_lse = merged_by(judge, permuted(case, tokens, heads))
    assert lse is not None and moved_lse is not None
    must_be_same(judge, moved_output, output[tokens][:, heads], "output of tokens and heads in another order")
    must_be_same(judge, moved_lse, lse[heads][:, tokens], "output_lse of tokens and heads in another order")


@pytest.mark.clause("MERGE-11")
@kinds
def test_a_token_is_the_same_alone_and_among_others(judge: Judge, kind: str) -> None:
    case = mixed(19, 3, 64, kind, 24, FEW_ORDINARY)
    output, _ = merged_by(judge, case)
    for token in (0, 7, 18):
        alone, _ = merged_by(judge, permuted(case, np.array([token]), np.arange(3)))
        must_be_same(judge, alone[0], output[token], "a token alone, and among others")
