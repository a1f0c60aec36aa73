"""TWIN-5 to TWIN-9: the golden generic gather against torch's arithmetic, and wrong gathers seen by the gate's own."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from conformance.calls import MALFORMED_GENERIC, Malformed, good_call, must_refuse
from conformance.diagnosis.engine import diagnose, in_full
from conformance.faults import generic_reading
from conformance.faults.fault import Fault
from conformance.faults.gathers import FaultyGather
from conformance.generation import Geometry, realize
from conformance.generics import GENERIC_EXTREMES, SCALES, every_number, one_hot, over, uneven_requests, with_spare_rows
from conformance.judge import Judge
from conformance.small_scope import Part, batches, judge_batch
from conformance.targets.models import EVERY_GATHER, NumpyTarget
from conformance.verdict import Crashed, Differs
from fixtures.cases import GatherCase
from fixtures.placement import POISONS, place
from reference.reading import read_records
from reference.records import GENERIC, RecordLayout
from reference.scalars import f32_from_bf16

Call = dict[str, Any]
AUTO, FP8 = GENERIC["auto", 576], GENERIC["fp8", 576]
EACH = pytest.mark.parametrize("layout", GENERIC.values(), ids=lambda layout: f"{layout.name}-{layout.row}")


def read_by_torch(case: GatherCase) -> npt.NDArray[np.uint16]:
    """The records of a case in torch's own float8, float32 and bfloat16."""
    records = torch.from_numpy(case.records.reshape(-1, case.layout.nbytes))
    if case.layout.name == "auto":
        return records.view(torch.int16).numpy().view(np.uint16)
    products = records.view(torch.float8_e4m3fn).float() * torch.from_numpy(np.array([case.scale], np.float32))
    rows = products.bfloat16().view(torch.int16)
    rows[products.isnan()] = 0x7FFF
    return rows.numpy().view(np.uint16)


@pytest.mark.clause("TWIN-8", "TWIN-9")
@EACH
def test_the_reader_agrees_with_torch(layout: RecordLayout) -> None:
    for case in [*every_number(layout), one_hot(layout)]:
        records = case.records.reshape(-1, layout.nbytes)
        assert np.array_equal(read_records(layout, records, case.scale), read_by_torch(case))


@EACH
def test_each_element_meets_every_number(layout: RecordLayout) -> None:
    numbers = 256 if layout.converted else 65_536
    for case in every_number(layout):
        source = case.sources
        cache = case.cache[case.block_table[source.request, source.column], source.slot]
        assert all(np.bincount(column, minlength=numbers).all() for column in cache.T)


def test_special_scales_reach_the_cases_with_their_bits() -> None:
    used = {int(case.scale.view(np.uint32)) for case in every_number(FP8)}
    assert {0x7F800001, 0xFFFFFFFF, 0x80000000, 0x007FFFFF} <= used == set(SCALES.view(np.uint32).tolist())


@pytest.mark.clause("TWIN-9")
def test_a_product_is_rounded_to_binary32_before_it_is_rounded_to_bf16() -> None:
    scale = np.uint32(0x3F815555).view(np.float32)
    (read,) = f32_from_bf16(read_records(FP8, np.full((1, 576), 0x39, np.uint8), scale)[:, 0])
    exact = Fraction(9, 8) * Fraction(float(scale))
    below, above = Fraction(145, 128), Fraction(146, 128)  # the two bf16 around it
    assert below < exact < above and exact - below < above - exact  # the lower one is nearer
    assert Fraction(float(read)) == above  # but the product's binary32 is their tie, whose even one is the upper


class Wrong(NumpyTarget):
    """The golden model, with something done to a call before or after."""

    def __init__(
        self, before: Callable[[Call], None] | None = None, after: Callable[[Call], None] | None = None
    ) -> None:
        super().__init__()
        self.before, self.after = before, after

    def gather_and_maybe_dequant_cache(self, **call: Any) -> None:  # type: ignore[override]
        given = dict(call)
        if self.before:
            self.before(given)
        super().gather_and_maybe_dequant_cache(**given)
        if self.after:
            self.after(call)


