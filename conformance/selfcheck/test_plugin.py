"""The gate as a user runs it: what it says, what it writes, and its exit codes."""

import json
import os
import re
from pathlib import Path

import pytest

from conformance.calls import MISALIGNED
from conformance.running.collector import judged_by
from conformance.selfcheck.running import gate, run

PART = "conformance/gate/test_calls.py"

TARGETS = """
import os

from conformance.targets.models import NumpyTarget


class Wrong(NumpyTarget):
    def cp_gather_and_upconvert_nvfp4_kv_cache(self, src_cache, dst, *args, **named):
        super().cp_gather_and_upconvert_nvfp4_kv_cache(src_cache, dst, *args, **named)
        dst[:1, 3] ^= 1


class Crashes(NumpyTarget):
    def cp_gather_and_upconvert_nvfp4_kv_cache(self, *args, **named):
        raise RuntimeError("an illegal memory access was encountered")


class Alone(NumpyTarget):
    most_workers = 1


class Dies(NumpyTarget):
    def cp_gather_and_upconvert_nvfp4_kv_cache(self, src_cache, dst, *args, **named):
        os._exit(3)


class Flickers(NumpyTarget):
    calls = 0

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, src_cache, dst, *args, **named):
        super().cp_gather_and_upconvert_nvfp4_kv_cache(src_cache, dst, *args, **named)
        Flickers.calls += 1
        if Flickers.calls % 17 == 0:
            dst[:1, 3] ^= 1
"""


@pytest.fixture
def others(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "other_targets.py").write_text(TARGETS)
    return {"PYTHONPATH": str(tmp_path)}


def test_a_target_that_conforms_is_green_and_reported(tmp_path: Path) -> None:
    done = gate("--target", "numpy", "--report-dir", str(tmp_path / "reports"), "--seed", "7", PART)
    assert done.returncode == 0, done.stdout
    assert "gate: conforms" in done.stdout
    again = "--target numpy --profile quick --seed 7 --partial-ok"
    assert f"repeat: python -m pytest {PART} {again}" in done.stdout
    report = json.loads((tmp_path / "reports/gate.json").read_text())
    assert (report["schema"], report["verdict"], report["seed"], report["profile"]) == (1, "conforms", 7, "quick")
    (target,) = report["targets"]
    assert target["name"] == "numpy" and target["failures"] == []
    clauses = {clause["id"]: clause for clause in target["clauses"]}
    assert list(clauses) == ["GATHER-8", "GATHER-10", "GATHER-11", "GATHER-12", "GATHER-14"]
    assert clauses["GATHER-12"]["cases"] == len(MISALIGNED) and clauses["GATHER-12"]["rows"] > 0
    assert f"| GATHER-12 | conforms | {len(MISALIGNED)} |" in (tmp_path / "reports/gate.md").read_text()


def test_the_header_says_which_target_runs_where() -> None:
    done = run("pytest", "-p", "no:cacheprovider", "conformance/gate", "--target", "numpy", "--collect-only")
    assert "target numpy: the golden model, NumPy" in done.stdout
    assert "gate: profile quick, seed 0" in done.stdout


def test_without_a_gpu_the_default_target_is_the_host() -> None:
    assert "target host: the CUDA sources on the CPU" in run("pytest", "conformance/gate", "--collect-only").stdout


def test_a_target_that_cannot_run_here_is_not_judged_and_not_green() -> None:
    done = gate("--target", "cuda", PART)
    assert done.returncode == 6, done.stdout
    assert "gate: not judged" in done.stdout and "target cuda: not judged: " in done.stdout


def test_a_wrong_bit_is_red_and_described(others: dict[str, str], tmp_path: Path) -> None:
    where = "conformance/gate/test_geometry.py"
    done = gate(
        "--target",
        "other_targets:Wrong",
        "--report-dir",
        str(tmp_path),
        where,
        "-k",
        "boundaries and not without",
        **others,
    )
    assert done.returncode == 1, done.stdout
    assert "differs  target numpy" in done.stdout
    assert "element 3 = latent block 0, byte 1 high nibble" in done.stdout
    assert "no known fault explains it" in done.stdout
    (failure,) = json.loads((tmp_path / "gate.json").read_text())["targets"][0]["failures"]
    assert failure["verdict"] == "differs" and "element 3" in failure["message"] and failure["explained_by"] == []


