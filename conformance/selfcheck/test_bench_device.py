"""Timing on a GPU, mostly without one."""

import pytest

from conformance.bench import device
from conformance.bench.devices import Device, device_of
from conformance.bench.outcome import failed
from conformance.bench.results import Measurement
from conformance.bench.workloads import Case
from conformance.memory import ArrayMemory, TorchMemory
from conformance.observe import TargetError
from conformance.selfcheck.fake_device import Clock, FakeDevice, Timed
from conformance.targets.base import Target
from conformance.targets.kernels import CudaTarget, why_no_device
from conformance.targets.models import TorchTarget

CASE = Case(300, 4, 3)


@pytest.fixture(autouse=True)
def few_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "sets_needed", lambda nbytes, l2: 3)
    monkeypatch.setattr(device, "calls_needed", lambda nbytes, sets: 6)


def bench(fake: Device, *targets: Target, plain: Target | None = None) -> list[Measurement]:
    return device.bench(fake, targets, plain, CASE, repeats=2)


def test_a_target_is_compared_with_the_copy_and_the_plain_kernel_of_its_run() -> None:
    clock = Clock()
    (found,) = bench(FakeDevice(clock), Timed(clock, "fast", 10_000), plain=Timed(clock, "cuda-plain", 30_000))
    assert (found.target, found.verdict, found.how, found.case) == ("fast", "measured", "graph", CASE)
    assert (found.microseconds, found.copy_microseconds, found.plain_microseconds) == (10_000, 9_000, 30_000)


def test_the_plain_kernel_as_a_target_is_measured_once() -> None:
    clock = Clock()
    plain = Timed(clock, "cuda-plain", 30_000)
    first, second = bench(FakeDevice(clock), Timed(clock, "fast", 10_000), plain, plain=plain)
    assert (first.target, second.target, second.derived()["ratio_to_plain"]) == ("fast", "cuda-plain", 1.0)
    alone = Timed(clock, "alone", 30_000)
    bench(FakeDevice(clock), alone)
    assert plain.calls == alone.calls


def test_the_copy_is_measured_before_and_after_the_gathers() -> None:
    clock = Clock()
    seen: list[int] = []
    device.bench(FakeDevice(clock), [Timed(clock, "t", 1)], None, CASE, 2, lambda load: seen.append(clock.copies))
    assert 0 < seen[0] < clock.copies


def test_the_calls_that_are_timed_go_round_all_sets() -> None:
    clock = Clock()
    target = Timed(clock, "t", 1)
    bench(FakeDevice(clock), target)
    first, *others = target.caches.values()  # the first set serves the call before
    assert others == [first - 1] * 2


def test_a_device_that_fails_fails_its_targets_and_not_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(device: FakeDevice) -> int:
        raise RuntimeError("CUDA says no")

    monkeypatch.setattr(FakeDevice, "free_bytes", fail)
    (found,) = bench(FakeDevice(Clock()), Timed(Clock(), "t", 1))
    assert (found.verdict, found.why) == ("crashed", "CUDA says no")


def test_what_cannot_be_captured_is_launched_back_to_back() -> None:
    clock = Clock()
    (found,) = bench(FakeDevice(clock, graphs=None), Timed(clock, "t", 10_000))
    assert (found.how, found.microseconds) == ("back to back", 10_000)


def test_a_graph_that_gathers_nothing_is_wrong_however_fast() -> None:
    clock = Clock()
    (found,) = bench(FakeDevice(clock, graphs=lambda run: lambda: None), Timed(clock, "other stream", 10_000))
    assert found.verdict == "wrong bits" and "launched as timed (graph)" in found.why
    assert found.microseconds is None


def test_rows_left_from_the_target_before_are_not_taken_for_its_own() -> None:
    clock = Clock()
    idle = Timed(clock, "idle", 1)
    idle.idle = True
    right, wrong = bench(FakeDevice(clock), Timed(clock, "right", 1), idle)
    assert (right.verdict, wrong.verdict) == ("measured", "wrong bits")


def test_a_case_beyond_the_free_memory_is_not_judged_and_says_what_it_needs() -> None:
    clock = Clock()
    large, target = Case(1 << 22, 64, 16), Timed(clock, "t", 1)
    (found,) = device.bench(FakeDevice(clock, free=5 << 30), [target], None, large, repeats=1)
    assert (found.verdict, found.why, target.calls) == ("not judged", "needs 35.3 GiB, 5.0 GiB free", 0)


def test_a_target_that_raises_crashed_and_the_others_are_measured() -> None:
    clock = Clock()
    bad = Timed(clock, "bad", 1)
    bad.error = ValueError("no such thing")
    crashed, fine = bench(FakeDevice(clock), bad, Timed(clock, "fine", 1))
    assert (crashed.verdict, crashed.why) == ("crashed", "ValueError: no such thing")
    assert (fine.verdict, fine.microseconds) == ("measured", 1)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (MemoryError("out of memory allocating 5 bytes"), "not judged"),
        (TargetError("OutOfMemoryError: CUDA out of memory"), "not judged"),
        (RuntimeError("an illegal memory access was encountered"), "crashed"),
    ],
)
def test_running_out_of_memory_is_no_crash(error: Exception, verdict: str) -> None:
    assert failed(error).verdict == verdict


def test_memory_of_the_cpu_is_on_no_device() -> None:
    assert device_of(ArrayMemory()) is None and device_of(TorchMemory()) is None


@pytest.mark.skipif(why_no_device() is not None, reason=f"no GPU: {why_no_device()}")
@pytest.mark.parametrize("timed", [CudaTarget(), TorchTarget("cuda")], ids=lambda timed: timed.name)
def test_a_gpu_times_its_targets_beside_the_copy(timed: Target) -> None:
    if timed.unavailable():
        pytest.skip(f"no GPU for {timed.name}: {timed.unavailable()}")
    place = device_of(timed.memory)
    assert place is not None and place.l2_bytes > 0 and place.facts()["sm"] in CudaTarget().offers()
    (found,) = bench(place, timed, plain=CudaTarget(kernel="plain"))
    assert found.verdict == "measured", found.why
    assert all(found.derived()[name] for name in ("gb_per_s", "ratio_to_copy", "ratio_to_plain"))
    assert found.how == ("graph" if timed.name == "cuda" else "back to back")