def starts_ignored(call: Call) -> None:
    call["seq_starts"] = None


def read_as_of_another_width(call: Call) -> None:
    call["src_cache"] = np.roll(call["src_cache"], 1, axis=-1)


def auto_multiplied_by_a_number(call: Call) -> None:
    if np.isfinite(call["scale"]).all():
        rows = call["dst"][: call["num_tokens"]]
        with np.errstate(over="ignore", invalid="ignore"):
            rows[:] = (f32_from_bf16(rows) * call["scale"]).view(np.uint32) >> 16


def one_row_too_many(call: Call) -> None:
    call["dst"][call["num_tokens"] :][:1] = 0


def copied_nan_made_canonical(call: Call) -> None:
    rows = call["dst"][: call["num_tokens"]]
    rows[(rows & 0x7FFF) > 0x7F80] = 0x7FFF


def computed_nan_of_another_kind(call: Call) -> None:
    rows = call["dst"][: call["num_tokens"]]
    rows[rows == 0x7FFF] = 0x7FC0


def last_row_spoilt(call: Call) -> None:
    call["dst"][: call["num_tokens"]][-1:] ^= 1


def cases_for(layout: RecordLayout) -> Iterator[GatherCase]:
    """What the gate has for one layout, but for its larger enumerations."""
    yield over(realize(Geometry(16, (5, 9), (3, 6)), seed=1), layout, 1)
    yield over(realize(Geometry(16, (90, 60), (3, 70)), seed=1), layout, 5)
    yield from (uneven_requests(layout, seed) for seed in range(4))
    yield from every_number(layout)


@pytest.mark.parametrize("fault", generic_reading.FAULTS, ids=lambda fault: fault.name)
def test_a_wrong_gather_is_seen_and_named(fault: Fault) -> None:
    for layout in (layout for layout in (AUTO, FP8) if fault.concerns(layout)):
        with pytest.raises(Differs) as caught:
            for case in cases_for(layout):
                Judge(FaultyGather(fault, EVERY_GATHER), ["TWIN-5"])(case)
        assert fault.name in diagnose(caught.value).explained_by


@pytest.mark.parametrize("layout", [AUTO, FP8], ids=["auto", "fp8"])
@pytest.mark.parametrize("after", [one_row_too_many, last_row_spoilt], ids=lambda after: after.__name__)
def test_what_no_known_fault_does_is_seen(after: Callable[[Call], None], layout: RecordLayout) -> None:
    with pytest.raises(Differs):
        for case in cases_for(layout):
            Judge(Wrong(after=after), ["TWIN-5"])(case)


def test_bf16_multiplied_by_a_scale_that_is_a_number_is_seen() -> None:
    with pytest.raises(Differs):
        for case in cases_for(AUTO):
            Judge(Wrong(after=auto_multiplied_by_a_number), ["TWIN-5"])(case)


@EACH
def test_the_golden_gather_conforms_on_the_same_cases(layout: RecordLayout) -> None:
    judge = Judge(NumpyTarget())
    for case in cases_for(layout):
        judge(case)
    assert judge.count.cases > 6


@pytest.mark.parametrize("layout", [AUTO, FP8], ids=["auto", "fp8"])
@pytest.mark.parametrize(
    ("fault", "named"),
    [
        (starts_ignored, "fault starts-ignored"),
        (read_as_of_another_width, "no known fault explains it"),
    ],
)
def test_a_fault_is_named(layout: RecordLayout, fault: Callable[[Call], None], named: str) -> None:
    case = over(realize(Geometry(16, (5, 9), (3, 6)), seed=1), layout, 7)
    with pytest.raises(Differs) as caught:
        Judge(Wrong(before=fault))(case)
    assert named in in_full(caught.value)
    assert "row 0 = request 0 token 3 = block 0 slot 3" in str(caught.value)
    assert ("scale 0x" in str(caught.value)) == (layout == FP8)


