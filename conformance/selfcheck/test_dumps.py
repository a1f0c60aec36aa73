"""From a red gate to a small file, and from that file to the same verdict, or to another one on a right target."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from conformance.faults.all_mutants import MUTANTS
from conformance.faults.mutants import Mutant
from conformance.judge import Judge
from conformance.replaying.replay import CANNOT, CONFORMS, DIFFERS, replay
from conformance.running import keeping
from conformance.selfcheck.running import gate, run
from conformance.targets.models import NumpyTarget
from fixtures.store import load, save

PART = "conformance/gate/test_geometry.py"
BROKE_REAL = "broke_real and last_column"


class Chain(NamedTuple):
    """A faulty target, where the gate sees it, a right one, and how many bytes the smallest case may take."""

    fault: str
    part: str
    chosen: str
    right: str
    small: int


CHAINS = {
    "gather": Chain("tuned: a block's end not noticed", "test_geometry.py", BROKE_REAL, "host", 8_000),
    "gather of fp8_ds_mla": Chain("scale of the next tile", "test_twin.py", BROKE_REAL, "host", 8_000),
    "write": Chain("scales rounded up", "test_write.py", "every_token and 1-nvfp4", "host", 8_000),
    "merge": Chain("head stride taken as D", "test_merge.py", "broke_real and strided and bf16", "host", 8_000),
    "plan": Chain("fault:last-token-not-planned", "test_plan.py", "broke_real", "numpy", 4_000),
}


def told(path: Path, target: str | None = None) -> tuple[int, str]:
    """The exit code of a replay in this process, and what it says."""
    lines: list[str] = []
    return replay(path, target, lines.append), "\n".join(lines)


def target_of(fault: str, folder: Path) -> str:
    """A fault's target: a model by its name, or a mutant, whose sources are written into a folder."""
    if fault.startswith("fault:"):
        return fault
    mutant: Mutant = next(kept.mutant for kept in MUTANTS if kept.mutant.name == fault)
    return f"{mutant.target}:{mutant.write(folder / 'sources')}"


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_a_red_gate_leaves_a_file_that_is_red_on_the_faulty_target_and_green_on_a_right_one(
    chain: Chain, tmp_path: Path
) -> None:
    target, dumps = target_of(chain.fault, tmp_path), tmp_path / "dumps"
    red = gate(f"conformance/gate/{chain.part}", "-k", chain.chosen, "-x", "--target", target, "--dump-dir", str(dumps))
    small = next(dumps.glob("*-small.safetensors"))
    whole = small.with_name(small.name.replace("-small", ""))
    assert red.returncode == 1 and f"fixture  {whole}" in red.stdout and f"smaller  {small}" in red.stdout
    assert f"python -m conformance replay {whole} --target {target}" in red.stdout
    assert small.stat().st_size <= min(chain.small, whole.stat().st_size)
    for path in (whole, small):
        code, said = told(path, target)
        assert code == DIFFERS and f"differs  target {target}" in said, said
        code, said = told(path, chain.right)
        assert code == CONFORMS and f"conforms on target {chain.right}" in said, said
    shown = run("conformance", "show", str(small), "--html", str(tmp_path / "page.html"))
    assert shown.returncode == 0 and target in (tmp_path / "page.html").read_text(), shown.stderr
    shown = run("conformance", "show", str(whole))
    assert shown.returncode == 0 and load(whole).about["clauses"][0] in shown.stdout


def test_the_same_failure_has_the_same_name_and_another_target_another_one(tmp_path: Path) -> None:
    names = []
    for number, target in enumerate(("fault:starts-ignored", "fault:starts-ignored", "fault:start-of-request-0")):
        folder = tmp_path / str(number)
        gate(PART, "-k", BROKE_REAL, "--target", target, "--dump-dir", str(folder))
        names.append({path.name for path in folder.iterdir()})
    assert names[0] == names[1] and names[0] and not names[0] & names[2]


