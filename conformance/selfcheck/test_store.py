"""A gather that is stored comes back the same: its arguments in memory, byte for byte, and what is expected of it."""

import os
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from conformance.cases import FAR, NAMED, Named, cases_of, strided_gather
from conformance.extremes import EXTREMES
from conformance.generics import over
from conformance.judge import expected_rows
from conformance.selfcheck.storing import lies_alike, stored
from conformance.strategies import gather_cases, twin_cases
from conformance.targets.base import LAYOUTS
from fixtures.cases import Arrangement, GatherCase
from fixtures.placement import is_huge, place
from fixtures.store import BadFixture, Fixture, clause_in, load, name_of, save
from fixtures.stored_rows import MOST_ROWS, digest, sparse_rows
from reference.records import GENERIC, NVFP4_DS_MLA, RecordLayout

CASE = cases_of(NAMED[0])[0]
MIB = 1 << 20


def name(layout: RecordLayout) -> str:
    return f"{layout.name} of {layout.row}"


def comes_back(case: GatherCase, path: Path) -> bool:
    back = stored(case, path)
    return lies_alike(case, back, place, is_huge(case)) and np.array_equal(expected_rows(case), expected_rows(back))


@pytest.mark.parametrize("named", [*NAMED, *EXTREMES, *FAR], ids=lambda named: named.__name__)
def test_a_named_gather_comes_back(named: Named, tmp_path: Path) -> None:
    assert all(comes_back(case, tmp_path / "case") for case in cases_of(named))


@pytest.mark.parametrize("layout", [*LAYOUTS.values(), GENERIC["auto", 512], GENERIC["fp8", 512]], ids=name)
def test_a_gather_of_any_layout_comes_back(layout: RecordLayout, tmp_path: Path) -> None:
    for named in (*NAMED[3:9], *FAR[:1], *FAR[2:]):
        assert all(comes_back(over(case, layout), tmp_path / "case") for case in cases_of(named))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=name)
