"""Diagnosis of what a gather wrote: of a target whose NaN is any, and in the time that there is."""

from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest

from conformance.diagnosis import budget
from conformance.diagnosis.budget import NotLookedInto
from conformance.diagnosis.engine import diagnose
from conformance.diagnosis.gather_rows import explain
from conformance.faults.catalogue import FAULTS, Fault
from conformance.faults.gathers import FaultyGather
from conformance.faults.steps import in_memory
from conformance.generation import Geometry, realize
from conformance.judge import Judge
from conformance.observe import Observation
from conformance.twins import as_twin
from conformance.verdict import Differs
from fixtures.cases import GatherCase
from fixtures.placement import POISONS
from reference.scalars import Bf16Bits


class FaultyWithAnyNan(FaultyGather):
    """Every NaN with a sign and a payload of its own."""

    nan: Literal["canonical", "any"] = "any"

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, src_cache: Any, dst: Any, *others: Any, **more: Any) -> None:
        super().cp_gather_and_upconvert_nvfp4_kv_cache(src_cache, dst, *others, **more)
        with_other_nans(dst)


def with_other_nans(rows: Bf16Bits) -> None:
    nans = (rows & 0x7FFF) > 0x7F80
    number = np.arange(nans.sum())
    rows[nans] = number % 2 << 15 | 0x7F81 + number % 126


def with_nans() -> GatherCase:
    case = realize(Geometry(16, (9, 4, 6, 5), (5, 3, 33, 17)), 1)
    records = case.records.copy()
    records[..., ::3] = 0x7F
    return replace(case, records=records)


def named(name: str) -> Fault:
    return next(fault for fault in FAULTS if fault.name == name)


def judged(fault: Fault) -> Differs:
    with pytest.raises(Differs) as caught:
        Judge(FaultyWithAnyNan(fault))(with_nans())
    return caught.value


@pytest.mark.parametrize("name", ["starts-ignored", "scales-unpermuted", "scale-nan-is-448", "last-row-not-written"])
def test_a_fault_of_a_target_whose_nan_is_any_is_named(name: str) -> None:
    assert diagnose(judged(named(name))).explained_by == (name,)


def test_two_faults_of_a_target_whose_nan_is_any_are_named() -> None:
    both = named("start-of-request-0").gather.with_steps_of(named("nibbles-swapped").gather)
    assert (
        "nibbles-swapped + start-of-request-0"
        in diagnose(judged(replace(named("nibbles-swapped"), gather=both))).explained_by
    )


def test_another_nan_is_a_difference_that_counts_where_nan_is_canonical() -> None:
    case, fault = with_nans(), named("starts-ignored")
    rows = fault.gather(in_memory(case, POISONS[0]))
    with_other_nans(rows)
    seen = Observation(POISONS[0], rows)
    assert [each.name for each in explain(case, seen, "any")] == ["starts-ignored"]
    assert explain(case, seen) == []


def test_another_nan_is_a_difference_that_counts_where_bits_are_copied() -> None:
    twin, fault = as_twin(with_nans(), 1), named("last-row-not-written")
    case = replace(twin, records=np.full_like(twin.records, 0xFF))
    rows = fault.gather(in_memory(case, POISONS[0]))
    assert (rows[0, 512:] == 0xFFFF).all()
    rows[0, 512:] = 0x7FFF
    assert not any(each.exact for each in explain(case, Observation(POISONS[0], rows), "any"))


@pytest.fixture
def time_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by a second with each look at it."""
    clock = count()
    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(budget, "SECONDS", 3)


@pytest.mark.usefixtures("time_for_two")
@pytest.mark.parametrize("fault", FAULTS[:2], ids=lambda fault: fault.name)
def test_a_fault_that_is_tried_in_time_is_found(fault: Fault) -> None:
    assert fault.name in [each.name for each in explain(*written_by(fault))]


@pytest.mark.usefixtures("time_for_two")
@pytest.mark.parametrize("fault", [FAULTS[2], FAULTS[-1]], ids=lambda fault: fault.name)
def test_where_time_did_not_suffice_for_all_it_is_not_said_that_none_explains_it(fault: Fault) -> None:
    with pytest.raises(NotLookedInto, match="of those that 3 seconds sufficed for"):
        explain(*written_by(fault))


def written_by(fault: Fault) -> tuple[GatherCase, Observation]:
    case = realize(Geometry(4, (9, 0, 6), (3, 0, 5)), 1)
    return case, Observation(POISONS[0], fault.gather(in_memory(case, POISONS[0])))
