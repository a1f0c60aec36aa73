"""Targets that die, exit, hang or ruin their CUDA context: blamed once, told in words, and the rest is judged."""

import faulthandler
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from xdist.dsession import get_default_max_worker_restart

from conformance.patience import Patience
from conformance.running import containing
from conformance.running.endings import how_it_ended, innermost
from conformance.running.scheduling import ContainingScheduling
from conformance.running.session import TARGETS
from conformance.selfcheck.running import ROOT, gate
from fixtures.store import load

PART, DYING = "conformance/gate/test_geometry.py", "conformance.selfcheck.dying"


class Worker:
    """What a scheduler sees of one."""

    def __init__(self) -> None:
        self.gateway = SimpleNamespace(id="gw0")
        self.tests: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.tests += indices

    def shutdown(self) -> None:
        self.shutting_down = True


class Config:
    def getvalue(self, name: str) -> Any:
        return ["popen", "popen"]

    def getoption(self, name: str) -> Any:
        return None


def log(*_: Any) -> None:
    pass


TESTS = [f"test_{number}" for number in range(12)]


def scheduled() -> tuple[ContainingScheduling, Worker, Worker]:
    log.loadsched = log  # type: ignore[attr-defined]
    scheduling, one, other = ContainingScheduling(Config(), log), Worker(), Worker()
    for worker in (one, other):
        scheduling.add_node(worker)
        scheduling.add_node_collection(worker, TESTS)
    scheduling.schedule()
    return scheduling, one, other


def finish(scheduling: ContainingScheduling, worker: Worker) -> list[str]:
    """Let a worker run until it has nothing left: which tests those were."""
    done = []
    while pending := scheduling.node2pending[worker]:
        done.append(TESTS[pending[0]])
        scheduling.mark_test_complete(worker, pending[0])
    return done


def test_a_worker_that_says_it_will_go_is_blamed_for_nothing_and_its_tests_run_elsewhere() -> None:
    scheduling, one, other = scheduled()
    scheduling.mark_test_complete(one, one.tests[0])
    one.retires = TESTS[one.tests[0]]  # type: ignore[attr-defined]
    assert scheduling.remove_node(one) is None
    assert sorted(finish(scheduling, other)) == sorted(set(TESTS) - {TESTS[0]})
    assert scheduling.tests_finished


def test_a_worker_that_dies_while_it_says_so_has_not_its_last_test_run_again() -> None:
    scheduling, one, other = scheduled()
    one.retires = TESTS[one.tests[0]]  # type: ignore[attr-defined]
    assert scheduling.remove_node(one) is None
    assert sorted(finish(scheduling, other)) == sorted(set(TESTS) - {TESTS[0]})


def test_a_worker_that_dies_unasked_is_blamed_for_the_test_it_was_at() -> None:
    scheduling, one, other = scheduled()
    assert scheduling.remove_node(one) == TESTS[one.tests[0]]
    assert sorted(finish(scheduling, other)) == sorted(set(TESTS) - {TESTS[0]})


def test_what_the_last_worker_leaves_waits_for_the_one_that_replaces_it() -> None:
    scheduling, one, other = scheduled()
    left = {TESTS[test] for test in range(12)} - set(finish(scheduling, other))
    one.retires = TESTS[one.tests[0]]  # type: ignore[attr-defined]
    scheduling.mark_test_complete(one, one.tests[0])
    scheduling.remove_node(one)
    assert other.shutting_down and not scheduling.tests_finished
    replacing = Worker()
    scheduling.add_node(replacing)
    scheduling.add_node_collection(replacing, TESTS)
    scheduling.schedule()
    assert set(finish(scheduling, replacing)) == left - {TESTS[0]} != set()


def asked(**more: Any) -> SimpleNamespace:
    """A configuration that runs a target that may die, unless it is asked for something else."""
    told: dict[str, Any] = dict.fromkeys(("numprocesses", "maxworkerrestart"))
    told |= dict.fromkeys(("usepdb", "trace", "collectonly", "exact_memory"), False)
    told |= {"dist": "no", "tx": [], "target": SimpleNamespace(crash_prone=True, unavailable=lambda: None), **more}
    config = SimpleNamespace(option=SimpleNamespace(**told), stash=pytest.Stash())
    config.getoption = lambda name: getattr(config.option, name.lstrip("-").replace("-", "_"))
    config.stash[TARGETS] = {"it": told["target"]}
    containing.pytest_cmdline_main(config)  # type: ignore[arg-type]
    return config


def test_a_target_that_may_die_is_put_into_a_worker() -> None:
    config = asked()
    assert (config.option.numprocesses, config.option.dist, config.option.tx) == (1, "load", ["popen"])


@pytest.mark.parametrize(
    "more",
    [
        {"numprocesses": 0},
        {"numprocesses": 3},
        {"dist": "each", "tx": ["popen"]},
        {"usepdb": True},
        {"trace": True},
        {"collectonly": True},
        {"exact_memory": True},
        {"target": SimpleNamespace(crash_prone=False, is_gpu_code=False, unavailable=lambda: None)},
        {"target": SimpleNamespace(crash_prone=True, unavailable=lambda: "there is no device")},
    ],
    ids=str,
)
def test_it_is_not_if_something_else_is_asked_for_or_it_cannot_run(more: dict[str, Any]) -> None:
    assert asked(**more).option.numprocesses == more.get("numprocesses")


def test_workers_are_replaced_as_often_as_need_be_unless_somebody_says_how_often() -> None:
    assert get_default_max_worker_restart(asked(numprocesses=2)) > 10**6
    assert get_default_max_worker_restart(asked(numprocesses=2, maxworkerrestart="3")) == 3