@pytest.mark.parametrize("with_starts", [True, False])
def test_a_random_gather_comes_back(layout: RecordLayout, with_starts: bool, tmp_path: Path) -> None:
    @settings(max_examples=10, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(gather_cases(with_starts) if layout == NVFP4_DS_MLA else twin_cases(layout, with_starts))
    def check(case: GatherCase) -> None:
        assert comes_back(case, tmp_path / "case")

    check()


def test_a_scale_keeps_the_payload_of_its_nan(tmp_path: Path) -> None:
    case = replace(over(CASE, LAYOUTS["fp8"]), scale=np.uint32(0xFFA5_0001).view(np.float32))
    assert stored(case, tmp_path / "case").scale.view(np.uint32) == 0xFFA5_0001


def with_six_gb(arrangement: Arrangement, columns: int = 1 << 20) -> GatherCase:
    """Three requests over a packed cache of 17,045,455 records of 352 bytes, of which a few blocks are held."""
    numbers = np.array([1, 5, 1_000_000, 17_045_454], np.int32)
    table = np.zeros((3, columns), np.int32)
    table[:, :2] = numbers[:2]
    table[:, -2:] = numbers[2:]
    records = np.random.default_rng(1).integers(0, 256, (4, 1, 352), np.uint8)
    starts = np.array([0, columns - 2, 1], np.int32)
    return GatherCase(records, table, np.array([0, 1, 3], np.int32), 4, starts, arrangement, block_numbers=numbers)


@pytest.mark.parametrize(
    "arrangement",
    [
        Arrangement(),
        Arrangement(cache_block_slack=16, table_row_slack=3, dst_row_slack=8),
        Arrangement(slots_outermost=True),
        Arrangement(table_is_broadcast=True),
    ],
    ids=str,
)
def test_a_gather_over_six_gigabytes_is_a_small_file(arrangement: Arrangement, tmp_path: Path) -> None:
    case = with_six_gb(arrangement)
    assert case.num_blocks * 352 > 6_000_000_000
    assert comes_back(case, tmp_path / "case")
    assert (tmp_path / "case").stat().st_size < 4096


def test_blocks_that_no_row_needs_are_left_out_but_for_the_last(tmp_path: Path) -> None:
    many = np.zeros((50_000, CASE.block_size, 352), np.uint8)
    case = replace(CASE, records=np.concatenate([CASE.records, many]))
    back = stored(case, tmp_path / "case")
    assert comes_back(case, tmp_path / "case") and back.num_blocks == case.num_blocks
    assert back.records.nbytes < 100_000 and (tmp_path / "case").stat().st_size < 10_000


def test_loading_a_wide_table_backs_little_memory(tmp_path: Path) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    save(Fixture(with_six_gb(Arrangement(), 1 << 22)), tmp_path / "case")
    before = resident()
    back = load(tmp_path / "case")
    assert back.case.block_table.nbytes == 48 * MIB and resident() - before < 8 * MIB


def test_one_token_takes_less_than_two_kibibytes(tmp_path: Path) -> None:
    case = replace(strided_gather(Arrangement()), workspace_starts=np.zeros(3, np.int32), num_rows=1)
    save(Fixture(case), tmp_path / "case")
    assert (tmp_path / "case").stat().st_size < 2048


ABOUT = {"clauses": ["PAGE-1"], "target": "host", "test": "test_page.py::test", "seed": 7, "time": "12:00"}


def test_of_no_rows_none_are_kept(tmp_path: Path) -> None:
    none = np.empty((0, 576), np.uint16)
    expected, observed = sparse_rows(none, none, "rows", none.astype(bool))
    assert expected["rows"].shape == observed["rows"].shape == (0, 576) and not expected["rows.at"].size


def test_everything_about_a_failure_comes_back(tmp_path: Path) -> None:
    rows = expected_rows(CASE)
    wrong = rows.copy()
    wrong[2] ^= 1
    about = ABOUT | {"versions": {"numpy": "2"}, "seconds": 0.5, "nothing": None, "message": "a\nb é \ud800"}
    expected, observed = sparse_rows(rows, wrong, "dst")
    save(Fixture(CASE, "NaN", about, expected, observed), tmp_path / "case")
    back = load(tmp_path / "case")
    assert back.poison == "NaN" and back.operator == "gather"
    assert back.about == about | {"message": "a\nb é \\ud800"}
    for kept, array in ((back.expected, rows), (back.observed, wrong)):
        assert kept["dst.at"].tolist() == [2] and np.array_equal(kept["dst"], array[[2]])
        assert np.array_equal(kept["dst.sha256"], digest(array))


def test_a_fixture_needs_no_case(tmp_path: Path) -> None:
    save(Fixture(None, about=ABOUT), tmp_path / "case")
    assert load(tmp_path / "case").case is None and name_of(Fixture(None)).startswith("none-")


def test_the_same_fixture_is_the_same_bytes(tmp_path: Path) -> None:
    contents = set()
    for about in permutations(ABOUT.items(), 2):
        save(Fixture(CASE, "finite", dict(about) | ABOUT), tmp_path / "x")
        contents.add((tmp_path / "x").read_bytes())
    assert len(contents) == 1


def test_what_was_loaded_is_stored_as_the_same_bytes(tmp_path: Path) -> None:
    save(Fixture(with_six_gb(Arrangement()), "zero", ABOUT), tmp_path / "one")
    save(load(tmp_path / "one"), tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_name_is_that_of_the_failure_whenever_it_happens() -> None:
    name = name_of(Fixture(CASE, about=ABOUT))
    assert name == name_of(Fixture(CASE, "NaN", ABOUT | {"time": "13:00", "versions": {}}))
    others = [Fixture(CASE, about=ABOUT | {key: "other"}) for key in ("clauses", "target", "test")]
    others.append(Fixture(replace(CASE, records=CASE.records ^ np.uint8(1)), about=ABOUT))
    assert len({name, *map(name_of, others)}) == 5
    assert name.startswith("gather-") and name.endswith(".safetensors")


@pytest.mark.parametrize(
    ("clauses", "clause"),
    [
        (["GATHER-11", "PAGE-1"], "GATHER-11"),
        ([], ""),
        (None, ""),
        (5, ""),
        (["../A-1"], ""),
        (["A-1\n"], ""),
        ([["A-1"]], ""),
    ],
)
def test_a_name_holds_the_first_clause_if_it_is_one(clauses: object, clause: str) -> None:
    name = name_of(Fixture(CASE, about={"clauses": clauses}))
    assert clause_in(name) == clause and name.startswith(f"gather-{clause}")
    assert "/" not in name and "\n" not in name


def test_a_failure_to_write_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "case"
    save(Fixture(CASE), path)
    before = path.read_bytes()

    def fail(*of: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="full"):
        save(Fixture(CASE, "NaN"), path)
    assert path.read_bytes() == before and list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("fixture", "found"),
    [
        (Fixture(object()), "object"),
        (Fixture(CASE, "other"), "other"),
        (Fixture(CASE, about={"time": float("nan")}), "nan"),
        (Fixture(CASE, about={"seed": 1 << 64}), "64 bits"),
        (Fixture(CASE, about={"at": Path()}), "Path"),
        (Fixture(CASE, expected={"a/b": np.zeros(1, np.uint8)}), "a/b"),
        (Fixture(CASE, expected={"a": np.zeros(1, np.complex64)}), "complex64"),
        (Fixture(replace(CASE, block_table=CASE.block_table - 100)), "allowed"),
        (Fixture(replace(CASE, arrangement=Arrangement(cache_record_slack=1 << 40))), "addresses"),
        (Fixture(with_six_gb(Arrangement(cache_block_slack=1 << 62, slots_outermost=True), 4)), "addresses"),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(fixture: Fixture, found: str, tmp_path: Path) -> None:
    with pytest.raises(BadFixture, match=found):
        save(fixture, tmp_path / "case")
    assert not list(tmp_path.iterdir())


def test_rows_that_differ_are_kept_up_to_a_number() -> None:
    rows = np.arange(4000, dtype=np.float32).reshape(20, 50, 4)
    expected, observed = sparse_rows(rows, rows + np.float32(1))
    assert expected["rows"].shape == observed["rows"].shape == (MOST_ROWS, 4)
    assert expected["rows.at"].tolist() == list(range(MOST_ROWS))
    nan = np.full((3, 2), np.nan, np.float32)
    assert len(sparse_rows(nan, nan.copy())[0]["rows"]) == 0
    assert sparse_rows(nan, -nan)[1]["rows.at"].tolist() == [0, 1, 2]
    assert sparse_rows(nan, -nan, wrong=np.eye(3, 2, -1) > 0)[1]["rows.at"].tolist() == [1, 2]
    for shape in ((0, 4), (4, 0), (0,)):
        assert len(sparse_rows(np.zeros(shape), np.ones(shape))[0]["rows"]) == 0
