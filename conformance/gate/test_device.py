"""DEVICE: streams, graphs, memory and sizes, for targets whose arrays lie on a CUDA device."""

import pytest

from conformance import device, device_sizes
from conformance.calls import MALFORMED, Malformed
from conformance.device_operations import OPERATIONS, Operation
from conformance.judge import Judge
from conformance.targets.base import GATHER, GATHER_STARTS
from conformance.write_calls import MALFORMED as MALFORMED_WRITES

NVFP4 = pytest.mark.parametrize("kv_cache_dtype", ["nvfp4_ds_mla"])
EACH = pytest.mark.parametrize("operation", OPERATIONS, indirect=True)


@pytest.fixture
def operation(request: pytest.FixtureRequest) -> Operation:
    return OPERATIONS[request.param]


@pytest.mark.unsanitized
@pytest.mark.clause("DEVICE-1")
@EACH
def test_a_call_runs_on_the_callers_stream(judge: Judge, operation: Operation) -> None:
    device.must_run_on_the_callers_stream(judge, operation)


@pytest.mark.unsanitized
@pytest.mark.clause("DEVICE-2")
@EACH
def test_a_call_does_not_need_the_default_stream(judge: Judge, operation: Operation) -> None:
    device.must_not_need_the_default_stream(judge, operation)


@pytest.mark.unsanitized
@pytest.mark.clause("DEVICE-3")
@EACH
def test_a_call_returns_before_the_work_ahead_of_it_is_done(judge: Judge, operation: Operation) -> None:
    device.must_return_at_once(judge, operation)


@pytest.mark.clause("DEVICE-4")
@EACH
def test_a_captured_call_reads_its_arguments_at_each_replay(judge: Judge, operation: Operation) -> None:
    device.must_be_captured_and_replayed(judge, operation)


@pytest.mark.unsanitized
@pytest.mark.clause("DEVICE-5")
@EACH
def test_a_call_allocates_nothing(judge: Judge, operation: Operation) -> None:
    device.must_not_allocate(judge, operation)


@pytest.mark.clause("DEVICE-6")
@EACH
def test_a_call_gives_the_same_bits_each_time(judge: Judge, operation: Operation) -> None:
    device.must_repeat_itself(judge, operation)


@pytest.mark.unsanitized
@pytest.mark.clause("DEVICE-7")
@EACH
def test_calls_on_two_streams_do_not_disturb_each_other(judge: Judge, operation: Operation) -> None:
    device.must_not_disturb_a_call_on_another_stream(judge, operation)


@pytest.mark.roomy
@pytest.mark.unsanitized
@pytest.mark.clause("DEVICE-8")
def test_every_number_of_rows_is_served(judge: Judge) -> None:
    judge.need(GATHER)
    device_sizes.must_serve_every_number_of_rows(judge)


@pytest.mark.roomy
@pytest.mark.unsanitized
@pytest.mark.clause("DEVICE-9")
def test_a_packed_workspace_beyond_32_bits_is_written(judge: Judge) -> None:
    judge.need(GATHER)
    device_sizes.must_write_a_workspace_beyond_32_bits(judge)


@pytest.mark.clause("DEVICE-10")
def test_no_gather_leaves_an_error_pending(judge: Judge) -> None:
    judge.need(GATHER)
    device.must_leave_nothing_pending(judge)


@pytest.mark.clause("DEVICE-10")
@NVFP4
def test_no_write_leaves_an_error_pending(judge: Judge, kv_cache_dtype: str) -> None:
    device.must_leave_nothing_pending_after_a_write(judge)


@pytest.mark.clause("DEVICE-11")
@pytest.mark.parametrize("malformed", MALFORMED, ids=lambda m: f"{m.argument} {m.found}")
def test_a_refused_gather_enqueues_nothing(judge: Judge, malformed: Malformed) -> None:
    judge.need(GATHER_STARTS if "seq_starts" in (malformed.argument, malformed.changed) else GATHER)
    device.must_enqueue_nothing_if_refused(judge, malformed)


@pytest.mark.clause("DEVICE-11")
@NVFP4
@pytest.mark.parametrize("malformed", MALFORMED_WRITES, ids=lambda m: f"{m.argument} {m.found}")
def test_a_refused_write_enqueues_nothing(judge: Judge, malformed: Malformed, kv_cache_dtype: str) -> None:
    device.must_enqueue_nothing_if_a_write_is_refused(judge, malformed)
