"""Generation: the same seed gives the same case, cases are legal, and the geometries that matter come up."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings

from conformance.cases import table_above_two_gib
from conformance.drawing import for_each
from conformance.features import NAN, OTHER_T, REQUESTS_WITHOUT_ROWS, SPARE_ENTRIES, STRIDES
from conformance.generation import SPECIAL_BYTES, Geometry, realize
from conformance.judge import expected_rows
from conformance.profiles import derived_seed
from conformance.small_scope import PARTS, batches, without_rows, without_starts
from conformance.strategies import gather_cases
from fixtures.cases import Arrangement, GatherCase, packed_starts
from fixtures.placement import POISONS, place

GEOMETRY = Geometry(4, (5, 0, 3), (3, 1, 6), extra_columns=1, extra_blocks=2)


def test_the_same_geometry_and_seed_give_the_same_bytes() -> None:
    one, same, other = realize(GEOMETRY, 1), realize(GEOMETRY, 1), realize(GEOMETRY, 2)
    assert (one.records == same.records).all() and (one.block_table == same.block_table).all()
    assert (one.records != other.records).any()
    # A report's seed has to give the same case on every machine: neither may ever change.
    assert one.records[0, 0, :6].tolist() == [90, 49, 198, 146, 66, 119]
    assert one.block_table.ravel().tolist() == [3, 5, 2, 9, 7, 10, 0, 8, 13, 12, 6, 11]


@settings(max_examples=200, deadline=None)
@given(gather_cases(with_starts=True) | gather_cases(with_starts=False))
def test_every_generated_case_is_legal(case: GatherCase) -> None:
    assert len(expected_rows(case)) == case.num_rows


@pytest.mark.parametrize("with_starts", [True, False])
def test_a_case_that_is_to_have_rows_has_some_and_one_that_is_to_have_none_has_none(with_starts: bool) -> None:
    for rows in ("some", "none"):
        drawn: list[GatherCase] = []
        for_each(gather_cases(with_starts, "some" if rows == "some" else "none"), 300, 1, drawn.append)
        assert {case.num_rows > 0 and case.batch_size > 0 for case in drawn} == {rows == "some"}


def test_what_is_left_out_is_in_no_case() -> None:
    every = frozenset({REQUESTS_WITHOUT_ROWS, OTHER_T, STRIDES, SPARE_ENTRIES, NAN})
    drawn: list[GatherCase] = []
    for_each(gather_cases(True, "some", every), 200, 1, drawn.append)
    for case in drawn:
        assert case.owners.all() and case.arrangement == Arrangement()
        assert not (case.records[..., 256:] & 0x7F == 0x7F).any()


INTERESTING: dict[str, Callable[[GatherCase], bool]] = {
    "an unaligned start": lambda c: c.seq_starts is not None and bool((c.seq_starts % c.block_size).any()),
    "a request without rows first": lambda c: c.num_rows > 0 and _lengths(c)[0] == 0,
    "a request without rows in the middle": lambda c: len(_lengths(c)) > 2 and 0 in _lengths(c)[1:-1],
    "a request without rows last": lambda c: c.num_rows > 0 and _lengths(c)[-1] == 0,
    "a row that ends with the table": lambda c: c.num_rows > 0 and bool(c.used_entries[:, -1].any()),
    "blocks apart": lambda c: c.arrangement.cache_block_slack > 0,
    "records apart": lambda c: c.arrangement.cache_record_slack > 0,
    "table rows apart": lambda c: c.arrangement.table_row_slack > 0,
    "dst rows apart": lambda c: c.arrangement.dst_row_slack > 0,
    "a shared block": lambda c: len(np.unique(c.block_table)) < c.block_table.size,
    "no rows": lambda c: c.num_rows == 0,
    "a NaN scale": lambda c: bool((c.records[..., 320:] == 0x7F).any()),
    "large blocks": lambda c: c.block_size == 64 and c.num_rows > 64,
}


def _lengths(case: GatherCase) -> list[int]:
    return [int(length) for length in np.diff(np.append(case.workspace_starts, case.num_rows))]


@pytest.mark.parametrize("interesting", INTERESTING.values(), ids=INTERESTING)
def test_the_generator_reaches(interesting: Callable[[GatherCase], bool]) -> None:
    find(
        gather_cases(with_starts=True),
        interesting,
        settings=settings(max_examples=2000, derandomize=True, database=None, phases=(Phase.generate,)),
    )


def test_special_bytes_are_the_only_ones_of_a_special_case() -> None:
    case = realize(GEOMETRY, 3, "special")
    assert set(case.records.ravel().tolist()) == {byte for byte, _ in SPECIAL_BYTES}


@pytest.mark.parametrize(("requests", "count"), [(1, 30), (2, 650), (3, 15_750)])
def test_the_small_scope_holds_every_geometry(requests: int, count: int) -> None:
    parts = [part for part in PARTS if part.requests == requests]
    every = [batch for part in parts for batch in batches(2, part)] + [without_starts(2, requests)]
    every += [
        batch for starts in (True, False) for batch in without_rows(2, starts) if len(batch.lengths[0]) == requests
    ]
    calls = [call for batch in every for call in zip(batch.lengths, batch.starts, strict=True)]
    assert [part.number for part in parts] == [*range(parts[0].parts)]
    assert len(calls) == len(set(calls)) == count


def test_a_test_has_its_own_seed_and_the_master_seed_moves_all() -> None:
    seeds = {derived_seed(master, name) for master in (0, 1) for name in ("a", "b")}
    assert len(seeds) == 4 and derived_seed(0, "a") in seeds


def test_lengths_become_starts() -> None:
    assert packed_starts((3, 0, 2)).tolist() == [0, 3, 3]
    assert packed_starts(()).tolist() == []


def test_two_poisons_differ_in_every_byte_that_a_target_may_not_heed() -> None:
    case = realize(Geometry(4, (5, 0, 3), (3, 1, 6), 0, 1, 2, "scattered", Arrangement(dst_row_slack=8)), 1)
    one, other = (place(case, poison) for poison in POISONS)
    for name in one:
        assert one[name].poison != other[name].poison
    needed = case.used_records
    assert (one["src_cache"].data[needed] == other["src_cache"].data[needed]).all()
    assert (one["src_cache"].data[~needed] != other["src_cache"].data[~needed]).all()
    assert (one["block_table"].data[~case.used_entries] != other["block_table"].data[~case.used_entries]).all()


def test_a_far_table_entry_is_not_the_zero_that_a_wrapped_offset_would_read() -> None:
    case = table_above_two_gib()
    far = case.used_entries[1:]
    assert (case.block_table[1:][far] != 0).all() and far.any(axis=1).all()


def test_no_product_of_a_code_and_a_scale_is_the_poison_of_dst() -> None:
    case = realize(Geometry(64, (512,)), 1)
    assert not set(expected_rows(case).ravel().tolist()) & {poison.dst for poison in POISONS}
