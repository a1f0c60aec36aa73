"""Targets that die, exit, hang or ruin their CUDA context: blamed once, told in words, and the rest is judged."""

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.selfcheck.running import gate, run
from fixtures.store import load

PART, DYING = "conformance/gate/test_geometry.py", "conformance.selfcheck.dying"


def judged(folder: Path, *args: str, **environment: str) -> tuple[Any, Any]:
    """A run of the gate in processes of its own, and its report."""
    dumps = ("--dump-dir", str(folder / "dumps"), "--report-dir", str(folder))
    done = gate(*args, *dumps, **environment)
    (target,) = json.loads((folder / "gate.json").read_text())["targets"]
    return done, target


def verdicts(target: Any) -> dict[str, list[str]]:
    """By verdict, the tests that do not conform."""
    found: dict[str, list[str]] = {}
    for failure in target["failures"]:
        found.setdefault(failure["verdict"], []).append(failure["test"].rpartition("-")[2].rstrip("]"))
    return found


def test_a_signal_an_exit_and_a_hang_cost_a_test_each(tmp_path: Path) -> None:
    name = f"{DYING}:DiesInEachWay"
    chosen = (
        PART,
        "-k",
        "(broke_real or two_parts) and not without_starts",
        "-n",
        "2",
        "--case-timeout",
        "3",
        "--target",
        name,
    )
    done, target = judged(tmp_path, *chosen)
    ends = {
        "starts_end_at_the_last_column": "its process was ended by SIGSEGV\n    in end, conformance/selfcheck/dying",
        "rest_of_the_last_page_is_nan": "its process exited with status 3 in the middle of it",
        "cache_packed_with_others": "no answer within 3 s (--case-timeout)\n    in hang_in_c, conformance/selfcheck/",
    }
    assert done.returncode == 1 and {test: 1 for test in verdicts(target)["crashed"]} == dict.fromkeys(ends, 1)
    assert list(verdicts(target)) == ["crashed"] and target["tests"] == 25
    for failure in target["failures"]:
        test = failure["test"].rpartition("-")[2].rstrip("]")
        assert ends[test] in failure["message"] and ends[test] in done.stdout
        assert failure["clause"].split()[:2] == ["GATHER-1", "GATHER-2"]
        about = load(Path(failure["fixture"])).about
        assert (about["target"], about["test"], about["alone"]) == (name, failure["test"], True)
        assert f"python -m conformance replay {failure['fixture']} --target {name}" in done.stdout
    assert len(list((tmp_path / "dumps").iterdir())) == 3
    assert done.stdout.count("node down: ") == 3


def test_a_lost_cuda_context_costs_one_test(tmp_path: Path) -> None:
    chosen = (
        PART,
        "-k",
        "(broke_real or two_parts) and not without_starts",
        "-n",
        "2",
        "--target",
        "conformance.selfcheck.losing:LosingOnce",
    )
    done, target = judged(tmp_path, *chosen)
    assert done.returncode == 1 and verdicts(target) == {"crashed": ["rest_of_the_last_page_is_nan"]}, done.stdout
    assert "an illegal memory access was encountered" in target["failures"][0]["message"]
    assert len(list((tmp_path / "dumps").iterdir())) == 1
    assert done.stdout.count("node down: ") == 1 and "crashed while running" not in done.stdout
    assert target["tests"] == 25
    assert {worker["worker"] for worker in target["workers"]} == {"gw0", "gw1", "gw2"}  # the one that went, too


def test_in_one_process_a_hang_ends_the_run_and_leaves_its_trace_and_its_case(tmp_path: Path) -> None:
    chosen = (PART, "-k", "packed_with_others", "-n", "0", "--case-timeout", "1", "--target", f"{DYING}:DiesInEachWay")
    dumps = ("--dump-dir", str(tmp_path / "dumps"), "--report-dir", str(tmp_path))
    done = gate(*chosen, *dumps)
    assert done.returncode == 1 and "Timeout (0:00:01)!" in done.stderr and "in hang_in_c" in done.stderr
    assert json.loads((tmp_path / "gate.json").read_text())["verdict"] == "not judged"
    assert [path.name for path in (tmp_path / "dumps").iterdir()] == ["pending-main.safetensors"]


def test_a_target_that_may_die_does_so_in_a_process_of_its_own_and_x_stops_there(tmp_path: Path) -> None:
    chosen = (PART, "-k", "broke_real", "-x", "-v", "--case-timeout", "5", "--target", f"{DYING}:DiesInEachWay")
    dumps = ("--dump-dir", str(tmp_path / "dumps"), "--report-dir", str(tmp_path))
    done = run("pytest", "-p", "no:cacheprovider", *chosen, *dumps)
    (target,) = json.loads((tmp_path / "gate.json").read_text())["targets"]
    assert "gate: in a process of its own, as if by -n 1" in done.stdout and "created: 1/1 worker" in done.stdout
    assert done.returncode == 1 and "stopping after 1 failures" in done.stdout, done.stdout
    assert len(verdicts(target)["crashed"]) == 1 and target["tests"] < 14


@pytest.mark.parametrize("name", ["conformance.selfcheck.unimportable:Target", f"{DYING}:ExitsAfterwards"])
def test_workers_that_die_without_a_test_are_not_replaced_for_ever(name: str, tmp_path: Path) -> None:
    chosen = ("conformance/gate/test_calls.py", "-k", "no_rows", "-n", "1", "--target", name)
    done = gate(*chosen, "--report-dir", str(tmp_path))
    assert done.returncode == 6, done.stdout
    says = "3 workers in a row died without a test between them; of the last one: its process exited with status 3"
    assert says in done.stdout and done.stdout.count("node down: ") == 3
    assert json.loads((tmp_path / "gate.json").read_text())["verdict"] == "not judged"


def test_an_interrupted_run_is_not_judged_and_says_so(tmp_path: Path) -> None:
    done = gate(PART, "-k", "broke_real", "-n", "2", "--target", f"{DYING}:Interrupts", "--report-dir", str(tmp_path))
    said = done.stdout
    report = json.loads((tmp_path / "gate.json").read_text())
    assert done.returncode == 2 and "KeyboardInterrupt" in said, said
    assert report["verdict"] == "not judged" and not report["complete"] and report["exit_status"] == 2
    assert any("exit status 2" in reason for reason in report["reasons"]), report["reasons"]
