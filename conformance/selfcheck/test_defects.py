"""The catalogue of defects as a whole, and the commands that show it."""

from dataclasses import replace
from pathlib import Path

from conformance import marked
from conformance.faults.all_mutants import MUTANTS
from conformance.faults.defect import PARTS
from conformance.faults.defects import DEFECTS, FAMILIES
from conformance.faults.matrix import Row
from conformance.faults.matrix_report import stored, write
from conformance.faults.power import Power
from conformance.selfcheck.running import ROOT, run
from conformance.spec import clauses


def test_no_two_defects_have_one_name() -> None:
    assert len(DEFECTS) == sum(map(len, FAMILIES))


def test_every_clause_is_judged_by_a_test_and_broken_by_a_defect() -> None:
    assert set(marked.tests_by_clause()) == set(clauses()) == {defect.clause for defect in DEFECTS.values()}


def test_every_kind_of_defect_is_judged_by_modules_of_the_gate() -> None:
    assert {defect.kind for defect in DEFECTS.values()} == set(PARTS)
    assert all((ROOT / f"conformance/gate/test_{part}.py").is_file() for parts in PARTS.values() for part in parts)


def test_a_defect_is_judged_by_name() -> None:
    done = run("conformance", "faults", "starts-not-passed", "--profile", "quick")
    assert done.returncode == 0 and "1 of 1 judged, 0 survived" in done.stdout, done.stdout + done.stderr


def test_an_unknown_defect_is_a_usage_error_that_names_some() -> None:
    done = run("conformance", "faults", "starts-ignore")
    assert done.returncode == 2 and "there is no fault starts-ignore among" in done.stderr
    assert "starts-ignored" in done.stderr


def test_the_matrix_names_survivors_and_what_was_not_judged(tmp_path: Path) -> None:
    names = [*DEFECTS][:3]
    seen = Row(
        names[0],
        "model",
        "gather",
        "READ-1",
        "does a",
        "vllm 1",
        {"READ-1": 3, "READ-2": 1},
        4,
        2,
        9,
        "test[{target}]",
        "2026-01-01",
    )
    missed = replace(seen, name=names[1], red={"READ-2": 1})
    elsewhere = replace(seen, name=names[2], kind="device", red={}, tests=0)
    mutant = replace(seen, name=MUTANTS[0].mutant.name, what="mutant", clause="", red={})
    gone = replace(seen, name="no-fault-any-more")
    rows, powers = [elsewhere, gone, mutant, missed, seen], [Power("a", None, 3)]
    write(rows, powers, "quick", tmp_path)
    text = (tmp_path / "faults.md").read_text()
    assert "profile quick; counted 2026-01-01." in text
    assert "3 faults as models and 1 changes of the CUDA sources" in text
    assert f"2 survived: {names[1]}, {MUTANTS[0].mutant.name}." in text
    assert f"| {names[0]} | READ-1 | does a (vllm 1) | 4 of 9 | 2 | READ-1 READ-2 |" in text
    assert "not judged: no GPU" in text and "| a | not in 200 | 3 |" in text
    found = stored(tmp_path / "faults.json")
    assert found["rows"] == [seen, missed, elsewhere, mutant] and found["power"] == powers


def test_what_is_no_matrix_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "faults.json").write_text('{"schema": 1, "rows": []}')
    done = run("conformance", "faults", "--take", str(tmp_path / "faults.json"))
    assert done.returncode == 2 and "schema 1; allowed is 2" in done.stderr, done.stderr