def test_a_row_after_num_tokens_is_seen_also_call_by_call() -> None:
    some = next(batch for batch in batches(2, Part(2), FP8) if batch.lengths[0] == (2, 3))
    judge_batch(Judge(NumpyTarget()), some)
    with pytest.raises(Differs, match=r"behind its T rows|rows beyond T"):
        judge_batch(Judge(Wrong(after=one_row_too_many)), some)


def test_rows_written_without_requests_are_seen() -> None:
    from conformance.gate.test_generic import test_no_requests_write_no_rows

    def after(call: Call) -> None:
        call["dst"][:] = 0

    with pytest.raises(Differs, match="although R = 0"):
        test_no_requests_write_no_rows(Judge(Wrong(after=after)), FP8, 0, True)


def test_rows_without_requests_are_not_looked_for() -> None:
    from conformance.gate.test_generic import test_no_requests_write_no_rows

    def before(call: Call) -> None:
        if call["num_tokens"] and len(call["cu_seq_lens"]) == 1:
            raise IndexError("no such request")

    with pytest.raises(Crashed, match="no such request"):
        test_no_requests_write_no_rows(Judge(Wrong(before=before)), AUTO, 0, False)


@pytest.mark.parametrize("layout", [AUTO, FP8], ids=["auto", "fp8"])
def test_each_magnitude_is_met_by_what_copies_and_by_what_multiplies(layout: RecordLayout) -> None:
    from conformance.gate.test_twin import over_each

    met = {of.values[1] for of in over_each((), GENERIC_EXTREMES).args[1] if of.values[0].name == layout.name}
    assert met >= set(GENERIC_EXTREMES[:-1])


def test_any_nan_is_allowed_where_one_is_computed_and_not_where_it_is_copied() -> None:
    computed, copied = Wrong(after=computed_nan_of_another_kind), Wrong(after=copied_nan_made_canonical)
    computed.nan = copied.nan = "any"
    for case in every_number(FP8):
        Judge(computed)(case)
    with pytest.raises(Differs, match="got 0x7FFF NaN"):
        Judge(copied)(over(realize(Geometry(16, (90, 60), (3, 70)), seed=1), AUTO))


class RemembersItsScale(NumpyTarget):
    scale: Any = None

    def gather_and_maybe_dequant_cache(self, **call: Any) -> None:  # type: ignore[override]
        self.scale = call["scale"].copy() if self.scale is None else self.scale
        super().gather_and_maybe_dequant_cache(**{**call, "scale": self.scale})


def test_a_scale_that_is_remembered_is_seen() -> None:
    from conformance.gate.test_generic import test_a_second_call_reads_its_scale_anew

    test_a_second_call_reads_its_scale_anew(Judge(NumpyTarget()), FP8)
    with pytest.raises(Differs, match="a call after another one"):
        test_a_second_call_reads_its_scale_anew(Judge(RemembersItsScale()), FP8)


def test_the_scale_of_auto_is_nan_at_first_and_then_one_that_would_count() -> None:
    for layout, is_poison in ((AUTO, [True, False]), (FP8, [False, False])):
        case = over(realize(Geometry(4, (5,), (3,)), seed=1), layout)
        assert [bool(np.isnan(place(case, poison)["scale"].data).all()) for poison in POISONS] == is_poison


class Lenient(NumpyTarget):
    def gather_and_maybe_dequant_cache(self, *args: Any, **named: Any) -> None:
        pass


@pytest.mark.parametrize("malformed", MALFORMED_GENERIC, ids=lambda m: f"{m.argument} {m.found}")
def test_a_malformed_call_that_is_accepted_is_seen(malformed: Malformed) -> None:
    good = with_spare_rows(over(good_call(), FP8), 0)
    with pytest.raises(Differs, match=f"{malformed.argument} {malformed.found}: accepted"):
        must_refuse(Judge(Lenient()), malformed, good)
