"""TWIN-5 to TWIN-9: what the generic gather has that the others have not, and how its records are read."""

from dataclasses import replace

import numpy as np
import pytest

from conformance.calls import OTHER_CACHE, good_call, must_read_anew, must_refuse
from conformance.generation import Geometry, realize
from conformance.generics import every_bf16, every_byte, one_hot, over, uneven_requests, with_spare_rows
from conformance.judge import Judge
from fixtures.cases import Arrangement
from reference.records import GENERIC, RecordLayout

OF_BF16, OF_BYTES = ([layout for layout in GENERIC.values() if layout.name == name] for name in ("auto", "fp8"))


def named(layout: RecordLayout) -> str:
    return f"{layout.name}-{layout.row}"


EACH = pytest.mark.parametrize("layout", GENERIC.values(), ids=named)


@pytest.mark.unsanitized
@pytest.mark.clause("TWIN-8")
@pytest.mark.parametrize("layout", OF_BF16, ids=named)
def test_every_bf16_is_copied_at_every_element(judge: Judge, layout: RecordLayout) -> None:
    judge(every_bf16(layout))


@pytest.mark.unsanitized
@pytest.mark.clause("TWIN-9", "SCALAR-7", "SCALAR-8")
@pytest.mark.parametrize("layout", OF_BYTES, ids=named)
def test_every_byte_is_multiplied_at_every_element(judge: Judge, layout: RecordLayout) -> None:
    for case in every_byte(layout):
        judge(case)


@pytest.mark.clause("TWIN-8", "TWIN-9")
@EACH
def test_each_byte_of_a_record_alone_lands_in_its_element(judge: Judge, layout: RecordLayout) -> None:
    judge(one_hot(layout))


@pytest.mark.clause("TWIN-9")
@pytest.mark.parametrize("layout", OF_BYTES, ids=named)
def test_a_scale_may_be_without_a_dimension(judge: Judge, layout: RecordLayout) -> None:
    case = over(realize(Geometry(4, (5, 2)), seed=1), layout)
    for scalar in (True, False):
        judge(replace(case, arrangement=replace(case.arrangement, scale_is_scalar=scalar)))


@pytest.mark.clause("TWIN-9")
@pytest.mark.parametrize("layout", OF_BYTES, ids=named)
def test_a_second_call_reads_its_scale_anew(judge: Judge, layout: RecordLayout) -> None:
    case = over(realize(Geometry(4, (5, 2)), seed=1), layout)
    must_read_anew(judge, (case, replace(case, scale=np.float32(0.375))))


@pytest.mark.clause("TWIN-6")
@EACH
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.unsanitized) for seed in range(2, 8))])
def test_a_row_is_that_request_s_whose_number_stands_in_token_to_seq(
    judge: Judge, layout: RecordLayout, seed: int
) -> None:
    judge(judge.served(uneven_requests(layout, seed)))


@pytest.mark.clause("TWIN-7")
@EACH
@pytest.mark.parametrize("slack", [0, 8], ids=["packed", "rows apart"])
@pytest.mark.parametrize("spare", [0, 1, 5, 64, 1000])
def test_rows_from_num_tokens_on_stay_as_they_were(judge: Judge, layout: RecordLayout, spare: int, slack: int) -> None:
    case = realize(Geometry(4, (5, 0, 9), (3, 1, 6), arrangement=Arrangement(dst_row_slack=slack)), seed=spare)
    judge(judge.served(with_spare_rows(over(case, layout), spare)))


@pytest.mark.clause("TWIN-5")
@EACH
@pytest.mark.parametrize("with_starts", [True, False], ids=["starts", "no starts"])
@pytest.mark.parametrize("spare", [0, 2], ids=["empty arrays", "arrays of two"])
def test_no_requests_write_no_rows(judge: Judge, layout: RecordLayout, spare: int, with_starts: bool) -> None:
    some = realize(Geometry(4, (5,), (3,), arrangement=Arrangement(spare_requests=spare)), seed=2)
    none = np.empty(0, np.int32)
    starts = none if with_starts else None
    empty = replace(some, block_table=np.empty((0, 2), np.int32), workspace_starts=none, seq_starts=starts)
    for num_tokens in (0, 5):
        judge(over(replace(empty, num_rows=num_tokens), layout))


@pytest.mark.clause("TWIN-5")
@EACH
def test_a_cache_of_the_other_kv_cache_dtype_is_refused(judge: Judge, layout: RecordLayout) -> None:
    must_refuse(judge, OTHER_CACHE[layout.name], over(good_call(), layout))
