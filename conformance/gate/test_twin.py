"""TWIN: the other gathers, by the cases of the first one over records of their own."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from _pytest.mark.structures import ParameterSet

from conformance import small_scope, twins
from conformance.broken_features import broken_features_of_gathers
from conformance.calls import (
    MALFORMED,
    MALFORMED_GENERIC,
    MISALIGNED,
    Malformed,
    good_call,
    must_ignore_unused_strides,
    must_read_anew,
    must_refuse,
    one_row,
    refuses_or_conforms,
    two_calls,
)
from conformance.cases import FAR, NAMED, STRIDED, Named, cases_of, records_above_two_gib, strided_gather
from conformance.drawing import for_each
from conformance.extremes import EXTREMES
from conformance.generation import Geometry, realize
from conformance.generics import GENERIC_EXTREMES, over, rows_beyond_uint16, with_spare_rows
from conformance.judge import Judge
from conformance.profiles import Profile
from conformance.strategies import twin_cases
from conformance.targets.base import GATHERS
from conformance.twins import as_twin
from fixtures.cases import CONTIGUOUS, Arrangement
from fixtures.placement import POISONS, place
from reference.records import FP8_DS_MLA, GENERIC, RecordLayout

SMALL_SCOPE = [
    pytest.param(part, id=str(part), marks=[pytest.mark.long] if part.requests == 3 else [])
    for part in small_scope.PARTS
]
LAYOUTS = {"fp8_ds_mla": FP8_DS_MLA, **{f"{layout.name}-{layout.row}": layout for layout in GENERIC.values()}}


# A kernel takes both widths of a record as a rule, so that one of them is enough for a sanitizer.
UNSANITIZED = ("auto-512", "fp8-576")


def of(name: str, *more: Any, sanitized: bool = True) -> ParameterSet:
    """A layout as a parameter, under the clause that lets PAGE and GATHER bind its gather."""
    marks = [pytest.mark.clause("TWIN-1" if name == "fp8_ds_mla" else "TWIN-5")]
    return pytest.param(LAYOUTS[name], *more, marks=marks if sanitized else [*marks, pytest.mark.unsanitized])


EACH = pytest.mark.parametrize("layout", [of(name) for name in LAYOUTS], ids=LAYOUTS)
EACH_SANITIZED_ONCE = pytest.mark.parametrize(
    "layout", [of(name, sanitized=name not in UNSANITIZED) for name in LAYOUTS], ids=LAYOUTS
)


# Every bf16 is as many rows of "auto", and a packed cache reaches as far with "fp8".
ONE_IS_ENOUGH: dict[Named, tuple[str, ...]] = {rows_beyond_uint16: ("fp8",), records_above_two_gib: ("auto",)}


def over_each(of_fp8_ds_mla: tuple[Named, ...], of_generic: tuple[Named, ...]) -> pytest.MarkDecorator:
    """Cases over fp8_ds_mla, and each of those for the others over one that is copied and one that is multiplied."""
    pairs = [("fp8_ds_mla", case) for case in of_fp8_ds_mla]
    for i, case in enumerate(of_generic):
        width = (576, 512)[i % 2]
        pairs += [(f"{name}-{width}", case) for name in ONE_IS_ENOUGH.get(case, ("auto", "fp8"))]
    ids = [f"{case.__name__}-{name}" for name, case in pairs]
    return pytest.mark.parametrize(("layout", "named"), [of(*pair) for pair in pairs], ids=ids)


def malformed_calls() -> pytest.MarkDecorator:
    """What is malformed for each layout; of the second width, what is about it."""
    pairs = [
        (name, malformed)
        for name, layout in LAYOUTS.items()
        for malformed in (MALFORMED if layout == FP8_DS_MLA else MALFORMED_GENERIC)
        if layout.row == 576 or malformed.argument in ("src_cache", "dst")
        if layout != FP8_DS_MLA or malformed.found != "of records of 656 bytes"
    ]
    ids = [f"{malformed.argument} {malformed.found} {name}" for name, malformed in pairs]
    params = [of(*pair, sanitized=pair[0] not in UNSANITIZED or pair[1].argument == "scale") for pair in pairs]
    return pytest.mark.parametrize(("layout", "malformed"), params, ids=ids)


@pytest.mark.clause("TWIN-2", "TWIN-3", "TWIN-4", "SCALAR-7")
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(twins.every_scale_and_rope, marks=pytest.mark.unsanitized),
        twins.every_byte_under_chosen_scales,
        twins.one_hot,
    ],
    ids=lambda c: c.__name__,
)
def test_records_are_read_as_written_down(judge: Judge, case: Named) -> None:
    for one in cases_of(case):
        judge(one)


@pytest.mark.unsanitized
@EACH
@pytest.mark.parametrize("part", SMALL_SCOPE)
@pytest.mark.parametrize("block_size", [1, 2, 3])
def test_every_geometry_of_a_small_scope(
    judge: Judge, profile: Profile, layout: RecordLayout, block_size: int, part: small_scope.Part
) -> None:
    judge.need(GATHERS[layout.name][1])
    most = 2 if part.requests == 3 and profile.name == "quick" else small_scope.MOST
    for batch in small_scope.batches(block_size, part, layout, most):
        small_scope.judge_batch(judge, batch)


@pytest.mark.unsanitized
@EACH
@pytest.mark.parametrize("block_size", [1, 2, 3])
def test_every_geometry_of_a_small_scope_without_starts(judge: Judge, layout: RecordLayout, block_size: int) -> None:
    judge.need(GATHERS[layout.name][0])
    for requests in (1, 2, 3):
        small_scope.judge_batch(judge, small_scope.without_starts(block_size, requests, layout))


@EACH
@pytest.mark.parametrize("with_starts", [True, False], ids=["starts", "no starts"])
def test_no_rows_of_a_small_scope_are_no_error(judge: Judge, layout: RecordLayout, with_starts: bool) -> None:
    judge.need(GATHERS[layout.name][1 if with_starts else 0])
    for block_size in (1, 2, 3):
        for batch in small_scope.without_rows(block_size, with_starts, layout):
            small_scope.judge_batch(judge, batch)


@EACH_SANITIZED_ONCE
@pytest.mark.parametrize("named", NAMED, ids=lambda named: named.__name__)
def test_inputs_that_broke_real_kernels(judge: Judge, named: Named, layout: RecordLayout) -> None:
    for number, case in enumerate(cases_of(named)):
        judge(judge.served(over(case, layout, number)))


@pytest.mark.long
@pytest.mark.unsanitized
@over_each(EXTREMES, GENERIC_EXTREMES)
def test_magnitudes_that_outgrow_a_type_or_a_tile(judge: Judge, named: Named, layout: RecordLayout) -> None:
    for case in cases_of(named):
        judge(judge.served(over(case, layout)))


@EACH_SANITIZED_ONCE
@pytest.mark.parametrize("how", STRIDED.values(), ids=STRIDED)
def test_strided_arrays_give_what_contiguous_ones_give(judge: Judge, how: Arrangement, layout: RecordLayout) -> None:
    strided, plain = (judge.served(over(strided_gather(arrangement), layout)) for arrangement in (how, CONTIGUOUS))
    judge.same(judge.rows(strided), judge.rows(plain), "strided, and contiguous")


@EACH
def test_one_row_of_the_table_may_serve_all_requests(judge: Judge, layout: RecordLayout) -> None:
    alike = Arrangement(table_is_broadcast=True)
    case = over(realize(Geometry(4, (5, 6, 7), (3, 1, 2), table="shared", arrangement=alike), seed=1), layout)
    judge(judge.served(case))


@EACH_SANITIZED_ONCE
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 31, 32, 33, 127, 129])
def test_every_row_is_written_and_nothing_else(judge: Judge, rows: int, layout: RecordLayout) -> None:
    case = realize(Geometry(4, (rows,), (3,), arrangement=Arrangement(dst_row_slack=8)), seed=rows)
    judge(judge.served(over(case, layout, rows)))


@EACH
@pytest.mark.parametrize("geometry", [Geometry(4, (), ()), Geometry(4, (0, 0), (1, 2)), Geometry(4, (0,), None)])
def test_no_rows_are_no_error(judge: Judge, geometry: Geometry, layout: RecordLayout) -> None:
    judge(over(realize(geometry, seed=1), layout))


@EACH
def test_no_rows_need_no_block_and_no_column(judge: Judge, layout: RecordLayout) -> None:
    none = over(realize(Geometry(4, (0, 0), (3, 0)), seed=1), layout)
    judge(replace(none, records=none.records[:0], block_table=np.empty((2, 0), np.int32)))


@malformed_calls()
def test_a_malformed_call_is_refused_and_writes_nothing(
    judge: Judge, malformed: Malformed, layout: RecordLayout
) -> None:
    must_refuse(judge, malformed, with_spare_rows(over(good_call(), layout), 0))


@EACH_SANITIZED_ONCE
@pytest.mark.parametrize(("argument", "how"), MISALIGNED.values(), ids=MISALIGNED)
def test_misaligned_memory_is_served_or_refused(
    judge: Judge, argument: str, how: Arrangement, layout: RecordLayout
) -> None:
    least = np.dtype(layout.cache_dtype).itemsize if how.cache_shift else 0  # no array stands off its own type
    shifted = replace(how, cache_shift=max(how.cache_shift, least))
    refuses_or_conforms(judge, judge.served(replace(over(good_call(), layout), arrangement=shifted)), argument)


@pytest.mark.clause("TWIN-1")
@pytest.mark.parametrize("with_starts", [True, False], ids=["starts", "no starts"])
def test_no_requests_write_no_rows(judge: Judge, with_starts: bool) -> None:
    some, none = realize(Geometry(4, (5,), (3,)), seed=2), np.empty(0, np.int32)
    empty = replace(some, block_table=np.empty((0, 2), np.int32), workspace_starts=none)
    judge(as_twin(replace(empty, seq_starts=none if with_starts else None)))


@EACH
@pytest.mark.parametrize("with_starts", [True, False], ids=["starts", "no starts"])
def test_a_stride_that_is_never_used_does_not_count(judge: Judge, layout: RecordLayout, with_starts: bool) -> None:
    case = with_spare_rows(over(one_row(), layout), 0)
    case = case if with_starts else replace(case, seq_starts=None)
    for name in place(case, POISONS[0]):
        must_ignore_unused_strides(judge, name, case)


@EACH
def test_a_second_call_on_the_same_arrays_reads_them_anew(judge: Judge, layout: RecordLayout) -> None:
    first, second = (judge.served(over(case, layout, 2 * seed)) for seed, case in enumerate(two_calls()))
    must_read_anew(judge, (first, second))


@pytest.mark.roomy
@pytest.mark.long
@pytest.mark.unsanitized
@over_each(FAR, FAR)
def test_offsets_of_two_gib_and_more_are_reached(judge: Judge, named: Named, layout: RecordLayout) -> None:
    for case in cases_of(named):
        judge(over(case, layout))


@EACH_SANITIZED_ONCE
@pytest.mark.parametrize("share", [0, pytest.param(1, marks=pytest.mark.unsanitized)])
@pytest.mark.parametrize("with_starts", [True, False])
def test_random_cases(
    judge: Judge, profile: Profile, seed: int, share: int, with_starts: bool, layout: RecordLayout
) -> None:
    judge.need(GATHERS[layout.name][1 if with_starts else 0])
    count = profile.random_cases // (8 if with_starts else 32)
    for_each(twin_cases(layout, with_starts, "some", broken_features_of_gathers(judge, layout)), count, seed, judge)


@EACH_SANITIZED_ONCE
@pytest.mark.parametrize("with_starts", [True, False], ids=["starts", "no starts"])
def test_random_cases_without_rows(
    judge: Judge, profile: Profile, seed: int, with_starts: bool, layout: RecordLayout
) -> None:
    judge.need(GATHERS[layout.name][1 if with_starts else 0])
    for_each(twin_cases(layout, with_starts, "none"), profile.random_cases // 40, seed, judge)
