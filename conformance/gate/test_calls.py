"""GATHER-10 to GATHER-12: calls with nothing to do, malformed calls, memory aligned less than the contract asks."""

from dataclasses import replace

import numpy as np
import pytest

from conformance.calls import (
    MALFORMED,
    MISALIGNED,
    Malformed,
    as_claimed,
    good_call,
    must_ignore_unused_strides,
    must_read_anew,
    must_refuse,
    refuses_or_conforms,
)
from conformance.generation import Geometry, realize
from conformance.judge import Judge
from fixtures.cases import Arrangement


@pytest.mark.clause("GATHER-10")
@pytest.mark.parametrize("with_starts", [True, False], ids=["starts", "no starts"])
@pytest.mark.parametrize("lengths", [(), (0,), (0, 0, 0)], ids=["no request", "one", "three"])
def test_no_rows_are_no_error(judge: Judge, lengths: tuple[int, ...], with_starts: bool) -> None:
    judge(realize(Geometry(4, lengths, (3,) * len(lengths) if with_starts else None), seed=1))


@pytest.mark.clause("GATHER-10")
def test_no_rows_need_no_block_and_no_column(judge: Judge) -> None:
    none = realize(Geometry(4, (0, 0), (3, 0)), seed=1)
    nothing = replace(none, records=np.empty((0, 4, 352), np.uint8), block_table=np.empty((2, 0), np.int32))
    judge(as_claimed(judge, nothing))


@pytest.mark.clause("GATHER-10")
@pytest.mark.parametrize("with_starts", [True, False], ids=["starts", "no starts"])
@pytest.mark.parametrize("spare", [0, 2], ids=["empty arrays", "arrays of two"])
def test_no_requests_write_no_rows(judge: Judge, spare: int, with_starts: bool) -> None:
    some = realize(Geometry(4, (5,), (3,), arrangement=Arrangement(spare_requests=spare)), seed=2)
    none = np.empty(0, np.int32)
    starts = none if with_starts else None
    judge(replace(some, block_table=np.empty((0, 2), np.int32), workspace_starts=none, seq_starts=starts))


@pytest.mark.clause("GATHER-11")
@pytest.mark.parametrize("malformed", MALFORMED, ids=lambda m: f"{m.argument} {m.found}")
def test_a_malformed_call_is_refused_and_writes_nothing(judge: Judge, malformed: Malformed) -> None:
    must_refuse(judge, malformed)


@pytest.mark.clause("GATHER-12")
@pytest.mark.parametrize(("argument", "how"), MISALIGNED.values(), ids=MISALIGNED)
def test_misaligned_memory_is_served_or_refused(judge: Judge, argument: str, how: Arrangement) -> None:
    refuses_or_conforms(judge, replace(good_call(), arrangement=how), argument)


@pytest.mark.clause("GATHER-8")
@pytest.mark.parametrize("name", ["src_cache", "dst", "block_table", "workspace_starts", "seq_starts"])
def test_a_stride_that_is_never_used_does_not_count(judge: Judge, name: str) -> None:
    must_ignore_unused_strides(judge, name)


@pytest.mark.clause("GATHER-14")
def test_a_second_call_on_the_same_arrays_reads_them_anew(judge: Judge) -> None:
    must_read_anew(judge)
