"""GATHER-10 to GATHER-12: calls with nothing to do, malformed calls, memory aligned less than the contract asks."""

from dataclasses import replace

import numpy as np
import pytest

from conformance.calls import MALFORMED, MISALIGNED, Malformed, good_call, must_refuse, refuses_or_conforms
from conformance.generation import Geometry, realize
from conformance.judge import Judge
from conformance.targets.base import GATHER_STARTS
from fixtures.cases import Arrangement


@pytest.mark.clause("GATHER-10")
@pytest.mark.parametrize("lengths", [(), (0,), (0, 0, 0)], ids=["no request", "one", "three"])
def test_no_rows_are_no_error(judge: Judge, lengths: tuple[int, ...]) -> None:
    judge(realize(Geometry(4, lengths, (3,) * len(lengths)), seed=1))


@pytest.mark.clause("GATHER-10")
def test_no_requests_write_no_rows(judge: Judge) -> None:
    some = realize(Geometry(4, (5,), (3,)), seed=2)
    none = np.empty(0, np.int32)
    judge(replace(some, block_table=np.empty((0, 2), np.int32), workspace_starts=none, seq_starts=none))


@pytest.mark.clause("GATHER-11")
@pytest.mark.parametrize("malformed", MALFORMED, ids=lambda m: f"{m.argument} {m.found}")
def test_a_malformed_call_is_refused_and_writes_nothing(judge: Judge, malformed: Malformed) -> None:
    judge.need(GATHER_STARTS)
    must_refuse(judge, malformed)


@pytest.mark.clause("GATHER-12")
@pytest.mark.parametrize("how", MISALIGNED.values(), ids=MISALIGNED)
def test_misaligned_memory_is_served_or_refused(judge: Judge, how: Arrangement) -> None:
    refuses_or_conforms(judge, replace(good_call(), arrangement=how))
