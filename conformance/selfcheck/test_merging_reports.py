"""`python -m conformance merge` as a user runs it: what it says, what it writes, and its exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conformance.cli import app
from conformance.selfcheck.running import gate
from conformance.selfcheck.shard_reports import OUTCOMES, outcome, shards_of
from conformance.verdict import CRASHED, DIFFERS, NOT_JUDGED


def merge(folder: Path, reports: list[Any], *options: str) -> tuple[int, str]:
    """The exit code and the words of `merge` on files that hold these reports, or these texts."""
    files = [folder / f"{'abc'[place]}.json" for place in range(len(reports))]
    for path, told in zip(files, reports, strict=True):
        path.write_text(told if isinstance(told, str) else json.dumps(told))
    done = CliRunner().invoke(app, ["merge", *map(str, files), *options], env={"COLUMNS": "200"})
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.exit_code, done.output


@pytest.mark.parametrize("verdict", [DIFFERS, CRASHED])
def test_a_difference_is_worse_than_a_missing_shard(verdict: str, tmp_path: Path) -> None:
    (first,) = shards_of([*OUTCOMES[:3], outcome(4, verdict=verdict)], (1, 1, 1, 1), 2)[:1]
    code, said = merge(tmp_path, [first])
    assert code == 1 and said.startswith(f"gate: {verdict} (of 1 report)") and "shard 2/2 is missing" in said
    assert f"  {verdict}: conformance/gate/test_some.py::test_4[numpy]" in said


def test_the_joined_report_is_written_beside_no_other_and_into_no_shard(tmp_path: Path) -> None:
    reports = shards_of(OUTCOMES, (1, 1, 2, 2), 2)
    for name, told in zip(("one", "two"), reports, strict=True):
        (tmp_path / name).mkdir()
        (tmp_path / name / "gate.json").write_text(json.dumps(told))
    folders = [str(tmp_path / name) for name in ("one", "two")]
    done = CliRunner().invoke(app, ["merge", *folders, "--report-dir", str(tmp_path / "new/joined")])
    assert done.exit_code == 0 and done.output.startswith("gate: conforms (of 2 reports)\ntarget numpy: conforms: 2")
    assert sorted(path.name for path in (tmp_path / "new/joined").iterdir()) == ["gate.json", "gate.md"]
    assert json.loads((tmp_path / "new/joined/gate.json").read_text())["suite"]["asked"] == len(OUTCOMES)
    before = (tmp_path / "one/gate.json").read_bytes()
    (tmp_path / "file").write_text("")
    for bad, says in (("one", "one of those to be joined"), ("file", "where no report can be written")):
        done = CliRunner().invoke(app, ["merge", *folders, "--report-dir", str(tmp_path / bad)], env={"COLUMNS": "999"})
        assert done.exit_code == 2 and says in done.output
    assert (tmp_path / "one/gate.json").read_bytes() == before
    assert CliRunner().invoke(app, ["merge"]).exit_code == 2


def test_shards_of_a_real_gate_judge_together_what_it_judges_alone(tmp_path: Path) -> None:
    part = ("--target", "numpy", "conformance/gate/test_calls.py", "-k", "alignment or seq_starts or strided")
    for name, more in (("whole", ()), ("one", ("--shard", "1/2")), ("two", ("--shard", "2/2"))):
        done = gate(*part, *more, "--report-dir", str(tmp_path / name))
        assert done.returncode == 0, done.stdout
    whole, first, second = (json.loads((tmp_path / name / "gate.json").read_text()) for name in ("whole", "one", "two"))
    assert first["suite"]["asked"] and second["suite"]["asked"]
    code, said = merge(tmp_path, [first, second], "--report-dir", str(tmp_path / "joined"))
    joined = json.loads((tmp_path / "joined/gate.json").read_text())
    assert code == 0 and "a part of the gate" in said and joined["partial"] == whole["partial"]
    assert joined["targets"][0]["clauses"] == whole["targets"][0]["clauses"]
    assert joined["repeat"] == whole["repeat"] and joined["suite"] == whole["suite"]
    code, said = merge(tmp_path, [second])
    assert code == 6 and "not green: shard 1/2 is missing" in said
    half = json.dumps(first)[: len(json.dumps(first)) // 2]
    code, said = merge(tmp_path, [half, second], "--report-dir", str(tmp_path / "joined"))
    assert code == 6 and "a.json: found no JSON: " in said and "not green: shard 1/2 is missing" in said
    assert json.loads((tmp_path / "joined/gate.json").read_text())["verdict"] == NOT_JUDGED
