"""What a run says of itself while it is under way, on a terminal and in a log, and its junit.xml."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.reports.gate import Gate
from conformance.reports.progress import Progress, clock
from conformance.reports.verdicts import Outcome
from conformance.running import progress
from conformance.running.progress import Shown
from conformance.running.session import GATE
from conformance.selfcheck.running import ROOT, gate
from conformance.verdict import CONFORMS, CRASHED, DIFFERS, NOT_JUDGED, UNSUPPORTED

CALLS = "conformance/gate/test_calls.py"


@pytest.mark.parametrize(
    ("so_far", "says"),
    [
        (Progress(), "0 of ? tests, 0:00 so far, 0 cases, ? cases/s"),
        (Progress(2161, 4, 80, 9), "4 of 2,161 tests, 0:09 so far, 80 cases, 9 cases/s"),
        (Progress(2161, 40, 80, 1), "40 of 2,161 tests, 0:01 so far, 80 cases, ? cases/s"),
        (Progress(2100, 700, 31204, 20), "700 of 2,100 tests, 0:20 so far, 31,204 cases, 1,560 cases/s"),
        (Progress(10, 10, 300, 5), "10 of 10 tests, 0:05 so far, 300 cases, 60 cases/s"),
        (Progress(None, 10, 300, 5), "10 of ? tests, 0:05 so far, 300 cases, 60 cases/s"),
        (Progress(10, 5, 0, 5, {DIFFERS: 1, CONFORMS: 4}), "5 of 10 tests, 1 differs, 0:05 so far, 0 cases, 0 cases/s"),
        (
            Progress(9, 9, 0, 9, {NOT_JUDGED: 2, UNSUPPORTED: 1, DIFFERS: 3, CRASHED: 1}),
            "9 of 9 tests, 1 crashed, 3 differ, 1 unsupported, 2 not judged, 0:09 so far, 0 cases, 0 cases/s",
        ),
    ],
)
def test_a_line_says_how_far_how_fast_and_what_was_found(so_far: Progress, says: str) -> None:
    assert so_far.line() == says


def test_a_run_that_is_over_says_how_long_it_took() -> None:
    assert Progress(80, 80, 296, 1.5).line(over=True) == "80 of 80 tests, in 0:02, 296 cases, 197 cases/s"


@pytest.mark.parametrize(
    ("seconds", "says"),
    [(0, "0:00"), (59.6, "1:00"), (61, "1:01"), (3599, "59:59"), (3600, "1:00:00"), (90061, "25:01:01")],
)
def test_a_duration_is_said_as_on_a_clock(seconds: float, says: str) -> None:
    assert clock(seconds) == says


class Reporter:
    """What a line is written to, in the place of pytest's reporter and of its writer."""

    def __init__(self, isatty: bool) -> None:
        self.isatty, self.currentfspath, self.showfspath, self.text = isatty, None, True, ""

    def write_line(self, line: str, **_: bool) -> None:
        self.text += f"{line}\n"

    def write_raw(self, text: str, flush: bool = False) -> None:
        self.text += text

    def markup(self, text: str, **_: bool) -> str:
        return text

    def flush(self) -> None:
        pass


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


def shown(monkeypatch: pytest.MonkeyPatch, isatty: bool, tests: list[str]) -> tuple[Shown, Reporter, Gate, Clock]:
    """A run of some tests, all but the first of which are still to come, and a clock that stands still."""
    ticking = Clock()
    monkeypatch.setattr(progress, "time", ticking)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "30")
    reporter, run = Reporter(isatty), Gate(0, "quick")
    config: Any = SimpleNamespace(stash={GATE: run}, get_terminal_writer=lambda: reporter)
    watching = Shown(config, reporter)
    watching.pytest_xdist_node_collection_finished(tests)
    return watching, reporter, run, ticking


TESTS = [f"conformance/gate/test_a.py::test_{number}[t]" for number in range(200)]


