"""Each way in which a gate could be green although it judged nothing, or not what was asked: it is red, in words."""

import json
import re
from datetime import date
from pathlib import Path

import pytest

from conformance.selfcheck.running import run

CALLS, READ, GEOMETRY = (f"conformance/gate/test_{part}.py" for part in ("calls", "read", "geometry"))
LYING = "conformance.selfcheck.lying:"
PART = (CALLS, "--partial-ok")


def gate(*args: str) -> tuple[int, str]:
    """The exit code of the gate, and what it says, as one line."""
    done = run("pytest", "-q", "-p", "no:cacheprovider", "--dump-dir", "", *args)
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, re.sub(r"\s+", " ", done.stdout + done.stderr)


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        pytest.param(("--target", "cuda", *PART), 6, "target cuda: no case was compared", id="no GPU"),
        pytest.param(
            ("--require", "cuda", *PART), 6, "--require cuda: not there. Available: gather", id="auto fell back"
        ),
        pytest.param(
            (f"--target={LYING}OnHopper", "--require", "sm_100", *PART),
            6,
            "--require sm_100: not there",
            id="wrong GPU",
        ),
        pytest.param(("--target=numpy", "--require", "vllm>=0.33", *PART), 6, "vllm is not installed", id="no vllm"),
        pytest.param(
            ("--target=numpy", "--require", "numpy<1", *PART), 6, "--require numpy<1: numpy 2.", id="wrong version"
        ),
        pytest.param(("--target=numpy", "--require", "vllm>>1", *PART), 4, "allowed are ranges such as", id="no range"),
        pytest.param(
            ("--target=numpy", "-k", "no_such_test", CALLS), 5, "gate: not judged (a part of the gate)", id="no test"
        ),
        pytest.param(("--target=numpy", CALLS), 6, "files were not collected: test_attend.py", id="a path"),
        pytest.param(
            ("--target=numpy", f"{CALLS}::test_no_rows_are_no_error", "--partial-ok"),
            0,
            "of a file, one test alone: conformance/gate/test_calls.py::test_no_rows",
            id="a part that may be",
        ),
        pytest.param(
            ("--target=numpy", "-k", "anew", "conformance/gate"), 6, "left out are 2,", id="-k over the whole gate"
        ),
        pytest.param(
            (f"--target={LYING}WithoutStarts", *PART), 6, "lacks gather.nvfp4.seq_starts", id="missing capability"
        ),
        pytest.param(
            (f"--target={LYING}Idle", *PART),
            6,
            "unsupported: target idle lacks gather.nvfp4",
            id="no capability at all",
        ),
        pytest.param(
            (f"--target={LYING}FallsBack", READ, "--partial-ok"), 6, "launches: something else", id="fallback"
        ),
        pytest.param(
            (f"--target={LYING}FallsBack", READ, "--partial-ok", "-n2"), 6, "launches: something else", id="in a worker"
        ),
        pytest.param(
            ("--target=numpy", CALLS, "-n2", "-k", "anew"), 6, "left out are 63 tests", id="a part, in workers"
        ),
        pytest.param((f"--target={LYING}WithoutReceipt", *PART), 6, "main has no receipt", id="no receipt"),
        pytest.param(
            (f"--target={LYING}LosesItsReceipt", *PART),
            6,
            "no receipt: its receipt() raised OSError: the file",
            id="lost receipt",
        ),
        pytest.param(
            ("--target=numpy", f"--target={LYING}Elsewhere", *PART), 6, "a machine of another kind", id="one cannot run"
        ),
        pytest.param(
            (
                "--target=conformance.selfcheck.dying:Dies",
                "-n",
                "1",
                "--max-worker-restart=0",
                GEOMETRY,
                "-k",
                "broke_real",
            ),
            1,
            "asked for and not run",
            id="dead worker",
        ),
    ],
)
def test_a_gate_that_judged_nothing_or_something_else_says_so(args: tuple[str, ...], code: int, says: str) -> None:
    found, said = gate(*args)
    assert found == code and says in said, said
    assert (code == 0) == ("gate: conforms" in said)


def waiver(clause: str, expires: date, target: str = f"{LYING}WithoutStarts") -> str:
    return f"""
[[waiver]]
clause = "{clause}"
target = "{target}"
reason = "its starts come with the next release"
link = "https://example.org/issues/1"
expires = {expires}
"""


@pytest.mark.parametrize(
    ("entry", "code", "says"),
    [
        (waiver("GATHER", date(2999, 1, 1)), 0, " tests stand until 2999-01-01: its starts come with"),
        (waiver("GATHER", date(2020, 1, 1)), 6, "waiver 1 (GATHER, target"),
        (waiver("GATHER", date(2999, 1, 1), target="numpy"), 6, "gate: unsupported"),
        (waiver("GATHER-99", date(2999, 1, 1)), 4, "clause is 'GATHER-99'; allowed are a clause of SPEC.md"),
        (waiver("GATHER", date(2999, 1, 1)).replace("link", "lnk"), 4, "found lnk; allowed are clause, target, reason"),
        ("[[waiver]", 4, "waivers.toml: "),
    ],
    ids=["valid", "expired", "of another target", "no clause", "no field", "no TOML"],
)
def test_a_waiver_lets_stand_what_it_names_until_its_day(entry: str, code: int, says: str, tmp_path: Path) -> None:
    path = tmp_path / "waivers.toml"
    path.write_text(entry)
    folder = ("--report-dir", str(tmp_path)) if code in (0, 6) else ()
    found, said = gate("--target", f"{LYING}WithoutStarts", "--waivers", str(path), *PART, *folder)
    assert found == code and says in said, said
    if folder:
        report = json.loads((tmp_path / "gate.json").read_text())
        assert (report["verdict"] == "conforms") == (code == 0)
        (kept,) = report["waivers"]
        assert kept["link"] == "https://example.org/issues/1"
        assert (kept["state"] == "expired") == ("2020" in kept["expires"])
        assert ("expired on 2020-01-01" in " ".join(report["reasons"])) == ("2020" in kept["expires"])


def test_a_waiver_of_a_receipt_is_said_where_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "waivers.toml"
    path.write_text(waiver("receipt", date(2999, 1, 1), f"{LYING}WithoutReceipt"))
    found, said = gate("--target", f"{LYING}WithoutReceipt", "--waivers", str(path), *PART)
    assert found == 0 and "waiver 1 lets receipts that do not add up stand until 2999-01-01: its starts come" in said, (
        said
    )


def test_without_a_search_for_faults_a_writers_difference_says_so() -> None:
    part = (
        "conformance/gate/test_write.py",
        "-k",
        "test_every_number_gets_its_code_under_every_scale_byte",
        "--partial-ok",
        "--explain",
        "0",
        "-n0",
    )
    found, said = gate("--target=fault:write-e2m1-ties-away", *part)
    assert found == 1 and "known faults were not looked for" in said and "NotLookedInto" not in said, said[-2000:]
