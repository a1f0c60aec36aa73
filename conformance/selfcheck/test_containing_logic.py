"""What contains a target that dies, piece by piece: who runs its tests then, what it died of, when it is too late."""

import faulthandler
import time
from types import SimpleNamespace
from typing import Any

import pytest
from xdist.dsession import get_default_max_worker_restart

from conformance.patience import Patience
from conformance.running import containing
from conformance.running.endings import how_it_ended, innermost
from conformance.running.scheduling import ContainingScheduling
from conformance.running.session import TARGETS
from conformance.selfcheck.running import ROOT


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
    arguments = [str(ROOT / told.pop("part", "conformance"))]
    config = SimpleNamespace(option=SimpleNamespace(**told), stash=pytest.Stash(), args=arguments)
    config.getoption = lambda name: getattr(config.option, name.lstrip("-").replace("-", "_"))
    config.stash[TARGETS] = {"it": told["target"]}
    containing.pytest_cmdline_main(config)  # type: ignore[arg-type]
    return config


@pytest.mark.parametrize("part", ["", "conformance/gate", "conformance/gate/test_calls.py::test_no_rows_are_no_error"])
def test_a_target_that_may_die_is_put_into_a_worker(part: str) -> None:
    config = asked(part=part)
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
        {"part": "conformance/selfcheck/test_calls.py"},
        {"target": SimpleNamespace(crash_prone=False, is_gpu_code=False, unavailable=lambda: None)},
        {"target": SimpleNamespace(crash_prone=True, unavailable=lambda: "there is no device")},
    ],
    ids=[
        "-n 0",
        "-n 3",
        "--dist each",
        "--pdb",
        "--trace",
        "--collect-only",
        "--exact-memory",
        "selfcheck",
        "safe",
        "not here",
    ],
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


def test_a_worker_gets_its_tests_one_by_one_so_that_the_long_ones_are_shared_out() -> None:
    _, one, other = scheduled()
    assert (one.tests, other.tests) == ([0, 1], [2, 3])
