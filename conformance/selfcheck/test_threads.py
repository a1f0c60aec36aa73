"""How many threads a process of a run starts, and which of its tests come first."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from conformance.machine import THREADS, cpus
from conformance.selfcheck.running import gate

TARGET = """
import ctypes
import os
import re

from conformance.targets.models import NumpyTarget


class Counting(NumpyTarget):
    def receipt(self):
        maps = open("/proc/self/maps").read()
        (blas,) = set(re.findall(r"/\\S*libscipy_openblas64_\\S*", maps))
        openblas = ctypes.CDLL(blas).scipy_openblas_get_num_threads64_()
        return {"openblas": openblas, "openmp": os.environ["OMP_NUM_THREADS"]}
"""


@pytest.mark.parametrize(
    ("workers", "told", "threads"),
    [(0, "", cpus()), (2, "", max(1, cpus() // 2)), (1, "3", 3)],
)
def test_a_process_starts_its_share_of_the_threads(workers: int, told: str, threads: int, tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text(TARGET)
    part = ("conformance/gate/test_calls.py", "-k", "no_rows", "-n", f"{workers}", "--report-dir", f"{tmp_path}")
    given = {name: told for name in THREADS}
    done = gate("--target", "counting:Counting", *part, PYTHONPATH=str(tmp_path), **given)
    assert done.returncode == 0, done.stdout
    (target,) = json.loads((tmp_path / "gate.json").read_text())["targets"]
    assert target["receipt"] == {"openmp": f"{threads}", "openblas": min(threads, cpus())}


def test_with_workers_the_longest_tests_come_first(tmp_path: Path) -> None:
    part = ("conformance/gate/test_twin.py", "-k", "one_row_of_the_table or many_requests-fp8_ds_mla")
    done = gate("--target", "host", "-n", "1", *part, "--junitxml", f"{tmp_path}/all.xml")
    assert done.returncode == 0, done.stdout
    tests = ElementTree.parse(tmp_path / "all.xml").iter("testcase")
    order = [str(test.get("name")).partition("[")[0] for test in tests]
    assert (
        order[0] == "test_magnitudes_that_outgrow_a_type_or_a_tile" and len(order) == 6
    )  # which stands behind the others
