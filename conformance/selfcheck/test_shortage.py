"""Running out of memory is no verdict on a target, and says what was needed and what there was."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance import machine
from conformance.memory import ArrayMemory, TorchMemory
from conformance.observe import TargetError, invoke, settle
from conformance.running.workers import GIB
from conformance.selfcheck.fake_gpus import RunsOut
from conformance.selfcheck.running import gate
from conformance.shortage import Room, Shortage, is_shortage, size, stated, wanted_bytes
from conformance.targets.models import NumpyTarget
from fixtures.placement import Placement

SAID = [
    (MemoryError("Out of memory allocating 1,073,741,824 bytes (allocated so far: 0 bytes, limit set to: 9)."), GIB),
    (MemoryError("Unable to allocate 1.50 PiB for an array with shape (9,) and data type uint8"), 3 << 49),
    (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 1.00 GiB"), 2 * GIB),
    (RuntimeError("[enforce fail] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 96 bytes."), 96),
    (RuntimeError("cudaErrorMemoryAllocation: out of memory"), None),
    (RuntimeError("CUDA_ERROR_OUT_OF_MEMORY: out of memory"), None),
    (RuntimeError("CUDA error: out of memory"), None),
    (MemoryError(), None),
]


@pytest.mark.parametrize(("error", "wanted"), SAID)
def test_what_the_libraries_say_is_understood(error: Exception, wanted: int | None) -> None:
    assert is_shortage(error) and wanted_bytes(str(error)) == wanted


@pytest.mark.parametrize(
    "error",
    [RuntimeError("an illegal memory access was encountered"), ValueError("out of memory"), KeyboardInterrupt()],
)
def test_what_is_no_shortage_is_none(error: BaseException) -> None:
    assert not is_shortage(error)


class Somewhere:
    def __init__(self, room: Room) -> None:
        self._room = room

    def room(self) -> Room:
        return self._room


class Lost:
    def room(self) -> Room:
        raise RuntimeError("the device is lost")


@pytest.mark.parametrize(
    ("memory", "error", "text"),
    [
        (
            Somewhere(Room("NVIDIA H200", 5 * GIB, 10 * GIB, GIB)),
            MemoryError(f"allocating {13 * GIB:,} bytes"),
            "needs 13.0 GiB more; this worker may use 10.0 GiB of NVIDIA H200, of which 1.0 GiB are in use; "
            "5.0 GiB of NVIDIA H200 are free",
        ),
        (
            Somewhere(Room(free=5)),
            MemoryError("allocating 9 bytes"),
            "needs 9 bytes more; 5 bytes of this machine are free",
        ),
        (Somewhere(Room()), MemoryError(), "needs more (MemoryError)"),
        (
            Lost(),
            RuntimeError("CUDA error:\nout of memory"),
            "needs more (CUDA error: out of memory); what there is cannot",
        ),
    ],
)
def test_a_shortage_says_what_was_needed_and_what_there_was(memory: Any, error: Exception, text: str) -> None:
    assert str(stated(error, memory)).startswith(text)


def test_a_shortage_is_stated_once() -> None:
    once = stated(MemoryError("allocating 9 bytes"), Lost())
    assert stated(once, Somewhere(Room())) is once


@pytest.mark.parametrize(
    ("nbytes", "text"), [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (1 << 75, "32768.0 EiB")]
)
def test_bytes_are_said_in_the_largest_unit_that_fits(nbytes: int, text: str) -> None:
    assert size(nbytes) == text


def endless(poison: int = 7) -> Placement:
    return Placement(np.zeros((1, 1), np.uint8), (1, 1), before=1 << 60, after=0, poison=poison)


@pytest.mark.parametrize("memory", [ArrayMemory(), TorchMemory()], ids=lambda memory: memory.name)
def test_an_array_that_does_not_fit_states_its_need(memory: Any) -> None:
    with pytest.raises(Shortage, match=r"^needs 1\.0 EiB more; [\d.]+ [GM]iB of this machine are free$"):
        memory.place(endless())


@pytest.mark.parametrize("memory", [ArrayMemory(), TorchMemory()], ids=lambda memory: memory.name)
def test_on_the_cpu_a_limit_does_nothing(memory: Any) -> None:
    memory.limit(1)
    assert memory.room().limit is None
    region = memory.place(Placement(np.ones((2, 3), np.uint8), (3, 1), before=1, after=1, poison=7))
    assert (memory.read(region) == 1).all()


class LateMemory(ArrayMemory):
    def synchronize(self) -> None:
        raise RuntimeError("CUDA error: out of memory")


def raising(error: BaseException) -> Any:
    def operator() -> None:
        raise error

    return operator


@pytest.mark.parametrize("error", [said[0] for said in SAID])
def test_an_operator_that_runs_out_of_memory_is_no_target_that_raises(error: Exception) -> None:
    with pytest.raises(Shortage, match=r"^needs ") as caught:
        invoke(NumpyTarget(), raising(error), {})
    assert caught.value.__cause__ is error
    with pytest.raises(TargetError, match=r"^ValueError: out of memory$"):
        invoke(NumpyTarget(), raising(ValueError("out of memory")), {})


def test_a_launch_that_runs_out_of_memory_is_none_either() -> None:
    target = NumpyTarget()
    target.memory = LateMemory()
    with pytest.raises(Shortage, match=r"^needs more \(CUDA error: out of memory\)"):
        settle(target)


def test_a_target_that_runs_out_of_memory_is_not_judged_on_that_case() -> None:
    target = f"{RunsOut.__module__}:{RunsOut.__name__}"
    part = (
        "conformance/gate/test_memory.py",
        "conformance/gate/test_write.py",
        "-k",
        "(every_row and not without_starts) or (every_token and 3)",
    )
    done = gate("-v", "--target", target, *part)
    assert done.returncode == 6 and "gate: not judged" in done.stdout, done.stdout
    assert "not judged: too little memory for " in done.stdout and ": needs 2.0 GiB more; " in done.stdout
    assert "not judged: too little memory: needs more (MemoryError); " in done.stdout, done.stdout  # no judge caught it
    assert "21 passed, 5 skipped" in done.stdout, done.stdout


GROUPS = {
    "proc/meminfo": "MemTotal:       9 kB\nMemAvailable:   4096 kB\n",
    "sys/fs/cgroup/memory.max": "3000000\n",
    "sys/fs/cgroup/memory.current": "2000000\n",
    "sys/fs/cgroup/memory.stat": "anon 5\ninactive_file 500000\n",
}


@pytest.mark.parametrize(
    ("changed", "free"),
    [
        ({}, 1_500_000),
        ({"sys/fs/cgroup/memory.max": "max\n"}, 4096 << 10),
        ({"sys/fs/cgroup/memory.max": "2200000\n"}, 700_000),
        ({"sys/fs/cgroup/memory.max": "1\n"}, 0),
        ({"proc/meminfo": ""}, 1_500_000),
        (
            {
                "sys/fs/cgroup/memory.max": "max",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9000\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "8000\n",
            },
            1000,
        ),
        (dict.fromkeys(GROUPS, ""), None),
    ],
)
def test_what_is_free_is_what_the_container_leaves(changed: dict[str, str], free: int | None, tmp_path: Path) -> None:
    for name, text in {**GROUPS, **changed}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert machine.free_bytes(tmp_path) == free
    assert machine.free_bytes(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({}, 64),
        ({"sys/fs/cgroup/cpu.max": "max 100000\n"}, 64),
        ({"sys/fs/cgroup/cpu.max": "250000 100000\n"}, 2),
        ({"sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        ({"sys/fs/cgroup/cpu.max": "9900000 100000\n"}, 64),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 64),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "400000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 4),
    ],
)
def test_a_container_has_the_cpus_of_its_quota(
    files: dict[str, str], cpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: range(64))
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert machine.cpus(tmp_path) == cpus
