"""PLAN and SHARD: what a batch needs around its plan, and the rows of workspaces."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate
from typing import Literal

import numpy as np
import pytest
from hypothesis import strategies as st

from conformance.drawing import for_each
from conformance.judge import Judge
from conformance.metadata import MetadataCase, judge_kept_metadata, judge_metadata, must_refuse, small_scope
from conformance.profiles import Profile
from conformance.workspaces import WorkspaceCase, every_configuration, judge_workspace

ALWAYS = (
    "PLAN-8",
    "PLAN-9",
    "PLAN-10",
    "PLAN-12",
    "PLAN-13",
    "PLAN-14",
    "PLAN-15",
    "PLAN-16",
    "PLAN-17",
    "PLAN-18",
    "PLAN-19",
    "PLAN-23",
    "PLAN-24",
)
SHARDED_ALWAYS = ("SHARD-6", "SHARD-7", "SHARD-8", "SHARD-9", "SHARD-10", "SHARD-11", "SHARD-12")


def batch(
    contexts: tuple[int, ...], queries: tuple[int, ...], rows: int, block: int, ranks: int = 1, turn: int = 1
) -> MetadataCase:
    """A call whose requests have so many query tokens, cut on block boundaries."""
    return MetadataCase(contexts, tuple(accumulate(queries, initial=0)), rows, block, True, ranks, turn)


NAMED = {
    "the acceptance test of the original change": batch((1000, 100, 64, 0), (8, 4, 6, 5), 512, 64),
    "vllm 46114: a workspace that is no multiple of the block": batch((1000, 3), (1, 1), 500, 64),
    "vllm 53603: no request has context": batch((0, 0, 0), (4, 2, 1), 64, 16),
    "vllm 49294: contexts of twice the budget and 1": batch((128, 1), (3, 2), 64, 16),
    "sglang 22291: a request without context beside one with 5": batch((0, 5), (2, 3), 64, 16),
    "a request without context last": batch((5, 0), (2, 3), 64, 16),
    "requests without context between two that fit together": batch((3, 0, 0, 3), (1, 2, 4, 8), 64, 16),
    "the longest query outside the chunk": batch((20, 5, 0), (1, 2, 9), 16, 16),
    "a request without query tokens": batch((20, 5, 3), (1, 0, 2), 32, 16),
    "two requests longer than the workspace": batch((40, 40), (2, 3), 32, 16),
    "one request over many chunks": batch((100,), (7,), 16, 16),
}

SHARDED = {
    "vllm 41229: a workspace that is no multiple of lcm(block, N * I)": batch((1000, 100, 64), (8, 4, 6), 500, 64, 3),
    "vllm 28514: two ranks, one of them short, two chunks": batch((33, 1), (2, 2), 32, 16, 2),
    "vllm 53603: no request has context": batch((0, 0, 0), (4, 2, 1), 64, 16, 2),
    "vllm 49294: contexts of twice the budget and 1": batch((128, 1), (3, 2), 64, 16, 2),
    "a workspace that the ranks cannot share evenly": batch((20, 20), (1, 1), 19, 3, 3),
    "turns longer than a block": batch((100, 1, 0, 17), (1, 2, 3, 4), 70, 4, 2, 16),
    "turns that share no factor with the block": batch((100, 1, 0, 17), (1, 2, 3, 4), 70, 5, 2, 3),
    "eight ranks, most of them without a token": batch((9, 1, 3), (1, 2, 3), 128, 16, 8),
}

LARGE = {
    "300 pieces in a chunk": batch((1,) * 300, (1,) * 300, 512, 16),
    "a start beyond 2^20": batch(((1 << 20) + 70_000,), (1,), 65_536, 64),
    "an odd start, and an odd context, beyond 2^24": MetadataCase((16_777_231,), (0, 1), 5_592_407, 1, False),
    "a workspace of 2^17 rows": batch((200_000, 3), (1, 1), 1 << 17, 64),
    "a workspace of 2^18 rows": batch((300_000, 3), (1, 1), 1 << 18, 64),
    "40,000 query tokens of a request": batch((5, 0, 9), (40_000, 2, 30_000), 16, 16),
    "more than a thousand chunks": batch((17_000,), (1,), 16, 16),
    "blocks of 128 tokens": batch((1_000, 3), (1, 1), 500, 128),
}
"""Numbers beyond what a narrower type holds, and beyond what servers are tried with."""


@pytest.mark.clause(*ALWAYS)
@pytest.mark.parametrize("case", LARGE.values(), ids=LARGE)
def test_large_batches(judge: Judge, case: MetadataCase) -> None:
    judge_metadata(judge, case)


def shardings() -> list[MetadataCase]:
    """One batch on 2 to 16 ranks that take turns of up to 64 tokens, over workspaces of two alignments and a row."""
    sizes = [(ranks, turn) for ranks in range(2, 17) for turn in (1, 2, 4, 16, 64)]
    rows = [batch((3_000, 3, 0, 70), (1, 2, 3, 4), 1, 64, *size).alignment * 2 + 1 for size in sizes]
    return [batch((3_000, 3, 0, 70), (1, 2, 3, 4), most, 64, *size) for most, size in zip(rows, sizes, strict=True)]


@pytest.mark.clause(*ALWAYS, *SHARDED_ALWAYS)
def test_two_to_sixteen_ranks(judge: Judge) -> None:
    for case in shardings():
        judge_metadata(judge, case)


def and_backwards(cases: Iterable[MetadataCase]) -> list[MetadataCase]:
    """Each case, then one of as many requests and tokens: its requests in the other order."""
    return [each for case in cases for each in (case, replace(case, context_lens=case.context_lens[::-1]))]


@pytest.mark.clause("PLAN-22")
def test_metadata_are_the_same_after_later_ones(judge: Judge) -> None:
    judge_kept_metadata(judge, and_backwards(NAMED.values()))


@pytest.mark.clause("PLAN-22", "SHARD-6")
def test_sharded_metadata_are_the_same_after_later_ones(judge: Judge) -> None:
    judge_kept_metadata(judge, and_backwards(SHARDED.values()))


@pytest.mark.clause("PLAN-8")
@pytest.mark.parametrize("ranks", [1, 2])
def test_without_context_the_workspace_does_not_matter(judge: Judge, ranks: int) -> None:
    judge_metadata(judge, batch((0, 0), (4, 2), 15, 16, ranks))


@pytest.mark.clause(*ALWAYS)
@pytest.mark.parametrize("case", NAMED.values(), ids=NAMED)
def test_batches_that_broke_real_builders(judge: Judge, case: MetadataCase) -> None:
    judge_metadata(judge, case)


@pytest.mark.clause(*ALWAYS, *SHARDED_ALWAYS)
@pytest.mark.parametrize("case", SHARDED.values(), ids=SHARDED)
def test_sharded_batches_that_broke_real_builders(judge: Judge, case: MetadataCase) -> None:
    judge_metadata(judge, case)


SMALL = {1: 9, 2: 4, 3: 2}


@pytest.mark.clause(*ALWAYS)
@pytest.mark.parametrize("requests", SMALL)
def test_every_batch_of_a_small_scope(judge: Judge, requests: int) -> None:
    for case in small_scope(requests, SMALL[requests], most_ranks=1):
        judge_metadata(judge, case)


@pytest.mark.clause(*ALWAYS, *SHARDED_ALWAYS)
@pytest.mark.parametrize("requests", SMALL)
def test_every_sharded_batch_of_a_small_scope(judge: Judge, requests: int) -> None:
    for case in small_scope(requests, SMALL[requests]):
        if case.sharded:
            judge_metadata(judge, case)


@pytest.mark.clause(*ALWAYS)
def test_random_batches(judge: Judge, profile: Profile, seed: int) -> None:
    for_each(batches(st.just(1)), profile.random_cases // 2, seed, lambda case: judge_metadata(judge, case))


@pytest.mark.clause(*ALWAYS, *SHARDED_ALWAYS)
def test_random_sharded_batches(judge: Judge, profile: Profile, seed: int) -> None:
    for_each(batches(st.integers(2, 9)), profile.random_cases // 2, seed, lambda case: judge_metadata(judge, case))


def thousand(ranks: int, turn: int) -> MetadataCase:
    """1,024 requests, one in seventeen without context, four of a million tokens and the others of up to 4,096."""
    drawn = np.random.Generator(np.random.Philox(8))
    contexts = drawn.integers(0, 4_096, 1024)
    contexts[::17] = 0
    contexts[[5, 6, 500, 1023]] = (1 << 20) - np.arange(4)
    return batch(tuple(contexts.tolist()), tuple(drawn.integers(1, 9, 1024).tolist()), 65_536, 64, ranks, turn)


@pytest.mark.clause(*ALWAYS)
def test_a_thousand_requests_of_up_to_a_million_tokens(judge: Judge) -> None:
    judge_metadata(judge, thousand(1, 1))


@pytest.mark.clause(*ALWAYS, *SHARDED_ALWAYS)
@pytest.mark.parametrize(("ranks", "turn"), [(2, 1), (8, 16)])
def test_a_thousand_requests_on_several_ranks(judge: Judge, ranks: int, turn: int) -> None:
    judge_metadata(judge, thousand(ranks, turn))


REFUSED = {
    "15 rows, blocks of 16": batch((100, 0), (1, 1), 15, 16),
    "1 row, blocks of 16": batch((100, 0), (1, 1), 1, 16),
    "15 rows, where no request must be cut": batch((5, 0), (1, 1), 15, 16),
    "no rows": batch((5, 0), (1, 1), 0, 16),
    "no rows, cut anywhere": MetadataCase((5, 0), (0, 1, 2), 0, 16, False),
}
REFUSED_SHARDED = {
    "47 rows for a multiple of 48": batch((100, 0), (1, 1), 47, 16, 2, 3),
    "15 rows for a multiple of 16": batch((100, 0), (1, 1), 15, 16, 2, 1),
    "31 rows for a multiple of 32": batch((100, 0), (1, 1), 31, 16, 2, 16),
    "31 rows, where no request must be cut": batch((5, 0), (1, 1), 31, 16, 2, 16),
    "31 rows for a stripe of 32, cut in any block": MetadataCase((100, 0), (0, 1, 2), 31, 16, False, 2, 16),
}


@pytest.mark.clause("PLAN-11")
@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_a_workspace_below_the_alignment_is_refused(judge: Judge, case: MetadataCase) -> None:
    must_refuse(judge, case)


@pytest.mark.clause("PLAN-11", "SHARD-6")
@pytest.mark.parametrize("case", REFUSED_SHARDED.values(), ids=REFUSED_SHARDED)
def test_a_workspace_below_the_alignment_of_several_ranks_is_refused(judge: Judge, case: MetadataCase) -> None:
    must_refuse(judge, case)


@pytest.mark.clause("PLAN-20", "SHARD-13")
def test_the_dense_workspace_of_every_configuration(judge: Judge) -> None:
    must_have_the_rows_of("dense", judge)


@pytest.mark.clause("PLAN-21", "SHARD-13")
def test_the_sparse_workspace_of_every_configuration(judge: Judge) -> None:
    must_have_the_rows_of("sparse", judge)


def must_have_the_rows_of(builder: Literal["dense", "sparse"], judge: Judge) -> None:
    for case in every_configuration(builder):  # vllm 25290: sizes within their caps
        judge_workspace(judge, case)


LARGE_WORKSPACES = [
    WorkspaceCase("dense", 1 << 29, 1, 16, 2_048),
    WorkspaceCase("dense", 1, 1 << 20, 1 << 10, 2_048),
    WorkspaceCase("dense", 2_048, 3, 16, 1, 11, 1),
    WorkspaceCase("dense", 2_048, 3, 16, 1, 3, 128),
    WorkspaceCase("sparse", 1 << 29, 1, 16, 1 << 20),
    WorkspaceCase("sparse", 1 << 20, 3, 16, 8_192),
    WorkspaceCase("sparse", 1 << 20, 1 << 16, 16, 1 << 16),
    WorkspaceCase("sparse", 1 << 20, 3, 48, 8_000, 16, 128),
]


@pytest.mark.clause("PLAN-20", "PLAN-21", "SHARD-13")
@pytest.mark.parametrize("case", LARGE_WORKSPACES, ids=str)
def test_workspaces_of_large_numbers(judge: Judge, case: WorkspaceCase) -> None:
    judge_workspace(judge, case)


@pytest.mark.clause("PLAN-20", "PLAN-21", "SHARD-13")
@pytest.mark.parametrize("builder", ["dense", "sparse"])
def test_random_workspaces(judge: Judge, builder: Literal["dense", "sparse"], profile: Profile, seed: int) -> None:
    sizes = st.integers(1, 64) | st.integers(1, 70_000)
    case = st.builds(WorkspaceCase, st.just(builder), sizes, sizes, sizes, sizes, st.integers(1, 9), st.integers(1, 70))
    for_each(case, profile.random_cases // 2, seed, lambda case: judge_workspace(judge, case))


@st.composite
def batches(draw: st.DrawFn, worlds: st.SearchStrategy[int]) -> MetadataCase:
    """Legal calls, more often with contexts near multiples of the workspace and the alignment."""
    size, align = draw(st.sampled_from((1, 2, 3, 16, 48, 64))), draw(st.booleans())
    ranks, turn = draw(worlds), draw(st.sampled_from((1, 1, 2, 3, 16)))
    alignment = MetadataCase((), (0,), 1, size, align, ranks, turn).alignment
    rows = draw(st.integers(alignment, 9 * alignment + 3))
    near = st.builds(lambda times, by: max(0, times * rows + by), st.integers(0, 3), st.integers(-2, 2))
    contexts = draw(st.lists(st.just(0) | near | st.integers(0, 4 * rows), max_size=12))
    queries = draw(st.lists(st.integers(0, 9), min_size=len(contexts), max_size=len(contexts)))
    boundaries = tuple(accumulate(queries, initial=0))
    return MetadataCase(tuple(contexts), boundaries, rows, size, align, ranks, turn)
