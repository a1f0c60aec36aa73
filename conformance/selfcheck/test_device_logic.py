"""The tests of DEVICE on a pretended device, so that what they compare is known to hold where no GPU is.

Its streams do everything at once, which is right for a call and shows where a test relies on their not doing so.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from conformance import device, device_setup
from conformance.device_operations import OPERATIONS, Operation
from conformance.judge import Judge
from conformance.memory import ArrayMemory
from conformance.targets.kernels import HostTarget
from conformance.targets.models import NumpyTarget
from conformance.verdict import Differs


class Stream:
    done = True

    def synchronize(self) -> None:
        pass


class Hold:
    holds = True

    def __init__(self, stream: Stream) -> None:
        pass

    def release(self) -> None:
        pass

    def __enter__(self) -> "Hold":
        return self

    def __exit__(self, *error: object) -> None:
        pass


class Graph:
    """A graph that makes the captured call anew."""

    def __init__(self, setup: device_setup.Setup) -> None:
        self.setup = setup

    def launch(self, stream: Stream) -> None:
        self.setup.call()


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_setup, "new_stream", Stream)
    for module in (device, device_setup):
        monkeypatch.setattr(module, "Hold", Hold)
        monkeypatch.setattr(module, "device_synchronize", lambda: None)
    monkeypatch.setattr(device, "captured", Graph)
    monkeypatch.setattr(ArrayMemory, "on_stream", lambda self, stream: nullcontext())


@pytest.fixture(params=[name for name, operation in OPERATIONS.items() if operation.claims in HostTarget.capabilities])
def operation(request: pytest.FixtureRequest) -> Operation:
    return OPERATIONS[request.param]


MUSTS: list[Any] = [
    device.must_return_at_once,
    device.must_be_captured_and_replayed,
    device.must_not_disturb_a_call_on_another_stream,
]


@pytest.mark.usefixtures("pretended")
@pytest.mark.parametrize("must", MUSTS, ids=lambda must: must.__name__)
def test_a_right_operator_is_right_each_time(must: Any, operation: Operation) -> None:
    judge = Judge(HostTarget(), ["DEVICE"])
    must(judge, operation)
    assert judge.count.cases > 0


@pytest.mark.usefixtures("pretended")
def test_repetitions_are_compared(operation: Operation) -> None:
    device.must_repeat_itself(Judge(HostTarget(), ["DEVICE"]), operation, times=2)


@pytest.mark.usefixtures("pretended")
def test_a_stream_that_does_everything_at_once_is_caught_in_the_act(operation: Operation) -> None:
    with pytest.raises(Differs, match="rows were written before"):
        device.must_run_on_the_callers_stream(Judge(HostTarget(), ["DEVICE"]), operation)


class Wrong(NumpyTarget):
    """Right but for one element of each output from the second call on."""

    calls = 0

    def spoil(self, output: Any) -> None:
        self.calls += 1
        if self.calls > 1:
            output[(0,) * output.ndim] ^= 1

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, src_cache: Any, dst: Any, *others: Any, **more: Any) -> None:
        super().cp_gather_and_upconvert_nvfp4_kv_cache(src_cache, dst, *others, **more)
        self.spoil(dst)

    def cp_gather_and_upconvert_fp8_kv_cache(self, src_cache: Any, dst: Any, *others: Any, **more: Any) -> None:
        super().cp_gather_and_upconvert_fp8_kv_cache(src_cache, dst, *others, **more)
        self.spoil(dst)

    def gather_and_maybe_dequant_cache(self, src_cache: Any, dst: Any, *others: Any, **more: Any) -> None:
        super().gather_and_maybe_dequant_cache(src_cache, dst, *others, **more)
        self.spoil(dst)

    def merge_attn_states(self, output: Any, *others: Any, **more: Any) -> None:
        super().merge_attn_states(output, *others, **more)
        self.spoil(output)

    def concat_and_cache_mla(self, kv_c: Any, k_pe: Any, kv_cache: Any, *others: Any, **more: Any) -> None:
        super().concat_and_cache_mla(kv_c, k_pe, kv_cache, *others, **more)
        self.spoil(kv_cache)


@pytest.mark.usefixtures("pretended")
@pytest.mark.parametrize("must", [*MUSTS, device.must_repeat_itself], ids=lambda must: must.__name__)
def test_an_operator_that_is_wrong_the_second_time_is_seen(must: Any, operation: Operation) -> None:
    with pytest.raises(Differs, match="and the golden model: 1 of"):
        must(Judge(Wrong(), ["DEVICE"]), operation)


@pytest.mark.parametrize("name", OPERATIONS)
def test_variants_have_one_shape_and_nothing_else_in_common(name: str) -> None:
    operation = OPERATIONS[name]
    first, *others = [operation.place(case) for case in operation.variants()]
    for other in others:
        for argument, placement in first.items():
            assert placement.shape == other[argument].shape
            if argument not in (operation.output, "workspace_starts", "scale"):
                assert (placement.data != other[argument].data).any()


@contextmanager
def nothing(stream: Any) -> Iterator[list[Any]]:
    yield [object()]


@pytest.mark.usefixtures("pretended")
def test_a_call_that_should_be_refused_and_is_not_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "capturing", nothing)
    monkeypatch.setattr(device, "node_types", lambda graph: [])
    from conformance.calls import MALFORMED
    from conformance.write_calls import MALFORMED as MALFORMED_WRITES

    judge = Judge(HostTarget(), ["DEVICE"])
    for malformed in MALFORMED:
        device.must_enqueue_nothing_if_refused(judge, malformed)
    for malformed in MALFORMED_WRITES:
        device.must_enqueue_nothing_if_a_write_is_refused(judge, malformed)
    monkeypatch.setattr(device, "node_types", lambda graph: [0])
    with pytest.raises(Differs, match="refused, but 1 nodes enqueued"):
        device.must_enqueue_nothing_if_refused(judge, MALFORMED[0])
