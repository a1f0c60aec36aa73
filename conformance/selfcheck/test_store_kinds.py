"""Writes, merges, batches with context, and calls of planners, builders and servers come back as they were stored."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from conformance import (
    stored_cases,  # noqa: F401  registers what it has
    write_extremes,
)
from conformance.context_cases import ACCEPTANCE, SHARDED, random_case
from conformance.context_cases import NAMED as CONTEXTS
from conformance.contexts import batches
from conformance.merge_cases import FAR, STRIDED, far, in_place, one_for_all, shapes
from conformance.merge_cases import NAMED as MERGES
from conformance.merge_cases import cases_of as merges_of
from conformance.merge_generation import FEW, KINDS, mixed
from conformance.merge_strategies import merge_cases
from conformance.metadata import MetadataCase
from conformance.metadata import small_scope as metadata
from conformance.plans import PlanCase
from conformance.plans import small_scope as plans
from conformance.selfcheck.storing import lies_alike, stored
from conformance.startups import RIGHT
from conformance.strategies import write_cases
from conformance.workspaces import WorkspaceCase, every_configuration
from conformance.write_cases import FORMATS
from conformance.write_cases import NAMED as WRITES
from conformance.write_cases import cases_of as writes_of
from fixtures import merge_cases as merges
from fixtures import write_cases as writes
from fixtures.merge_cases import MergeCase, place_merge
from fixtures.serve_cases import SITES, DispatchCase
from fixtures.store import BadFixture, operator_of
from fixtures.write_cases import WriteCase, place_write

QUICK = settings(max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck))


def write_comes_back(case: WriteCase, path: Path) -> bool:
    return lies_alike(case, stored(case, path), place_write, writes.is_huge(case))


def merge_comes_back(case: MergeCase, path: Path) -> bool:
    back = stored(case, path)
    where = (back.output_in, back.lse_in) == (case.output_in, case.lse_in)
    return where and lies_alike(case, back, place_merge, merges.is_huge(case))


@pytest.mark.parametrize("named", WRITES, ids=lambda named: named.__name__)
def test_a_named_write_comes_back(named: Callable[[], Any], tmp_path: Path) -> None:
    assert all(write_comes_back(case, tmp_path / "case") for case in writes_of(named))


@pytest.mark.parametrize("form", FORMATS)
def test_an_extreme_write_comes_back(form: str, tmp_path: Path) -> None:
    for named in (*write_extremes.EXTREMES[1:], write_extremes.far_of):
        assert all(write_comes_back(case, tmp_path / "case") for case in writes_of(partial(named, form)))


def test_a_write_of_65537_tokens_comes_back(tmp_path: Path) -> None:
    assert write_comes_back(write_extremes.many_tokens("nvfp4_ds_mla"), tmp_path / "case")


def test_a_write_into_six_gigabytes_is_a_small_file(tmp_path: Path) -> None:
    case = write_extremes.slot_beyond_float32()
    assert case.num_blocks * case.block_size * 352 > 5_900_000_000
    assert write_comes_back(case, tmp_path / "case") and (tmp_path / "case").stat().st_size < 8192


@pytest.mark.parametrize(
    "changed",
    [{"num_blocks": 1 << 25}, {"slot_mapping": np.array([5, -1, 3])}, {"block_numbers": np.zeros(3, np.int32)}],
)
def test_a_write_to_where_no_block_is_held_is_not_stored(changed: Any, tmp_path: Path) -> None:
    with pytest.raises(BadFixture, match="block_numbers"):
        stored(replace(write_extremes.slot_beyond_float32(), **changed), tmp_path / "case")


@pytest.mark.parametrize("scale", [1.0, 1e300, -0.0, float("inf"), float("nan"), 0.1])
def test_a_scale_comes_back_that_is_no_number_of_json(scale: float, tmp_path: Path) -> None:
    case = replace(writes_of(WRITES[0])[0], scale=scale)
    assert stored(case, tmp_path / "case").scale.hex() == scale.hex()


@pytest.mark.parametrize("form", FORMATS)
def test_a_random_write_comes_back(form: str, tmp_path: Path) -> None:
    @QUICK
    @given(write_cases(form))
    def check(case: WriteCase) -> None:
        assert write_comes_back(case, tmp_path / "case")

    check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_named_merge_comes_back(kind: str, tmp_path: Path) -> None:
    cases = [case for named in (*MERGES, shapes, in_place, one_for_all) for case in merges_of(named, kind)]
    cases += [mixed(7, 3, 64, kind, 1, FEW, arrangement=how) for how in STRIDED.values()]
    assert all(merge_comes_back(case, tmp_path / "case") for case in cases)


@pytest.mark.parametrize("name, along, kind", FAR)
def test_a_merge_of_eight_gigabytes_is_a_small_file(name: str, along: str, kind: str, tmp_path: Path) -> None:
    assert merge_comes_back(far(name, along, kind), tmp_path / "case")
    assert (tmp_path / "case").stat().st_size < 8192


@pytest.mark.parametrize("kind", KINDS)
def test_a_random_merge_comes_back(kind: str, tmp_path: Path) -> None:
    @QUICK
    @given(merge_cases(kind))
    def check(case: MergeCase) -> None:
        assert merge_comes_back(case, tmp_path / "case")

    check()


PLAIN = [
    *(ACCEPTANCE, *CONTEXTS.values(), *SHARDED.values(), *map(random_case, range(20))),
    *list(plans(2, 3))[::50],
    *list(metadata(2, 2))[::100],
    *list(every_configuration("sparse"))[::500],
    *(DispatchCase(site, "fp8_ds_mla", batch) for site in SITES for batch in batches(site)),
    *(RIGHT, replace(RIGHT, kv_cache_dtype="fp8", compute_capability=(9, 0))),
    PlanCase((1 << 40, 0, 7), 1 << 36, 1 << 36, 64),
    MetadataCase((5, 0), (0, 3, 4), 3, 4, True),
    WorkspaceCase("dense", 1 << 62, 1, 64, 1),
]


def test_whatever_is_nothing_but_numbers_and_names_comes_back(tmp_path: Path) -> None:
    for case in PLAIN:
        assert stored(case, tmp_path / "case") == case
    assert {operator_of(case) for case in PLAIN} == {"context", "plan", "metadata", "workspace", "dispatch", "startup"}
