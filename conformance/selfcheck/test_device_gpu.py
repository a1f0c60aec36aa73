"""Each clause of DEVICE, broken on purpose on a GPU. Without one these tests are skipped."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance import device, device_sizes, pending
from conformance.calls import MALFORMED
from conformance.faults import devices as meddling
from conformance.faults.mutants import TUNED, Mutant
from conformance.judge import Judge
from conformance.selfcheck.running import ROOT, gate
from conformance.targets.kernels import CudaTarget, why_no_device
from conformance.verdict import Crashed, Differs

pytestmark = pytest.mark.skipif(why_no_device() is not None, reason=f"no GPU: {why_no_device()}")

Run = Callable[[meddling.Gather, meddling.Call], None]


def judged(run: Run) -> Judge:
    return Judge(meddling.Meddling(run), ["DEVICE"])


def refused(judge: Judge) -> None:
    device.must_enqueue_nothing_if_refused(judge, MALFORMED[0])


MISBEHAVIOUR: list[tuple[str, Callable[[], Run], Callable[[Judge], None], str]] = [
    ("DEVICE-1", meddling.on_a_stream_of_its_own, device.must_run_on_the_callers_stream, "rows were written before"),
    ("DEVICE-1", lambda: meddling.on_the_default_stream, device.must_run_on_the_callers_stream, "written before"),
    ("DEVICE-2", lambda: meddling.on_the_default_stream, device.must_not_need_the_default_stream, "default stream"),
    ("DEVICE-3", lambda: meddling.after_a_look_at_the_starts, device.must_return_at_once, "returned only when"),
    ("DEVICE-3", lambda: meddling.waiting_for_the_rows, device.must_return_at_once, "returned only when"),
    ("DEVICE-4", lambda: meddling.after_a_look_at_the_starts, device.must_be_captured_and_replayed, "captur"),
    ("DEVICE-4", meddling.on_a_stream_of_its_own, device.must_be_captured_and_replayed, "while the call was captured"),
    ("DEVICE-4", meddling.with_starts_remembered, device.must_be_captured_and_replayed, "replay 1 of a captured call"),
    ("DEVICE-5", lambda: meddling.with_scratch_memory_from_the_pool, device.must_not_allocate, "allocations of"),
    (
        "DEVICE-5",
        lambda: meddling.with_scratch_memory_of_the_stream,
        device.must_not_allocate,
        "an allocation in its graph",
    ),
    ("DEVICE-5", lambda: meddling.with_memory_that_is_never_freed, device.must_not_allocate, "of free memory fewer"),
    ("DEVICE-6", meddling.wrong_once_in_twenty, device.must_repeat_itself, "of the same call"),
    (
        "DEVICE-7",
        meddling.through_one_scratch_buffer,
        device.must_not_disturb_a_call_on_another_stream,
        "while another stream had one",
    ),
    (
        "DEVICE-8",
        lambda: meddling.only_the_first_rows(65_535),
        device_sizes.must_serve_every_number_of_rows,
        "T = 65,536: 576 elements differ, the first in row 65,535",
    ),
    ("DEVICE-11", lambda: meddling.refusing_after_a_launch, refused, "refused, but 1 nodes enqueued"),
]


@pytest.mark.parametrize(
    ("make", "must", "says"),
    [row[1:] for row in MISBEHAVIOUR],
    ids=[f"{row[0]}-{row[3].replace(' ', '-')}" for row in MISBEHAVIOUR],
)
def test_misbehaviour_is_seen(make: Callable[[], Run], must: Callable[[Judge], None], says: str) -> None:
    with pytest.raises((Differs, Crashed)) as caught:
        must(judged(make()))
    assert says in str(caught.value)


def test_an_error_left_pending_by_a_call_without_rows_is_blamed_on_it() -> None:
    pytest.importorskip("torch", reason="torch brings a shared CUDA runtime, which can keep an error").cuda.init()
    assert pending.runtimes()
    with pytest.raises(Crashed, match="left a CUDA error pending: cudaErrorInvalidDevice"):
        device.must_leave_nothing_pending(judged(meddling.with_an_error_left_behind))


ROW = "reinterpret_cast<uint4*>(args.dst + (first + i) * args.dst_row_stride)"


@pytest.mark.parametrize(
    "narrow",
    [
        "reinterpret_cast<uint4*>(args.dst + static_cast<int>((first + i) * args.dst_row_stride))",
        "reinterpret_cast<uint4*>(reinterpret_cast<char*>(args.dst) +\n"
        "            static_cast<unsigned>((first + i) * args.dst_row_stride * 2))",
    ],
    ids=["elements", "bytes"],
)
def test_an_offset_in_dst_of_32_bits_is_seen_in_a_packed_workspace(narrow: str, tmp_path: Path) -> None:
    sources = Mutant("32-bit offset in dst", TUNED, ROW, narrow).write(tmp_path)
    part = ("conformance/gate/test_device.py", "-k", "beyond_32_bits")
    done = gate("--target", f"cuda:{sources}", *part, CUDA_VISIBLE_DEVICES="0")  # an illegal access ends the process
    assert done.returncode == 1 and "DEVICE-9" in done.stdout, done.stdout[-2000:]


def sanitized(*variables: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "sanitize", "VENV=", f"PYTHON={sys.executable}", *variables]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


without_sanitizer = pytest.mark.skipif(shutil.which("compute-sanitizer") is None, reason="no compute-sanitizer")


@without_sanitizer
def test_memcheck_sees_a_kernel_that_reads_one_entry_too_many(tmp_path: Path) -> None:
    find = "Position position = {request, args.num_rows, 0, 0};"
    reading = f"{find}\n    if (starts[args.num_requests] == 0x12345678) return position;"
    sources = Mutant("reads entry R", TUNED, find, reading).write(tmp_path)
    part = ("conformance/gate/test_read.py", "-k", "zeros_keep")
    alone = gate("--target", f"cuda:{sources}", *part, CUDA_VISIBLE_DEVICES="0")
    assert alone.returncode == 0, alone.stdout[-2000:]  # nothing else sees it
    done = sanitized("TOOLS=memcheck", f"TARGET=cuda:{sources}", f"PART={' '.join(part)}")
    assert done.returncode != 0 and "Invalid __global__ read" in done.stdout, done.stdout[-2000:]


@without_sanitizer
def test_initcheck_sees_a_target_that_reads_what_nobody_wrote() -> None:
    target = "TARGET=conformance.faults.devices:ReadingWhatNobodyWrote"
    done = sanitized("TOOLS=initcheck", target, "PART=conformance/gate/test_read.py -k zeros_keep")
    assert done.returncode != 0
    assert "gate: conforms" in done.stdout and "Uninitialized __global__ memory read" in done.stdout, done.stdout[
        -2000:
    ]


@pytest.mark.parametrize("must", dict.fromkeys(row[2] for row in MISBEHAVIOUR), ids=lambda must: must.__name__)
def test_the_projects_kernel_behaves(must: Callable[[Judge], Any]) -> None:
    must(Judge(CudaTarget(), ["DEVICE"]))
