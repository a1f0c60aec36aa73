"""What kernels do to a GPU: blamed on one test, told in words, and the rest is judged. Skipped without a GPU."""

import json
import os
from pathlib import Path
from typing import NamedTuple

import pytest

from conformance.selfcheck.running import gate
from conformance.targets.kernels import why_no_device
from fixtures.store import load

pytestmark = pytest.mark.skipif(why_no_device() is not None, reason=f"no GPU: {why_no_device()}")

PART = ("conformance/gate/test_geometry.py", "-k", "(broke_real or two_parts) and not without_starts")
TESTS, FAILING = 25, "rest_of_the_last_page_is_nan"
PATIENCE = "60"  # seconds: the first call compiles, too


class Contained(NamedTuple):
    """What a run says of a target: its verdict, in which words, how many workers it costs and how many fixtures."""

    verdict: str
    says: str
    workers: int
    fixtures: int


CASES = {
    "IllegalAccess": Contained("crashed", "illegal memory access", workers=1, fixtures=1),
    "Traps": Contained("crashed", "unspecified launch failure", workers=1, fixtures=1),
    "TooManyThreads": Contained("crashed", "CUDA_ERROR_INVALID_VALUE", workers=0, fixtures=1),
    "NeverEnds": Contained("crashed", f"no answer within {PATIENCE} s (--case-timeout)", workers=1, fixtures=1),
    "OutOfMemory": Contained("not judged", "needs 1.0 TiB more", workers=0, fixtures=0),
}


@pytest.mark.parametrize(("name", "contained"), CASES.items(), ids=CASES)
def test_a_failure_on_the_device_costs_one_test(name: str, contained: Contained, tmp_path: Path) -> None:
    target = f"conformance.selfcheck.faulty_device:{name}"
    files = ("--dump-dir", str(tmp_path / "dumps"), "--report-dir", str(tmp_path))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    done = gate(*PART, "-n", "2", "--case-timeout", PATIENCE, "--target", target, *files, CUDA_VISIBLE_DEVICES=visible)
    (told,) = json.loads((tmp_path / "gate.json").read_text())["targets"]
    assert len(told["failures"]) == 1, done.stdout  # every other test conforms
    (failure,) = told["failures"]
    assert told["tests"] == TESTS and failure["test"].endswith(f"-{FAILING}]"), done.stdout
    assert failure["verdict"] == contained.verdict and contained.says in failure["message"], failure
    assert failure["clause"].startswith("GATHER-1 ")
    assert done.returncode == (1 if contained.verdict == "crashed" else 6), done.stdout
    assert done.stdout.count("node down: ") == contained.workers, done.stdout
    left = [path for path in tmp_path.glob("dumps/*") if not path.stem.endswith("-small")]
    assert [load(path).about["test"] for path in left] == [failure["test"]] * contained.fixtures
