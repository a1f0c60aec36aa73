"""A run that is forked does as one that is started: nobody who reads its answer can tell them apart."""

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from conformance.selfcheck import running
from conformance.selfcheck.running import gate, run

TOLD = """
import atexit, json, os, sys, threading, time
sys.stderr.write("warned\\n")
atexit.register(print, "at exit")
threading.Thread(target=lambda: (time.sleep(0.1), print("in a thread"))).start()
told = {"argv": sys.argv, "path": sys.path, "environment": dict(os.environ), "flags": list(sys.flags)}
told |= {"name": __name__, "cwd": os.getcwd(), "file": sys.modules["__main__"].__file__, "more": "numpy" in sys.modules}
print(json.dumps(told))
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that `run` finds as the module `told`."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "told.py"


def fresh(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """As `run` does for a variable that a fork would not know of."""
    return run(*command, **environment, PYTHONNODEBUGRANGES="")


def test_a_fork_sees_what_a_process_sees_and_has_imported_more(module: Path) -> None:
    module.write_text(TOLD)
    saw = []
    for how in (run, fresh):
        done = how("told", "-x", "a b", TOLD_TO="it")
        told, *rest = done.stdout.splitlines()
        assert (rest, done.stderr, done.returncode) == (["in a thread", "at exit"], "warned\n", 0)
        saw.append(json.loads(told))
    assert [each.pop("more") for each in saw] == [True, False]
    assert saw[0]["environment"].pop("TOLD_TO") == "it"
    assert saw[1]["environment"].pop("PYTHONNODEBUGRANGES") == ""
    assert json.loads(run("told").stdout.splitlines()[0])["environment"] == saw[0]["environment"]
    assert saw[1]["environment"].pop("TOLD_TO") == "it" and saw[0] == saw[1]
    assert str(module.parent) in saw[0]["path"]


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ("sys.exit()", 0),
        ("sys.exit(6)", 6),
        ("sys.exit(-1)", 255),
        ("sys.exit('in words')", 1),
        ("1 / 0", 1),
        ("os._exit(3)", 3),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV),
    ],
)
def test_a_fork_ends_as_a_process_does(ends: str, code: int, module: Path) -> None:
    module.write_text(f"import os, signal, sys\nprint('here', flush=True)\n{ends}")
    forked, started = run("told"), fresh("told")
    assert forked.returncode == started.returncode == code
    assert forked.stdout == started.stdout == "here\n"
    assert forked.stderr.splitlines()[-1:] == started.stderr.splitlines()[-1:]


def test_a_forked_gate_says_what_another_says() -> None:
    part = ("conformance/gate/test_random.py", "-k", "with_starts and -1", "--target", "fault:starts-ignored", "-rA")
    said = []
    for how in (gate, lambda *args: gate(*args, PYTHONNODEBUGRANGES="")):
        done = how(*part, "--hypothesis-show-statistics")
        assert done.returncode == 1 and "Warning" not in done.stdout + done.stderr
        said.append((re.sub(r"[\d.:~ -]+(m?s\b|cases/s|(?=, \d+ cases))|=+", "", done.stdout), done.stderr))
    assert said[0] == said[1]


def test_a_variable_that_libraries_read_at_their_start_takes_a_fresh_process(module: Path) -> None:
    module.write_text("import sys; print('numpy' in sys.modules)")
    assert [run("told", **given).stdout for given in ({}, {"OMP_NUM_THREADS": "1"})] == ["True\n", "False\n"]


def test_a_fork_that_takes_too_long_is_killed(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module.write_text("import os, time; print(os.getpid(), flush=True); time.sleep(60)")
    monkeypatch.setattr(running, "SECONDS", 0.5)
    with pytest.raises(subprocess.TimeoutExpired) as raised:
        run("told")
    assert raised.value.output and not Path("/proc", raised.value.output.decode().strip()).exists()
    monkeypatch.undo()
    assert run("told").returncode == 1  # it is not found any more: what comes next is served