def test_a_wrong_bit_in_a_random_case_shrinks_to_one_row(others: dict[str, str]) -> None:
    part = ("conformance/gate/test_random.py", "-k", "with_starts and -1")
    done = gate("--target", "other_targets:Wrong", *part, **others)
    assert done.returncode == 1, done.stdout
    assert "rows=1, lengths=[1], seq_starts=[0], table=(1, 1), cache=(1, 1, 352), contiguous" in done.stdout


def test_a_target_that_raises_has_crashed_and_is_red(others: dict[str, str]) -> None:
    done = gate("--target", "other_targets:Crashes", "-k", "boundaries", **others)
    assert done.returncode == 1, done.stdout
    assert "gate: crashed" in done.stdout and "an illegal memory access was encountered" in done.stdout
    assert re.search(r"in cp_gather_and_upconvert_nvfp4_kv_cache, .*other_targets.py:\d+", done.stdout)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nonsense", "--target is 'nonsense'; allowed are auto, numpy, torch, host, cuda"),
        ("no.such.module:Class", "No module named 'no'"),
        ("json:JSONDecoder", "no conformance.targets.base.Target"),
        ("json:NoSuchClass", "NoSuchClass"),
        ("conformance.selfcheck.no_module:X", "SystemExit: this module cannot be used"),
        ("conformance.selfcheck.leaving:X", "SystemExit: it would end this process with status 0"),
        ("host:/no/such/folder", "/no/such/folder is no folder of kernel sources"),
        ("numpy:parameter", "takes 1 positional argument"),
    ],
)
def test_a_name_that_is_no_target_is_a_usage_error(name: str, says: str) -> None:
    done = gate("--target", name)
    assert done.returncode == 4
    assert says in done.stderr and "Traceback" not in done.stderr + done.stdout


@pytest.mark.parametrize("name", ["host:", "numpy:"])
def test_a_colon_without_a_parameter_is_no_target(name: str) -> None:
    assert gate("--target", name).returncode == 4


def test_a_target_that_kills_its_worker_is_red_in_every_report(others: dict[str, str], tmp_path: Path) -> None:
    part = "conformance/gate/test_read.py"
    done = gate(
        "--target", "other_targets:Dies", "-n", "2", "-k", "zeros", "--report-dir", str(tmp_path), part, **others
    )
    assert done.returncode == 1, done.stdout
    assert "gate: crashed" in done.stdout
    assert json.loads((tmp_path / "gate.json").read_text())["verdict"] == "crashed"


def test_a_target_that_fails_at_times_differs(others: dict[str, str]) -> None:
    part = ("conformance/gate/test_random.py", "-k", "with_starts and -1")
    done = gate("--target", "other_targets:Flickers", *part, **others)
    assert done.returncode == 1 and "gate: differs" in done.stdout, done.stdout


def test_a_report_of_an_earlier_run_does_not_outlive_a_run_that_judged_nothing(tmp_path: Path) -> None:
    gate("--target", "numpy", "--report-dir", str(tmp_path), PART)
    assert json.loads((tmp_path / "gate.json").read_text())["verdict"] == "conforms"
    gate("--target", "numpy", "--report-dir", str(tmp_path), "--require", "sm_100", PART)
    assert json.loads((tmp_path / "gate.json").read_text())["verdict"] == "not judged"


def test_a_report_folder_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = gate("--target", "numpy", "--report-dir", str(tmp_path / "file"), PART)
    assert done.returncode == 4 and "where no report can be written" in done.stderr


def test_a_part_of_the_gate_says_that_it_is_one() -> None:
    said = gate("--target", "numpy", PART).stdout
    assert "gate: conforms (a part of the gate)" in said and "files were not collected: test_attend.py" in said


@pytest.mark.parametrize("compiler", ["no-such-compiler", 'g++ "'])
def test_a_compiler_that_cannot_be_run_is_not_judged_in_one_line(compiler: str) -> None:
    done = gate("--target", "host", PART, CXX=compiler)
    assert done.returncode == 6 and "Traceback" not in done.stdout + done.stderr
    assert "target host: not judged: C" in done.stdout or "target host: not judged: cannot run" in done.stdout


@pytest.mark.parametrize(("wanted", "code"), [("gather.nvfp4", 0), ("no.such.thing", 6)])
def test_require_turns_absence_red(wanted: str, code: int) -> None:
    done = gate("--target", "numpy", "--require", wanted, PART)
    assert done.returncode == code, done.stdout
    said = f"--require {wanted}: not there. Available: attend, gather.fp8, gather.fp8.seq_starts, gather.generic"
    assert code == 0 or said in done.stdout + done.stderr


