"""TWIN: the gather of fp8_ds_mla, by the cases of the other gather over records of its own."""

from dataclasses import replace

import numpy as np
import pytest

from conformance import small_scope, twins
from conformance.calls import (
    MALFORMED,
    MISALIGNED,
    Malformed,
    good_call,
    must_ignore_unused_strides,
    must_refuse,
    one_row,
    refuses_or_conforms,
)
from conformance.cases import FAR, NAMED, STRIDED, Named, cases_of, strided_gather
from conformance.drawing import for_each
from conformance.extremes import EXTREMES
from conformance.generation import Geometry, realize
from conformance.judge import Judge
from conformance.profiles import Profile
from conformance.strategies import gather_cases
from conformance.targets.base import GATHER_FP8, GATHER_FP8_STARTS
from conformance.twins import as_twin
from fixtures.cases import CONTIGUOUS, Arrangement
from reference.records import FP8_DS_MLA

SHARES = 4
MALFORMED_TWINS = [malformed for malformed in MALFORMED if malformed.found != "of records of 656 bytes"]


@pytest.mark.clause("TWIN-2", "TWIN-3", "TWIN-4")
@pytest.mark.parametrize(
    "case",
    [twins.every_scale_and_rope, twins.every_byte_under_chosen_scales, twins.one_hot],
    ids=lambda c: c.__name__,
)
def test_records_are_read_as_written_down(judge: Judge, case: Named) -> None:
    for one in cases_of(case):
        judge(one)


@pytest.mark.unsanitized
@pytest.mark.clause("TWIN-1")
@pytest.mark.parametrize("requests", [1, 2])
@pytest.mark.parametrize("block_size", [1, 3])
def test_every_geometry_of_a_small_scope(judge: Judge, block_size: int, requests: int) -> None:
    judge.need(GATHER_FP8_STARTS)
    for batch in small_scope.batches(block_size, requests, FP8_DS_MLA):
        small_scope.judge_batch(judge, batch)


@pytest.mark.clause("TWIN-1")
@pytest.mark.parametrize("named", NAMED, ids=lambda named: named.__name__)
def test_inputs_that_broke_real_kernels(judge: Judge, named: Named) -> None:
    for case in cases_of(named):
        judge(as_twin(case))


@pytest.mark.unsanitized
@pytest.mark.clause("TWIN-1")
@pytest.mark.parametrize("named", EXTREMES, ids=lambda named: named.__name__)
def test_magnitudes_that_outgrow_a_type_or_a_tile(judge: Judge, named: Named) -> None:
    for case in cases_of(named):
        judge(as_twin(case))


@pytest.mark.clause("TWIN-1")
@pytest.mark.parametrize("how", STRIDED.values(), ids=STRIDED)
def test_strided_arrays_give_what_contiguous_ones_give(judge: Judge, how: Arrangement) -> None:
    strided, plain = (judge.rows(as_twin(strided_gather(arrangement))) for arrangement in (how, CONTIGUOUS))
    judge.same(strided, plain, "strided, and contiguous")


@pytest.mark.clause("TWIN-1")
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 31, 32, 33, 127, 129])
def test_every_row_is_written_and_nothing_else(judge: Judge, rows: int) -> None:
    judge(as_twin(realize(Geometry(4, (rows,), (3,), arrangement=Arrangement(dst_row_slack=8)), seed=rows)))


@pytest.mark.clause("TWIN-1")
@pytest.mark.parametrize("geometry", [Geometry(4, (), ()), Geometry(4, (0, 0), (1, 2)), Geometry(4, (0,), None)])
def test_no_rows_are_no_error(judge: Judge, geometry: Geometry) -> None:
    judge(as_twin(realize(geometry, seed=1)))


@pytest.mark.clause("TWIN-1")
@pytest.mark.parametrize("malformed", MALFORMED_TWINS, ids=lambda m: f"{m.argument} {m.found}")
def test_a_malformed_call_is_refused_and_writes_nothing(judge: Judge, malformed: Malformed) -> None:
    must_refuse(judge, malformed, as_twin(good_call()))


@pytest.mark.clause("TWIN-1")
@pytest.mark.parametrize(("argument", "how"), MISALIGNED.values(), ids=MISALIGNED)
def test_misaligned_memory_is_served_or_refused(judge: Judge, argument: str, how: Arrangement) -> None:
    refuses_or_conforms(judge, replace(as_twin(good_call()), arrangement=how), argument)


@pytest.mark.clause("TWIN-1")
@pytest.mark.parametrize("with_starts", [True, False], ids=["starts", "no starts"])
def test_no_requests_write_no_rows(judge: Judge, with_starts: bool) -> None:
    some, none = realize(Geometry(4, (5,), (3,)), seed=2), np.empty(0, np.int32)
    empty = replace(some, block_table=np.empty((0, 2), np.int32), workspace_starts=none)
    judge(as_twin(replace(empty, seq_starts=none if with_starts else None)))


@pytest.mark.clause("TWIN-1")
@pytest.mark.parametrize("name", ["src_cache", "dst", "block_table", "workspace_starts", "seq_starts"])
def test_a_stride_that_is_never_used_does_not_count(judge: Judge, name: str) -> None:
    must_ignore_unused_strides(judge, name, as_twin(one_row()))


@pytest.mark.unsanitized
@pytest.mark.clause("TWIN-1")
@pytest.mark.parametrize("named", FAR, ids=lambda named: named.__name__)
def test_offsets_of_two_gib_and_more_are_reached(judge: Judge, named: Named) -> None:
    for case in cases_of(named):
        judge(as_twin(case))


@pytest.mark.clause("TWIN-1", "TWIN-2", "TWIN-3", "TWIN-4")
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("with_starts", [True, False])
def test_random_cases(judge: Judge, profile: Profile, seed: int, share: int, with_starts: bool) -> None:
    judge.need(GATHER_FP8_STARTS if with_starts else GATHER_FP8)
    count = profile.random_cases // (4 if with_starts else 16) // SHARES
    for_each(gather_cases(with_starts=with_starts).map(as_twin), count, seed, judge)
