"""DEVICE: streams, graphs, memory and sizes, for targets whose arrays lie on a CUDA device."""

import pytest

from conformance import device, device_sizes
from conformance.calls import MALFORMED, Malformed
from conformance.judge import Judge
from conformance.targets.base import GATHER_STARTS


@pytest.fixture(autouse=True)
def _with_starts(judge: Judge) -> None:
    judge.need(GATHER_STARTS)


@pytest.mark.unsanitized
@pytest.mark.clause("DEVICE-1")
def test_a_call_runs_on_the_callers_stream(judge: Judge) -> None:
    device.must_run_on_the_callers_stream(judge)


@pytest.mark.unsanitized
@pytest.mark.clause("DEVICE-2")
def test_a_call_does_not_need_the_default_stream(judge: Judge) -> None:
    device.must_not_need_the_default_stream(judge)


@pytest.mark.unsanitized
@pytest.mark.clause("DEVICE-3")
def test_a_call_returns_before_the_work_ahead_of_it_is_done(judge: Judge) -> None:
    device.must_return_at_once(judge)


@pytest.mark.clause("DEVICE-4")
def test_a_captured_call_reads_its_arguments_at_each_replay(judge: Judge) -> None:
    device.must_be_captured_and_replayed(judge)


@pytest.mark.unsanitized
@pytest.mark.clause("DEVICE-5")
def test_a_call_allocates_nothing(judge: Judge) -> None:
    device.must_not_allocate(judge)


@pytest.mark.clause("DEVICE-6")
def test_a_call_gives_the_same_bits_each_time(judge: Judge) -> None:
    device.must_repeat_itself(judge)


@pytest.mark.unsanitized
@pytest.mark.clause("DEVICE-7")
def test_calls_on_two_streams_do_not_disturb_each_other(judge: Judge) -> None:
    device.must_not_disturb_a_call_on_another_stream(judge)


@pytest.mark.unsanitized
@pytest.mark.clause("DEVICE-8")
def test_every_number_of_rows_is_served(judge: Judge) -> None:
    device_sizes.must_serve_every_number_of_rows(judge)


@pytest.mark.unsanitized
@pytest.mark.clause("DEVICE-9")
def test_a_packed_workspace_beyond_32_bits_is_written(judge: Judge) -> None:
    device_sizes.must_write_a_workspace_beyond_32_bits(judge)


@pytest.mark.clause("DEVICE-10")
def test_no_call_leaves_an_error_pending(judge: Judge) -> None:
    device.must_leave_nothing_pending(judge)


@pytest.mark.clause("DEVICE-11")
@pytest.mark.parametrize("malformed", MALFORMED, ids=lambda m: f"{m.argument} {m.found}")
def test_a_refused_call_enqueues_nothing(judge: Judge, malformed: Malformed) -> None:
    device.must_enqueue_nothing_if_refused(judge, malformed)