def test_any_number_of_workers_judges_the_same_cases_and_says_the_same_of_them(tmp_path: Path) -> None:
    found = []
    for workers in ("0", "1", "4"):
        asked = ("conformance/gate/test_random.py", "-k", "-0", "-n", workers, "--seed", "5")
        done = gate(*asked, "--target", "numpy", "--target", "fault:starts-ignored", "--report-dir", str(tmp_path))
        assert done.returncode == 1, done.stdout
        targets = json.loads((tmp_path / "gate.json").read_text())["targets"]
        failures = [sorted(target["failures"], key=lambda failure: failure["test"]) for target in targets]
        found.append([[target["name"], target["verdict"], target["clauses"]] for target in targets] + failures)
    assert found[0] == found[1] == found[2] and len(found[0][3]) == 1


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="-n auto starts one worker here in any case")
def test_auto_starts_no_more_workers_than_a_target_bears(others: dict[str, str]) -> None:
    done = run("pytest", "-n", "auto", "-p", "no:cacheprovider", PART, "--target", "other_targets:Alone", **others)
    assert "created: 1/1 worker" in done.stdout


def test_another_seed_is_another_set_of_random_cases(tmp_path: Path) -> None:
    rows = []
    for seed in ("0", "0", "1"):
        part = ("conformance/gate/test_random.py", "-k", "with_starts and -1")
        gate("--target", "numpy", "--seed", seed, "--report-dir", str(tmp_path), *part)
        rows.append(json.loads((tmp_path / "gate.json").read_text())["targets"][0]["clauses"][0]["rows"])
    assert rows[0] == rows[1] != rows[2]


def test_receipts_of_workers_add_up(tmp_path: Path) -> None:
    done = gate("--target", "host", "-n", "2", "--report-dir", str(tmp_path), PART)
    assert done.returncode == 0, done.stdout
    receipt = json.loads((tmp_path / "gate.json").read_text())["targets"][0]["receipt"]
    assert receipt["kernel"] == "nvfp4_gather_tuned"
    assert receipt["launches"] == receipt["devices"]["cpu"]["launches"] >= 10
    assert len(receipt["devices"]["cpu"]["sources_sha256"]) == 64


@pytest.mark.parametrize("mark", ["", '@pytest.mark.clause("GATHER-none")\n'])
def test_a_judging_test_without_a_clause_of_the_specification_is_a_usage_error(mark: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(f"import pytest\n\n\n{mark}def test_it(judge):\n    pass\n")
    done = run(
        "pytest",
        "-p",
        "conformance.running",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    )
    assert done.returncode == 4
    assert "SPEC.md has SCALAR-1" in done.stderr


def test_a_test_that_compares_nothing_has_judged_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n\n\n@pytest.mark.clause('READ-1')\ndef test_it(judge):\n    judge.need('gather.nvfp4')\n"
    )
    where = ("--rootdir", str(tmp_path), str(tmp_path), "--dump-dir", "")
    done = run("pytest", "-p", "conformance.running", "-p", "no:cacheprovider", "--target", "numpy", *where)
    assert done.returncode == 6 and "not judged: the test compared no case: 1 tests" in done.stdout, done.stdout


@pytest.mark.parametrize(("profile", "spared"), [("quick", True), ("ci", False)])
def test_profile_quick_spares_a_slow_target_what_is_marked_long(profile: str, spared: bool) -> None:
    asked = ("conformance/gate/test_memory.py", "--collect-only", "--profile", profile)
    found = gate(*asked, "--target", "numpy", "--target", "host").stdout
    assert "[host-records_above_two_gib]" in found and ("[numpy-records_above_two_gib]" not in found) == spared


@pytest.mark.parametrize(
    ("test", "name"),
    [
        ("a.py::test_a[host-1]", "host"),
        ("a.py::test_a[host-plain-1]", "host-plain"),
        ("a.py::test_a[host-plain]", "host-plain"),
        ("a.py::test_a[x-host-1]", None),
        ("a.py::test_a", None),
    ],
)
def test_the_target_of_a_test_is_the_longest_name_that_its_parameters_begin_with(test: str, name: str | None) -> None:
    assert judged_by(test, ("host", "host-plain", "cuda")) == name


def test_tests_that_judge_no_target_are_not_the_gates_business() -> None:
    done = gate("conformance/selfcheck/test_records.py", "-k", "layout", "--target", "numpy")
    assert "gate:" not in done.stdout
