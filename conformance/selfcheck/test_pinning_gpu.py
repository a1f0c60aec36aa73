"""Workers on real devices. Without one these tests are skipped; those on several need two."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance.memory import ArrayMemory, Memory, TorchMemory
from conformance.running import devices
from conformance.running.workers import GIB, Demand, Gpu, Supply, plan
from conformance.selfcheck.fake_gpus import note
from conformance.selfcheck.running import ROOT, gate
from conformance.shortage import Shortage
from conformance.targets.kernels import CudaTarget, why_no_device
from fixtures.placement import Placement

pytestmark = pytest.mark.skipif(why_no_device() is not None, reason=f"no GPU: {why_no_device()}")

MIB = 1 << 20
PART = ("conformance/gate/test_calls.py", "conformance/gate/test_memory.py", "-k", "not two_gib")


class Noting(CudaTarget):
    """Notes which devices are visible when it is made."""

    def __init__(self) -> None:
        super().__init__()
        note(visible=os.environ.get("CUDA_VISIBLE_DEVICES"))


class Dying(Noting):
    """Takes its process down on calls of 33 rows."""

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, src_cache: Any, dst: Any, *others: Any, **more: Any) -> None:
        if len(dst) == 33:
            os._exit(3)
        super().cp_gather_and_upconvert_nvfp4_kv_cache(src_cache, dst, *others, **more)


class RunsOut(CudaTarget):
    """Wants a terabyte of the device on calls of 33 rows."""

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, src_cache: Any, dst: Any, *others: Any, **more: Any) -> None:
        if len(dst) == 33:
            self.want()
        super().cp_gather_and_upconvert_nvfp4_kv_cache(src_cache, dst, *others, **more)

    def want(self) -> None:
        import cupy

        cupy.empty(1 << 40, np.uint8)


class RunsOutInTorch(RunsOut):
    def want(self) -> None:
        import torch

        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")


class RunsOutByDegrees(RunsOut):
    """Fills what there is with what fits, before the last allocation fails."""

    def want(self) -> None:
        import cupy

        kept = []
        while True:
            kept.append(cupy.empty(256 * MIB, np.uint8))


@cache
def found() -> tuple[Gpu, ...]:
    return devices.found()[0]


def present() -> str:
    """CUDA_VISIBLE_DEVICES of this process, spelled out, which `gate` would empty."""
    return os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(str(gpu.index) for gpu in found())


def named(target: type) -> tuple[str, str]:
    return "--target", f"{target.__module__}:{target.__name__}"


def visible(path: Path) -> dict[str, str]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {line["worker"]: line["visible"] for line in lines if line["worker"] != "main"}


def test_the_devices_are_found_with_their_memory() -> None:
    seen, why = devices.found()
    assert seen and not why
    for index, gpu in enumerate(seen):
        assert gpu.index == index and gpu.sm.startswith("sm_") and gpu.name and gpu.uuid
        assert 0 < gpu.free <= gpu.total and gpu.total > GIB
    assert len({gpu.uuid for gpu in seen}) == len(seen)


def test_asking_for_them_leaves_this_process_without_cuda() -> None:
    program = (
        "from conformance.running import devices, pinning\n"
        "found, why = devices.found()\n"
        "assert found, why\n"
        "assert not pinning.cuda_is_initialised()\n"
        "import cupy\n"
        "cupy.cuda.runtime.getDeviceCount()\n"
        "assert pinning.cuda_is_initialised()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_auto_starts_what_there_is_room_for_and_every_device_judges(tmp_path: Path) -> None:
    there = {"NOTES": str(tmp_path / "notes"), "CUDA_VISIBLE_DEVICES": present()}
    listed = there["CUDA_VISIBLE_DEVICES"].split(",")
    expected = plan(
        Supply(os.cpu_count() or 1, gpus=found()), Demand(Noting.device_bytes, Noting.usual_device_bytes)
    ).workers
    done = gate("-n", "auto", "--report-dir", str(tmp_path), *named(Noting), *PART, **there)
    assert done.returncode == 0, done.stdout
    seen = visible(tmp_path / "notes")
    assert 1 <= len(seen) <= expected
    assert all(entry == listed[int(worker[2:]) % len(listed)] for worker, entry in seen.items()), seen
    (target,) = json.loads((tmp_path / "gate.json").read_text())["targets"]
    assert target["verdict"] == "conforms" and sum(worker["launches"] for worker in target["workers"]) > 0
    used = {worker["device"] for worker in target["workers"]}
    assert len(used) == min(len(listed), len(seen)), used


@pytest.mark.parametrize("kind", [RunsOut, RunsOutByDegrees, RunsOutInTorch], ids=lambda kind: kind.__name__)
def test_a_case_that_runs_out_of_memory_is_not_judged_and_the_rest_is(kind: type[RunsOut]) -> None:
    if kind is RunsOutInTorch:
        torch = pytest.importorskip("torch")
        if not torch.cuda.is_available():
            pytest.skip("torch sees no CUDA device")
    part = ("conformance/gate/test_memory.py", "-k", "every_row and not without_starts")
    done = gate("-v", "-n", "2", *named(kind), *part, CUDA_VISIBLE_DEVICES=present())
    assert done.returncode == 6, done.stdout
    assert "9 passed, 1 skipped" in done.stdout and "gate: not judged" in done.stdout, done.stdout
    assert "too little memory for GatherCase(" in done.stdout, done.stdout
    wanted = {RunsOut: "1.0 TiB", RunsOutByDegrees: "256.0 MiB", RunsOutInTorch: "1.0 TiB"}[kind]
    assert f"needs {wanted} more; this worker may use " in done.stdout, done.stdout


@pytest.fixture(params=["cupy", "torch"])
def memory(request: pytest.FixtureRequest) -> Iterator[Memory]:
    if request.param == "cupy":
        import cupy

        yield ArrayMemory("cupy", cupy)
        cupy.get_default_memory_pool().set_limit(size=0)
        return
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    yield TorchMemory("cuda")
    torch.cuda.set_per_process_memory_fraction(1.0)


def test_a_limit_holds_and_says_so(memory: Memory) -> None:
    memory.limit(256 * MIB)
    small = Placement(np.ones((1, 1 << 20), np.uint8), (1 << 20, 1), before=8, after=8, poison=7)
    large = Placement(np.ones((1, 512), np.uint8), (512, 1), before=1 << 30, after=0, poison=7)
    region = memory.place(small)
    with pytest.raises(
        Shortage, match=r"^needs 1\.0 GiB more; this worker may use 256\.0 MiB of .+, of which [\d.]+ "
    ) as no:
        memory.place(large)
    assert "are in use; " in str(no.value) and str(no.value).endswith(" are free")
    again = memory.place(small)  # what had room before has room still
    assert (memory.read(region) == 1).all() and (memory.read(again) == 1).all()


def test_on_several_devices_workers_are_dealt_in_turn_and_replaced_in_place(tmp_path: Path) -> None:
    if len(found()) < 2:
        pytest.skip("one GPU; needs two")
    first, second, *_ = present().split(",")
    there = {"NOTES": str(tmp_path / "notes"), "CUDA_VISIBLE_DEVICES": f"{first},{second}"}
    done = gate(
        "-v",
        "-n",
        "3",
        *named(Dying),
        "conformance/gate/test_memory.py",
        "-k",
        "every_row and not without_starts",
        **there,
    )
    assert done.returncode == 1 and "gate: crashed" in done.stdout, done.stdout
    seen = visible(tmp_path / "notes")
    assert [seen[f"gw{number}"] for number in range(3)] == [first, second, first]
    dead = done.stdout.partition("replacing crashed worker ")[2].split()[0]
    assert seen["gw3"] == seen[dead], seen