@pytest.mark.parametrize(("isatty", "seconds", "lines"), [(True, 0.25, 7), (False, 30.0, 0)])
def test_lines_come_no_more_often_than_they_can_be_read(
    isatty: bool, seconds: float, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching, reporter, run, ticking = shown(monkeypatch, isatty, TESTS)
    for number, test in enumerate(TESTS):
        run.outcomes.append(Outcome(test, "t", (), CONFORMS, cases=1))
        ticking.now = number / 100
        watching.pytest_runtest_logreport()
    assert reporter.text.count("of 200 tests") == lines
    ticking.now += seconds
    watching.pytest_runtest_logstart()
    assert reporter.text.count("of 200 tests") == lines + 1
    assert isatty or not re.search(r"[^ -~\n]", reporter.text)


def test_a_line_is_never_wider_than_the_terminal_and_takes_the_place_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watching, reporter, run, ticking = shown(monkeypatch, True, TESTS)
    ticking.now = 10
    watching.pytest_runtest_logstart()
    assert reporter.text == "\r0 of 200 tests, 0:10 so far, "
    monkeypatch.setenv("COLUMNS", "60")
    ticking.now = 20
    watching.pytest_runtest_logstart()
    assert reporter.text.endswith(f"\r{'0 of 200 tests, 0:20 so far, 0 cases, 0 cases/s':59}")
    run.outcomes.append(Outcome(TESTS[0], "t", (), CRASHED))
    watching.pytest_runtest_logreport()
    assert reporter.text.endswith(f"\r{' ' * 59}\rcrashed  {TESTS[0]}\n")


def test_each_test_that_does_not_conform_is_named_at_once_but_not_hundreds(monkeypatch: pytest.MonkeyPatch) -> None:
    watching, reporter, run, _ = shown(monkeypatch, False, TESTS)
    for test in TESTS[:40]:
        run.outcomes.append(Outcome(test, "t", (), NOT_JUDGED))
        watching.pytest_runtest_logreport()
    lines = reporter.text.splitlines()
    assert lines == [*(f"not judged  {test}" for test in TESTS[:20]), "further ones are only counted"]


@pytest.mark.parametrize("tests", [[], [*TESTS, "conformance/selfcheck/test_b.py::test_it"]])
def test_a_run_with_other_tests_keeps_the_dots(tests: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    watching, reporter, run, ticking = shown(monkeypatch, True, tests)
    run.outcomes.append(Outcome(TESTS[0], "t", (), DIFFERS))
    ticking.now = 99
    watching.pytest_runtest_logreport()
    watching.pytest_sessionfinish()
    assert reporter.text == "" and reporter.showfspath


def on_a_terminal(*args: str, columns: int) -> str:
    """What the gate writes to a terminal of a width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "TERM")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--dump-dir", "", *args]
    with subprocess.Popen(
        command, cwd=ROOT, env={**environment, "TERM": "xterm"}, stdin=theirs, stdout=theirs, stderr=theirs
    ):
        os.close(theirs)
        held = b""
        with open(ours, "rb", buffering=0) as terminal:
            try:
                while read := terminal.read(4096):
                    held += read
            except OSError:  # how Linux says that nobody has the other side any more
                pass
    return held.decode()


def test_on_a_terminal_one_line_is_rewritten_and_cut_to_its_width() -> None:
    text = on_a_terminal(CALLS, "conformance/gate/test_random.py", "--target", "numpy", "-n", "0", columns=50)
    bare = re.sub(r"\x1b\[\d+m", "", text)
    rewritten = re.findall(r"[^\r\n]* of \d+ tests[^\r\n]*", bare)
    assert rewritten and all(len(line) < 50 for line in rewritten), bare
    assert (last := re.match(r"((\d+) of \2 tests), in 0:", rewritten[-1]))
    assert "test_calls.py ." not in bare and "[100%]" not in bare
    assert f"\x1b[32m{last[1]}" in text


def test_in_a_log_there_are_lines_and_no_control_characters_and_junit_xml_has_each_verdict(tmp_path: Path) -> None:
    targets = ("--target", "fault:starts-ignored", "--target", "cuda")
    done = gate(CALLS, *targets, "--report-dir", str(tmp_path))
    assert done.returncode == 1 and not re.search(r"[^ -~\n]", done.stdout), done.stdout
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"(not judged|differs)  conformance/gate/test_calls\.py::test_\w+\[.+\]", lines[0]), done.stdout
    assert "further ones are only counted" in lines
    assert any(
        re.fullmatch(r"128 of 128 tests, \d+ differ, 64 not judged, in 0:\d\d, .* cases/s", line) for line in lines
    )
    assert re.search(r"^FAILED conformance/gate/test_calls", done.stdout, re.MULTILINE)
    suite = ET.parse(tmp_path / "junit.xml").getroot()[0]
    skipped = [case[0] for case in suite if "[cuda-" in case.get("name", "") or "[cuda]" in case.get("name", "")]
    assert len(skipped) == 64 and {each.tag for each in skipped} == {"skipped"}
    assert all(str(each.get("message")).startswith("not judged: ") for each in skipped)
    assert int(suite.get("failures", 0)) > 0 and suite.get("errors") == "0"


def test_a_worker_that_died_is_a_failure_in_junit_xml(tmp_path: Path) -> None:
    part = (
        "conformance/gate/test_geometry.py",
        "-k",
        "starts_end_at_the_last_column and not without_starts",
        "-n",
        "1",
    )
    (tmp_path / "junit.xml").write_text("of an earlier run")
    done = gate(*part, "--target", "conformance.selfcheck.dying:Dies", "--report-dir", str(tmp_path))
    assert done.returncode == 1 and "crashed  conformance/gate/test_geometry.py::" in done.stdout, done.stdout
    suite = ET.parse(tmp_path / "junit.xml").getroot()[0]
    assert (suite.get("failures"), suite.get("errors"), suite[0][0].tag) == ("1", "0", "failure")
