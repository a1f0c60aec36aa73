"""Shrinking writes, merges, and calls that are nothing but numbers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance.contexts import SHARDED
from conformance.merge_generation import EVERY, FINITE, mixed
from conformance.merges import judge_merge
from conformance.metadata import MetadataCase, judge_metadata
from conformance.plans import PlanCase, judge_plan
from conformance.selfcheck.test_shrink import SECONDS, fails_by
from conformance.shrinking import shrink
from conformance.shrinking.search import check
from conformance.workspaces import WorkspaceCase, judge_workspace
from conformance.write_generation import Slots, realize
from conformance.writes import judge_write
from fixtures.context_cases import ContextCase
from fixtures.merge_cases import MergeCase, Slack
from fixtures.serve_cases import DispatchCase
from fixtures.store import Fixture, save
from fixtures.write_cases import PACKED, WriteArrangement, WriteCase
from reference.shards import Sharding


def shrunk(case: Any, name: str, judging: Callable[..., None], path: Path) -> Any:
    fails = fails_by(name, judging)
    assert fails(case)
    small = shrink(case, fails, SECONDS)
    assert fails(small) and shrink(small, fails, SECONDS) is small
    save(Fixture(small), path / "case")
    assert (path / "case").stat().st_size < 4096
    return small


WRITE = realize(
    Slots(60, 16, skipped=9, extra_blocks=3),
    5,
    "nvfp4_ds_mla",
    WriteArrangement(8, 4, 352, 16, 16, 100, spare_tokens=3),
)


@pytest.mark.parametrize(
    ("name", "tokens", "nonzero"),
    [
        ("write-nibbles-swapped", 1, 1),
        ("write-minus-one-wraps", 1, 0),
        ("write-last-token-skipped", 1, 0),
        ("write-amax-signed", 1, 1),
        ("write-scales-of-the-first-token", 2, 1),
        ("write-rope-of-the-next-token", 2, 1),
        ("write-stops-at-a-skipped-token", 2, 0),
        ("write-slot-exchanged", 1, 0),
        ("write-padding-cleared", 1, 0),
    ],
)
def test_a_write_keeps_the_tokens_that_a_fault_needs(name: str, tokens: int, nonzero: int, tmp_path: Path) -> None:
    small: WriteCase = shrunk(WRITE, name, judge_write, tmp_path)
    assert small.tokens == tokens and np.count_nonzero(small.kv_c) + np.count_nonzero(small.k_pe) == nonzero
    assert small.num_blocks * small.block_size <= 2
    assert (small.arrangement == PACKED) == (name != "write-padding-cleared")


def test_numbers_that_are_left_of_a_write_are_simple(tmp_path: Path) -> None:
    small: WriteCase = shrunk(WRITE, "write-nibbles-swapped", judge_write, tmp_path)
    assert small.kv_c[small.kv_c != 0].tolist() == [0x3F80]


def test_a_write_whose_tokens_share_one_row_keeps_it_shared() -> None:
    arrangement = WriteArrangement(input_strides=(0, 0))
    one = realize(Slots(1, 16), 5)
    kv_c, k_pe = (np.repeat(array, 6, axis=0) for array in (one.kv_c, one.k_pe))
    case = WriteCase(kv_c, k_pe, np.arange(6), num_blocks=1, block_size=16, arrangement=arrangement)
    small = shrink(case, lambda case: case.tokens > 1 and case.arrangement.input_strides == (0, 0), SECONDS)
    assert small.tokens == 2 and not small.kv_c.any()
    small = shrink(
        case, lambda case: case.tokens > 1 and case.arrangement == arrangement and case.kv_c[1].any(), SECONDS
    )
    assert (small.kv_c[0] == small.kv_c[1]).all()


def test_a_write_far_out_stays_sparse_and_ends_where_the_fault_begins() -> None:
    blocks = np.array([3, 7_000_000, 9_000_000], np.int32)
    far = realize(Slots(3, 1), 5)
    case = WriteCase(far.kv_c, far.k_pe, blocks.astype(np.int64), 9_000_001, 1, block_numbers=blocks)
    small = shrink(case, lambda case: bool((case.slot_mapping * 352 >= 1 << 31).any()), SECONDS)
    assert small.slot_mapping.tolist() == [6_100_806] and small.num_blocks == 6_100_807
    assert small.block_numbers is not None and small.block_numbers.tolist() == [6_100_806]


MERGE = mixed(
    9,
    6,
    72,
    "bf16",
    7,
    EVERY,
    True,
    {"prefix_output": Slack(8, 8), "suffix_lse": Slack(outer=3, turned=True)},
    output_in="prefix_output",
    lse_in="suffix_lse",
)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("merge-weights-swapped", (1, 1, 1)),
        ("merge-nan-without-keys", (1, 1, 1)),
        ("merge-multiplies-stale-output", (1, 1, 1)),
        ("merge-truncates-to-bf16", (1, 1, 1)),
        ("merge-lse-written-first", (1, 1, 1)),
        ("merge-lses-tokens-first", (2, 2, 1)),
        ("merge-weights-of-head-0", (1, 2, 1)),
        ("merge-strides-ignored", (1, 2, 1)),
    ],
)
def test_a_merge_keeps_the_tokens_and_heads_that_a_fault_needs(
    name: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    small: MergeCase = shrunk(MERGE, name, judge_merge, tmp_path)
    assert small.shape == shape and small.output_in == "output"
    assert (small.lse_in == "suffix_lse") == (name == "merge-lse-written-first")
    assert list(small.arrangement) == (["prefix_output"] if name == "merge-strides-ignored" else [])


def test_numbers_that_are_left_of_a_merge_are_simple(tmp_path: Path) -> None:
    small: MergeCase = shrunk(MERGE, "merge-weights-swapped", judge_merge, tmp_path)
    lses = (small.prefix_lse, small.suffix_lse)
    assert {float(lse.item()) for lse in lses} == {0, 1}


def test_a_merge_whose_heads_share_an_lse_keeps_it_shared() -> None:
    lse, arrangement = np.tile(np.arange(4, dtype=np.float32), (3, 1)), {"prefix_lse": Slack(strides=(0, 1))}
    case = replace(mixed(4, 3, 8, "binary32", 1, FINITE), prefix_lse=lse, arrangement=arrangement)
    check(case)
    small = shrink(
        case, lambda case: case.shape[1] > 1 and bool(case.arrangement) and case.prefix_lse[1].any(), SECONDS
    )
    assert small.shape[1] == 2 and (small.prefix_lse[0] == small.prefix_lse[1]).all()


PLAN = PlanCase((1000, 0, 0, 333, 64, 5000, 1, 129, 77), 512, 448, 64)
METADATA = MetadataCase((1000, 0, 333, 64, 5000, 1, 129, 77), (0, 3, 7, 7, 9, 30, 31, 50, 51), 512, 64, True)


@pytest.mark.parametrize(
    ("case", "name", "judging", "lengths"),
    [
        (PLAN, "last-token-not-planned", judge_plan, (1,)),
        (PLAN, "piece-from-the-beginning", judge_plan, (2,)),
        (PLAN, "cut-unaligned", judge_plan, (1, 2)),
        (PLAN, "one-request-a-chunk", judge_plan, (1, 1)),
        (PLAN, "empty-piece-without-context", judge_plan, (1, 0)),
        (PLAN, "chunk-over-a-request-without-context", judge_plan, (1, 0, 1)),
        (METADATA, "metadata-starts-zero", judge_metadata, (2,)),
        (METADATA, "query-start-loc-of-the-batch", judge_metadata, (0, 1)),
        (METADATA, "max-query-len-of-the-batch", judge_metadata, (0, 1)),
    ],
)
def test_a_batch_keeps_the_requests_that_a_fault_needs(
    case: Any, name: str, judging: Callable[..., None], lengths: tuple[int, ...], tmp_path: Path
) -> None:
    small = shrunk(case, name, judging, tmp_path)
    assert small.context_lens == lengths
    assert max(vars(small).get("query_start_loc", (0,))) <= 1


def test_a_workspace_has_the_least_numbers_that_a_fault_needs(tmp_path: Path) -> None:
    small = shrunk(WorkspaceCase("dense", 8191, 256, 48, 2048), "workspace-not-rounded", judge_workspace, tmp_path)
    assert small == WorkspaceCase("dense", 2, 1, 3, 1)


def test_a_batch_of_context_keeps_what_it_takes_to_be_cut() -> None:
    case = ContextCase((70, 0, 900, 3), (4, 2, 9, 0), sharding=Sharding(2, 3), heads=4, seed=9)
    small = shrink(case, lambda case: len(case.chunked_context.chunks) > 1, SECONDS)
    assert len(small.context_lens) == 1 and small.context_lens[0] <= 2 and small.query_lens == (0,)
    assert (small.sharding, small.block_size, small.heads, small.seed) == (Sharding(1, 1), 1, 1, 0)


def test_what_a_site_is_asked_keeps_a_row_of_the_table_for_each_request() -> None:
    case = DispatchCase("dense", "nvfp4_ds_mla", SHARDED["3 ranks that take turns of 2 tokens"])
    small = shrink(case, lambda case: sum(case.context.context_lens) > 100, SECONDS)
    assert small.context.context_lens == (101,) and len(small.context.block_table) == 1