TRACE = """Timeout (0:00:03)!
Thread 0x00007f0000000001 (most recent call first):
  File "/lib/execnet/gateway_base.py", line 411 in read

Thread 0x00007f0000000002 (most recent call first):
  File "/home/target.py", line 7 in gather
  File "/home/target.py", line 5 in launch
  File "/lib/_pytest/python.py", line 157 in pytest_pyfunc_call
"""


@pytest.mark.parametrize(
    ("status", "trace", "says"),
    [
        (1, TRACE, "no answer within 3 s (--case-timeout)\n    in gather, /home/target.py:7\n    in launch, "),
        (None, TRACE, "no answer within 3 s"),
        (-11, "", "its process was ended by SIGSEGV"),
        (-9, "", "its process was ended by SIGKILL, as the system does when memory runs out"),
        (-63, "", "its process was ended by signal 63"),
        (3, "", "its process exited with status 3 in the middle of it"),
        (0, "", "its process exited with status 0 in the middle of it"),
        (None, "", "the connection to its process was lost"),
    ],
)
def test_the_end_of_a_process_is_told_in_words(status: int | None, trace: str, says: str) -> None:
    assert how_it_ended(status, trace, 3.0).startswith(says)


def test_of_a_trace_that_is_cut_short_the_last_thread_is_told() -> None:
    assert innermost(TRACE.partition('  File "/lib/_pytest')[0]) == [
        "in gather, /home/target.py:7",
        "in launch, /home/target.py:5",
    ]


def test_patience_is_armed_anew_only_where_it_is_counting_and_time_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    armed: list[str] = []
    now = [100.0]
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda *_, **__: armed.append("armed"))
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: armed.append("ended"))
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    patience = Patience()
    patience.begin()
    patience.again()
    assert armed == []  # there is no limit
    patience.limit(20, 2)
    patience.again()
    assert armed == []  # nobody has begun
    patience.begin()
    patience.again()
    now[0] += 1.5
    patience.again()
    with patience.paused():
        now[0] += 5
        patience.again()
    patience.end()
    patience.end()
    assert armed == ["armed", "armed", "ended", "armed", "ended"]


def judged(folder: Path, *args: str, **environment: str) -> tuple[Any, Any]:
    """A run of the gate in processes of its own, and its report."""
    dumps = ("--dump-dir", str(folder / "dumps"), "--report-dir", str(folder))
    done = gate(*args, *dumps, "--partial-ok", **environment)
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
    chosen = (PART, "-k", "broke_real or cut", "-n", "2", "--case-timeout", "2", "--target", name)
    done, target = judged(tmp_path, *chosen)
    ends = {
        "starts_end_at_the_last_column": "its process was ended by SIGSEGV\n    in end, conformance/selfcheck/dying",
        "rest_of_the_last_page_is_nan": "its process exited with status 3 in the middle of it",
        "cache_packed_with_others": "no answer within 2 s (--case-timeout)\n    in hang_in_c, conformance/selfcheck/",
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
    chosen = (PART, "-k", "broke_real or cut", "-n", "2", "--target", "conformance.selfcheck.losing:LosingOnce")
    done, target = judged(tmp_path, *chosen)
    assert done.returncode == 1 and verdicts(target) == {"crashed": ["rest_of_the_last_page_is_nan"]}, done.stdout
    assert "an illegal memory access was encountered" in target["failures"][0]["message"]
    assert len(list((tmp_path / "dumps").iterdir())) == 1
    assert done.stdout.count("node down: ") == 1 and "crashed while running" not in done.stdout
    assert target["tests"] == 25 and "left no receipt" not in done.stdout


def test_in_one_process_a_hang_ends_the_run_and_leaves_its_trace_and_its_case(tmp_path: Path) -> None:
    chosen = (PART, "-k", "packed_with_others", "-n", "0", "--case-timeout", "1", "--target", f"{DYING}:DiesInEachWay")
    dumps = ("--dump-dir", str(tmp_path / "dumps"), "--report-dir", str(tmp_path))
    done = gate(*chosen, *dumps)
    assert done.returncode == 1 and "Timeout (0:00:01)!" in done.stderr and "in hang_in_c" in done.stderr
    assert json.loads((tmp_path / "gate.json").read_text())["verdict"] == "not judged"
    assert [path.name for path in (tmp_path / "dumps").iterdir()] == ["pending-main.safetensors"]


def test_a_target_that_may_die_does_so_in_a_process_of_its_own_and_x_stops_there(tmp_path: Path) -> None:
    chosen = (PART, "-k", "broke_real", "-x", "-v", "--target", f"{DYING}:DiesInEachWay")
    done, target = judged(tmp_path, *chosen)
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
    options = ["-p", "no:cacheprovider", "-v", "-n", "2", "--dump-dir", "", "--report-dir", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", "conformance/gate/test_random.py", "--target", "numpy", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        assert run.stdout
        said = next(line for line in run.stdout if "SCHEDULED" in line or "scheduling tests" in line)
        time.sleep(0.5)
        run.send_signal(signal.SIGINT)
        said += run.stdout.read()
    report = json.loads((tmp_path / "gate.json").read_text())
    assert run.returncode == 2 and "KeyboardInterrupt" in said, said
    assert report["verdict"] == "not judged" and not report["complete"] and report["exit_status"] == 2
    assert any("exit status 2" in reason for reason in report["reasons"]), report["reasons"]
