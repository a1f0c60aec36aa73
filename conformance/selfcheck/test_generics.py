"""TWIN-5 to TWIN-9: the golden generic gather against torch's arithmetic, and wrong gathers seen by the gate's own."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from conformance.calls import MALFORMED_GENERIC, Malformed, good_call, must_refuse
from conformance.generation import Geometry, realize
from conformance.generics import SCALES, every_number, one_hot, over, uneven_requests, with_spare_rows
from conformance.judge import Crashed, Differs, Judge
from conformance.small_scope import batches, judge_batch
from conformance.targets.models import NumpyTarget
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


def tokens_all_of_the_first_request(call: Call) -> None:
    call["token_to_seq"] = 0 * call["token_to_seq"]


def scale_ignored(call: Call) -> None:
    call["scale"] = np.ones(1, np.float32)


def scale_cut_to_bf16(call: Call) -> None:
    call["scale"] = (np.atleast_1d(call["scale"]).view(np.uint32) & 0xFFFF0000).view(np.float32)


def read_as_of_another_width(call: Call) -> None:
    call["src_cache"] = np.roll(call["src_cache"], 1, axis=-1)


def auto_multiplied(call: Call) -> None:
    rows = call["dst"][: call["num_tokens"]]
    with np.errstate(invalid="ignore"):
        rows[:] = (f32_from_bf16(rows) * call["scale"]).view(np.uint32) >> 16


def rope_not_multiplied(call: Call) -> None:
    plain = np.empty((call["num_tokens"], call["dst"].shape[1]), np.uint16)
    NumpyTarget().gather_and_maybe_dequant_cache(**{**call, "dst": plain, "scale": np.ones(1, np.float32)})
    call["dst"][: call["num_tokens"], 512:] = plain[:, 512:]


def one_row_too_many(call: Call) -> None:
    call["dst"][call["num_tokens"] :][:1] = 0


def copied_nan_made_canonical(call: Call) -> None:
    rows = call["dst"][: call["num_tokens"]]
    rows[(rows & 0x7FFF) > 0x7F80] = 0x7FFF


def computed_nan_of_another_kind(call: Call) -> None:
    rows = call["dst"][: call["num_tokens"]]
    rows[rows == 0x7FFF] = 0x7FC0


def subnormals_flushed(call: Call) -> None:
    rows = call["dst"][: call["num_tokens"]]
    rows[(rows & 0x7F80) == 0] &= 0x8000


def infinities_saturated(call: Call) -> None:
    rows = call["dst"][: call["num_tokens"]]
    rows[(rows & 0x7FFF) == 0x7F80] -= 1


def last_row_spoilt(call: Call) -> None:
    call["dst"][: call["num_tokens"]][-1:] ^= 1


def cases_for(layout: RecordLayout) -> Iterator[GatherCase]:
    """What the gate has for one layout, but for its larger enumerations."""
    yield over(realize(Geometry(16, (5, 9), (3, 6)), seed=1), layout, 1)
    yield over(realize(Geometry(16, (90, 60), (3, 70)), seed=1), layout, 5)
    yield from (uneven_requests(layout, seed) for seed in range(4))
    yield from every_number(layout)


BEFORE = {
    starts_ignored: (AUTO, FP8),
    tokens_all_of_the_first_request: (AUTO, FP8),
    read_as_of_another_width: (AUTO, FP8),
    scale_ignored: (FP8,),
    scale_cut_to_bf16: (FP8,),
}
AFTER = {
    auto_multiplied: (AUTO,),
    copied_nan_made_canonical: (AUTO,),
    rope_not_multiplied: (FP8,),
    computed_nan_of_another_kind: (FP8,),
    one_row_too_many: (AUTO, FP8),
    subnormals_flushed: (AUTO, FP8),
    infinities_saturated: (AUTO, FP8),
    last_row_spoilt: (AUTO, FP8),
}


def wrong_gathers() -> list[Any]:
    both: list[tuple[Any, Any, Any]] = [(fault, layouts, Wrong(before=fault)) for fault, layouts in BEFORE.items()]
    both += [(fault, layouts, Wrong(after=fault)) for fault, layouts in AFTER.items()]
    return [
        pytest.param(wrong, layout, id=f"{fault.__name__}-{layout.name}")
        for fault, layouts, wrong in both
        for layout in layouts
    ]


@pytest.mark.parametrize(("wrong", "layout"), wrong_gathers())
def test_a_wrong_gather_is_seen(wrong: Wrong, layout: RecordLayout) -> None:
    with pytest.raises((Differs, Crashed)):
        for case in cases_for(layout):
            Judge(wrong, ["TWIN-5"])(case)


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
    with pytest.raises(Differs, match=named) as caught:
        Judge(Wrong(before=fault))(case)
    assert "row 0 = request 0 token 3 = block 0 slot 3" in str(caught.value)
    assert ("scale 0x" in str(caught.value)) == (layout == FP8)


def test_a_row_after_num_tokens_is_seen_also_call_by_call() -> None:
    some = next(batch for batch in batches(2, 2, FP8) if batch.lengths[0] == (2, 3))
    judge_batch(Judge(NumpyTarget()), some)
    with pytest.raises(Differs, match=r"behind its T rows|rows beyond T"):
        judge_batch(Judge(Wrong(after=one_row_too_many)), some)


def test_rows_written_without_requests_are_seen() -> None:
    from conformance.gate.test_generic import test_no_requests_write_no_rows

    def after(call: Call) -> None:
        call["dst"][:] = 0

    with pytest.raises(Differs, match="although R = 0"):
        test_no_requests_write_no_rows(Judge(Wrong(after=after)), FP8, 0, True)


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


def test_the_scale_of_auto_is_poison_whatever_the_case_has() -> None:
    for layout, is_poison in ((AUTO, True), (FP8, False)):
        case = over(realize(Geometry(4, (5,), (3,)), seed=1), layout)
        assert [bool(np.isnan(place(case, poison)["scale"].data).all()) for poison in POISONS] == 2 * [is_poison]


class Lenient(NumpyTarget):
    def gather_and_maybe_dequant_cache(self, *args: Any, **named: Any) -> None:
        pass


@pytest.mark.parametrize("malformed", MALFORMED_GENERIC, ids=lambda m: f"{m.argument} {m.found}")
def test_a_malformed_call_that_is_accepted_is_seen(malformed: Malformed) -> None:
    good = with_spare_rows(over(good_call(), FP8), 0)
    with pytest.raises(Differs, match=f"{malformed.argument} {malformed.found}: accepted"):
        must_refuse(Judge(Lenient()), malformed, good)