def test_a_fixture_that_cannot_be_made_takes_no_verdict_along(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def keep(self, *told: object) -> None:
            raise ValueError("this was not foreseen")

    item: Any = SimpleNamespace(config=None, nodeid="a", callspec=SimpleNamespace(params={"target": "numpy"}))
    monkeypatch.setattr(keeping, "dumps_of", lambda config: Failing())
    kept = keeping.kept(Judge(NumpyTarget()), item, "differs", ValueError("a difference"))
    assert kept == ("", ["no fixture: ValueError: this was not foreseen"])


def test_a_run_writes_no_more_files_than_it_may_and_says_so(tmp_path: Path) -> None:
    limits = ("--dump-dir", str(tmp_path), "--dump-limit", "1")
    done = gate(PART, "-k", "broke_real", "-n", "2", "--target", "fault:starts-ignored", *limits)
    assert "no fixture: this run has written 1 (--dump-limit)" in done.stdout
    assert 1 <= len([path for path in tmp_path.iterdir() if "small" not in path.name]) <= 2  # of two processes


def test_a_case_that_fails_only_after_others_is_replayed_by_its_test(tmp_path: Path) -> None:
    part, target = "conformance/gate/test_calls.py", "fault:starts-remembered"
    gate(part, "-k", "read_anew or anew", "--target", target, "--dump-dir", str(tmp_path))
    path = next(tmp_path.glob("*.safetensors"))
    code, said = told(path)
    assert code == DIFFERS and "no case that fails alone; running conformance/gate/test_calls.py" in said
    assert told(path, "numpy")[0] == CONFORMS


@pytest.mark.parametrize("workers", ["1", "0"])
def test_a_call_that_takes_its_process_down_leaves_its_case(workers: str, tmp_path: Path) -> None:
    target = "conformance.selfcheck.dying:Dies"
    chosen = (PART, "-k", BROKE_REAL, "--target", target, "--dump-dir", str(tmp_path))
    done = gate(*chosen, "-n", workers)
    if workers == "0":
        assert done.returncode < 0
        done = gate(PART, "-k", "renamed", "--target", "numpy", "--dump-dir", str(tmp_path))
        assert "left by an earlier run, which died of it" in done.stdout
    path = next(tmp_path.glob("gather-*.safetensors"))
    assert str(path) in done.stdout
    assert load(path).about["target"] == target and load(path).case.num_rows == 18
    again = run("conformance", "replay", str(path), "--target", target)
    assert again.returncode == DIFFERS and "ended with signal 11" in again.stdout
    assert told(path, "numpy")[0] == CONFORMS


def test_a_call_that_ruins_its_cuda_context_leaves_its_case_and_is_not_tried_again(tmp_path: Path) -> None:
    part, target = "conformance/gate/test_read.py", "conformance.selfcheck.losing:Losing"
    done = gate(part, "-k", "nan_scale", "--target", target, "--dump-dir", str(tmp_path))
    (path,) = tmp_path.glob("*.safetensors")
    assert done.returncode == 1 and "smaller" not in done.stdout
    assert load(path).about["verdict"] == "crashed" and load(path).about["alone"] is True


def test_a_call_that_never_returns_is_a_crash(tmp_path: Path) -> None:
    gate(PART, "-k", BROKE_REAL, "--target", "fault:starts-ignored", "--dump-dir", str(tmp_path))
    path = next(tmp_path.glob("*-small.safetensors"))
    fixture = load(path.with_name(path.name.replace("-small", "")))
    save(fixture, tmp_path / "whole.safetensors")
    hangs = ("--target", "conformance.selfcheck.dying:Hangs", "--seconds", "3")
    done = run("conformance", "replay", str(tmp_path / "whole.safetensors"), *hangs)
    assert done.returncode == DIFFERS and "crashed: no answer within 3 s" in done.stdout


def test_a_golden_model_that_has_changed_since_is_said_first(tmp_path: Path) -> None:
    gate(PART, "-k", BROKE_REAL, "--target", "fault:starts-ignored", "--dump-dir", str(tmp_path))
    path = next(tmp_path.glob("*-small.safetensors"))
    fixture = load(path)
    assert "has changed" not in told(path, "numpy")[1]
    expected = {**fixture.expected, "rows": fixture.expected["rows"] ^ 1, "rows.sha256": np.zeros(32, np.uint8)}
    save(replace(fixture, expected=expected), path)
    code, said = told(path, "numpy")
    assert code == CONFORMS and "the golden model has changed since: rows is not as expected then (row 0" in said


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ({"question": "weather"}, "question is 'weather', which this suite does not"),
        ({"question": "merge"}, "not judged: "),
        ({"clauses": 5, "question": []}, "which this suite does not"),
        ({"target": "fault:no-such"}, "there is no fault no-such"),
        ({"target": "conformance.selfcheck.dying:Dies"}, "which is not the suite's own: name one with --target"),
        ({"alone": False, "test": "conformance/gate/../selfcheck/test_dumps.py::test_a"}, "no test of the gate"),
    ],
)
def test_what_cannot_be_judged_is_said_in_a_line(about: dict[str, object], says: str, tmp_path: Path) -> None:
    gate(PART, "-k", BROKE_REAL, "--target", "fault:starts-ignored", "--dump-dir", str(tmp_path))
    path = next(tmp_path.glob("*-small.safetensors"))
    fixture = load(path)
    save(replace(fixture, about={**fixture.about, **about}), path)
    code, said = told(path)
    assert code == CANNOT and says in said and "\n" not in said


def test_a_file_that_is_none_is_one_line_and_exit_code_125(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(b"nothing of the kind")
    for command in ("replay", "show"):
        done = run("conformance", command, str(path))
        assert done.returncode == CANNOT and "Traceback" not in done.stderr + done.stdout
        assert str(path) in (done.stdout + done.stderr).replace("\n", "")
