"""Needs a GPU: what is seen to run on the device, and targets that say otherwise."""

import json
import os
from pathlib import Path

import pytest

from conformance.selfcheck.running import gate
from conformance.targets.kernels import why_no_device

pytestmark = pytest.mark.skipif(why_no_device() is not None, reason="no CUDA device is visible")

LYING = "conformance.selfcheck.lying_device:"
PART = "conformance/gate/test_calls.py"
HERE = {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0")}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("OnTheCPU", "cp_gather_and_upconvert_nvfp4_kv_cache nvfp4_ds_mla ran no kernel on the device"),
        ("AnotherKernel", "the receipt says nvfp4_gather_tuned, which no call ran"),
        ("AnotherInTheEnd", "ran nvfp4_gather_tuned at first, and nvfp4_gather_plain in the end"),
    ],
)
def test_a_target_of_which_something_else_runs_is_not_green(name: str, says: str, tmp_path: Path) -> None:
    part = ("conformance/gate/test_random.py", "-k", "with_starts")
    done = gate("--target", LYING + name, *part, "--report-dir", str(tmp_path), **HERE)
    report = json.loads((tmp_path / "gate.json").read_text())
    assert done.returncode == 6, done.stdout
    assert any(says in reason for reason in report["reasons"]), report["reasons"]


def test_the_kernels_that_ran_are_in_the_report_with_their_registers(tmp_path: Path) -> None:
    done = gate("--target", "cuda", PART, "--require", "cuda", "--report-dir", str(tmp_path), **HERE)
    assert done.returncode == 0, done.stdout
    (worker,) = json.loads((tmp_path / "gate.json").read_text())["targets"][0]["workers"]
    seen = {kernel["call"]: kernel for kernel in worker["kernels"]}
    assert len(seen) == 13 and worker["unseen"] == ""
    gathered = seen["cp_gather_and_upconvert_nvfp4_kv_cache nvfp4_ds_mla seq_starts"]
    assert gathered["kernel"] == "nvfp4_gather_tuned" and 16 <= gathered["registers"] <= 255
    assert worker["launches"] >= worker["calls"] > 0 and worker["driver"] and ", sm_" in worker["device"]
