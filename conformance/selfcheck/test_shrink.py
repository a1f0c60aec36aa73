"""Shrinking a case: what is left fails still, is legal, and is as small as the fault lets it be."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance.cases import STRIDED
from conformance.extremes import requests_beyond_uint16
from conformance.faults.defects import find_defect
from conformance.generation import Geometry, realize
from conformance.generics import over
from conformance.judge import Judge, expected_rows
from conformance.selfcheck.test_store import with_six_gb
from conformance.shrinking import gather_caches, gathers, shrink
from conformance.shrinking.search import REDUCERS, check
from conformance.strategies import gather_cases, twin_cases
from conformance.targets.base import LAYOUTS
from conformance.verdict import Differs
from fixtures.cases import CONTIGUOUS, ONE, Arrangement, GatherCase
from fixtures.store import Fixture, save

SECONDS = 60
LARGE = realize(
    Geometry(
        16,
        (70, 0, 33, 5, 0, 120, 64),
        (37, 3, 0, 18, 5, 129, 1),
        extra_columns=2,
        extra_blocks=3,
        arrangement=STRIDED["everything apart"],
    ),
    seed=5,
)


def fails_by(name: str, judging: Callable[[Judge, Any], None] = Judge.__call__) -> Callable[[Any], bool]:
    judge = Judge(find_defect(name).target())

    def fails(case: Any) -> bool:
        try:
            judging(judge, case)
        except Differs:
            return True
        return False

    return fails


def dimensions(case: GatherCase) -> dict[str, int]:
    starts = np.zeros(1) if case.seq_starts is None else case.seq_starts[case.owners]
    return {
        "requests": case.batch_size,
        "rows": case.num_rows,
        "columns": case.block_table.shape[1],
        "blocks": int(case.used_records.any(axis=1).sum()),
        "num_blocks": case.num_blocks,
        "block_size": case.block_size,
        "start": int(starts.max(initial=0)),
        "nonzero": int(np.count_nonzero(case.records[case.used_records])),
    }


def shrunk(case: GatherCase, name: str, path: Path) -> GatherCase:
    """The small case: it fails, nothing about it is larger, it is the smallest there is, and it is a small file."""
    fails = fails_by(name)
    assert fails(case)
    small = shrink(case, fails, SECONDS)
    assert fails(small) and shrink(small, fails, SECONDS) is small
    assert all(few <= many for few, many in zip(dimensions(small).values(), dimensions(case).values(), strict=True))
    save(Fixture(small), path / "case")
    assert (path / "case").stat().st_size < 4096
    return small


@pytest.mark.parametrize(
    ("name", "nonzero"),
    [
        ("nibbles-swapped", 1),
        ("scales-unpermuted", 1),
        ("rope-interleaved", 1),
        ("codes-as-integers", 2),
        ("nan-is-7fc0", 1),
        ("starts-ignored", 0),
        ("start-rounded-down", 0),
        ("last-row-not-written", 0),
        ("block-stride-packed", 0),
        ("column-576-written", 0),
    ],
)
def test_a_fault_that_one_token_shows_ends_as_one_token(name: str, nonzero: int, tmp_path: Path) -> None:
    small = dimensions(shrunk(LARGE, name, tmp_path))
    assert (small["requests"], small["rows"], small["columns"], small["blocks"]) == (1, 1, 1, 1)
    assert small["nonzero"] == nonzero


def test_what_has_to_stay_in_a_record_is_a_simple_number(tmp_path: Path) -> None:
    small = shrunk(LARGE, "codes-as-integers", tmp_path)
    byte, scale = small.record_of(0)[small.record_of(0) != 0]
    assert byte in (0x02, 0x20) and scale == 0x38


def test_a_start_that_has_to_be_unaligned_stays_so(tmp_path: Path) -> None:
    small = shrunk(LARGE, "start-rounded-down", tmp_path)
    assert small.seq_starts is not None and small.seq_starts.tolist() == [1] and small.block_size == 2


def test_the_first_row_of_a_late_block_is_left_alone_also_without_starts() -> None:
    case = realize(Geometry(4, (5, 30, 2)), 5)
    case.records[...] = 0
    case.record_of(5 + 28)[256] = 0x38
    small = shrink(case, lambda case: bool(expected_rows(case).any()), SECONDS)
    assert (small.batch_size, small.num_rows, small.seq_starts) == (1, 1, None)


@pytest.mark.parametrize("name", ["first-owner", "blocks-of-request-0", "table-stride-is-its-columns"])
def test_a_fault_that_takes_two_requests_keeps_two(name: str, tmp_path: Path) -> None:
    small = shrunk(LARGE, name, tmp_path)
    assert (small.batch_size, small.num_rows, small.seq_starts) == (2, 1, None)


@pytest.mark.parametrize("name", ["blocks-consecutive", "block-switched-by-rows"])
def test_a_fault_that_takes_two_columns_keeps_two_rows(name: str, tmp_path: Path) -> None:
    small = dimensions(shrunk(LARGE, name, tmp_path))
    assert (small["requests"], small["rows"], small["columns"]) == (1, 2, 2)


def test_an_arrangement_keeps_what_a_fault_needs_and_its_alignment(tmp_path: Path) -> None:
    small = shrunk(LARGE, "record-stride-packed", tmp_path)
    assert small.arrangement == Arrangement(cache_record_slack=16)


@pytest.mark.parametrize(
    ("layout", "name"),
    [
        ("fp8_ds_mla", "scale-of-the-next-tile"),
        ("fp8_ds_mla", "rope-of-the-other-byte-order"),
        ("fp8_ds_mla", "fp8_ds_mla-start-rounded-down"),
        ("auto", "auto-multiplied"),
        ("auto", "owner-of-the-row-before"),
        ("fp8", "scale-ignored"),
    ],
)
def test_gathers_of_other_records_shrink_too(layout: str, name: str, tmp_path: Path) -> None:
    small = shrunk(over(LARGE, LAYOUTS[layout], 3), name, tmp_path)
    two = name == "owner-of-the-row-before"
    assert (small.batch_size, small.num_rows) == (1 + two, 1 + two)
    assert dimensions(small)["nonzero"] <= 4 and (small.scale == ONE) == (name != "scale-ignored")


@pytest.mark.parametrize("arrangement", [Arrangement(), Arrangement(table_is_broadcast=True)], ids=str)
def test_a_cache_of_six_gigabytes_becomes_one_block(arrangement: Arrangement, tmp_path: Path) -> None:
    case = with_six_gb(arrangement)
    small = shrink(case, lambda case: bool(case.num_rows and expected_rows(case).any()), SECONDS)
    assert set(dimensions(small).items()) >= {("rows", 1), ("columns", 1), ("num_blocks", 1), ("nonzero", 1)}
    assert small.block_numbers is None and small.arrangement == CONTIGUOUS and small.records.nbytes == 352


@pytest.mark.parametrize("arrangement", [Arrangement(), Arrangement(table_is_broadcast=True)], ids=str)
def test_a_cache_that_has_to_be_huge_stays_sparse_and_ends_where_the_fault_begins(arrangement: Arrangement) -> None:
    def reaches_beyond_two_gib(case: GatherCase) -> bool:
        blocks = case.block_table[case.used_entries]
        assert case.records.nbytes < 1 << 21
        return bool((blocks.astype(np.int64) * case.block_size * 352 >= 1 << 31).any())

    small = shrink(with_six_gb(arrangement), reaches_beyond_two_gib, SECONDS)
    assert small.block_numbers is not None and small.block_numbers.tolist() == [-(-(1 << 31) // 352)]
    assert (small.batch_size, small.num_rows, len(small.records)) == (1, 1, 1)


def test_many_requests_that_a_fault_needs_do_not_keep_the_rest_from_shrinking() -> None:
    def many(case: GatherCase) -> bool:
        return case.batch_size > 3000 and case.num_rows > 0

    small = shrink(requests_beyond_uint16(), many, 1.5)
    assert small.batch_size < 4000 and small.num_rows == 1 and not small.records[small.used_records].any()


def test_nothing_is_smaller_if_nothing_fails() -> None:
    judged: list[GatherCase] = []

    def never(case: GatherCase) -> bool:
        judged.append(case)
        return False

    assert shrink(LARGE, never, SECONDS) is LARGE and judged == [LARGE]
    assert shrink("a case of no type that shrinks", lambda case: True, SECONDS) == "a case of no type that shrinks"


def test_what_raises_does_not_fail() -> None:
    def raises_below_two_requests(case: GatherCase) -> bool:
        return bool(1 / (case.batch_size // 2))

    assert shrink(LARGE, raises_below_two_requests, SECONDS).batch_size == 2


@pytest.mark.parametrize("always", [True, False])
def test_the_time_is_kept_but_for_one_verdict(always: bool) -> None:
    def slow(case: GatherCase) -> bool:
        time.sleep(0.05)
        return always or case is LARGE

    began = time.monotonic()
    small = shrink(LARGE, slow, 0.2)
    assert 0.19 < time.monotonic() - began < 0.2 + 0.05 + 0.2
    assert small.batch_size < LARGE.batch_size or not always


def test_the_same_case_shrinks_to_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        save(Fixture(shrink(LARGE, fails_by("blocks-consecutive"), SECONDS)), tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


some_cases = st.booleans().flatmap(gather_cases) | st.sampled_from(list(LAYOUTS.values())[1:]).flatmap(
    lambda layout: twin_cases(layout, True)
)


def broadcast(case: GatherCase) -> GatherCase:
    """Its requests all have the first one's row of the table."""
    table = np.broadcast_to(case.block_table[0], case.block_table.shape)
    return replace(case, block_table=table, arrangement=replace(case.arrangement, table_is_broadcast=True))


def candidates(case: GatherCase, reducer: Any, random: Random) -> Iterator[GatherCase]:
    """What a reducer tries if some of it, at random, is taken."""
    steps = reducer(case)
    candidate = next(steps, None)
    while candidate is not None:
        yield candidate
        try:
            candidate = steps.send(random.random() < 0.3)
        except StopIteration:
            return


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(some_cases, st.randoms(use_true_random=False))
def test_every_candidate_is_legal(case: GatherCase, random: Random) -> None:
    case = broadcast(case) if random.random() < 0.3 else case
    for reducer in REDUCERS[GatherCase][:-1]:
        for candidate in candidates(case, reducer, random):
            check(candidate)


ROWS_STAY = (
    gather_caches.blocks,
    gathers.requests,
    gathers.rows,
    gathers.columns,
    gathers.ends,
    gathers.arrangement,
    gather_caches.small_blocks,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(some_cases, st.randoms(use_true_random=False))
def test_what_is_left_of_a_geometry_has_the_rows_that_it_had(case: GatherCase, random: Random) -> None:
    had = {row.tobytes() for row in expected_rows(case)}
    for reducer in ROWS_STAY:
        for candidate in candidates(case, reducer, random):
            assert {row.tobytes() for row in expected_rows(candidate)} <= had


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(some_cases, st.integers(1, 7), st.integers(0, 4))
def test_shrinking_comes_to_an_end_whatever_fails(case: GatherCase, modulus: int, least: int) -> None:
    def odd(case: GatherCase) -> bool:
        sum_of_all = sum(dimensions(case).values()) + sum(map(int, vars(case.arrangement).values()))
        return case.num_rows >= least and sum_of_all % modulus == 0

    small = shrink(case, odd, SECONDS)
    assert small is case or odd(small)
    assert shrink(small, odd, SECONDS) is small
