"""docs/faults.md: each model of a fault is judged by the test in its line, and one without a line by all its tests."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from conformance import marked
from conformance.faults.all_mutants import MUTANTS
from conformance.faults.defect import PARTS
from conformance.faults.defects import DEFECTS
from conformance.faults.equivalents import EQUIVALENTS, Equivalent
from conformance.faults.lines import PATH, Line, read_lines, write_lines
from conformance.faults.matrix import Row, first_to_see
from conformance.selfcheck.running import gate
from conformance.verdict import CRASHED, DIFFERS

LINES = read_lines()
LINES_OF_MODELS = {name: line for (what, name), line in LINES.items() if what == "model"}
FIRST = "a.py::t[{target}-1]"
ROW = Row("starts-ignored", "model", "gather", "GATHER-2", "", "", {"GATHER-2": 3}, 3, 2, 9, FIRST, "2026-01-01")


@pytest.mark.parametrize("kind", [kind for kind in PARTS if kind != "device"])
def test_each_model_is_seen_by_the_test_in_its_line(kind: str, tmp_path: Path) -> None:
    names = [defect.name for defect in DEFECTS.values() if defect.kind == kind]
    assert not (lost := not_seen(names, LINES_OF_MODELS, tmp_path)), "\n".join(lost)


def not_seen(names: Iterable[str], lines: dict[str, Line], folder: Path) -> list[str]:
    """Return a message for each fault that its test no longer sees, with the next best test.

    A fault without a line is right if a test under its own clause sees it.
    """
    tests = {name: lines[name].test_of(f"fault:{name}") for name in names if name in lines}
    lost = unseen(tests, [*dict.fromkeys(tests.values())], folder)
    # Those that remember are wrong after other tests alone.
    lost = unseen(lost, sorted({test.partition("::")[0] for test in lost.values()}), folder)
    messages = []
    for defect in (DEFECTS[name] for name in names if name in lost or name not in lines):
        best = first_to_see(defect)
        if defect.name in lost or not is_of(best, defect.clause):
            blind = lost.get(defect.name, "any test of its clause")
            messages.append(
                f"{defect.name} ({defect.clause}) is not seen by {blind}; seen by {best or 'none'}: "
                f"python -m conformance faults {defect.name} --write"
            )
    return messages


def unseen(tests: dict[str, str], run: list[str], folder: Path) -> dict[str, str]:
    """Return those of some faults, each with its test, on which nothing under their clause is red if tests are run."""
    if not tests:
        return {}
    named = [argument for name in tests for argument in ("--target", f"fault:{name}")]
    done = gate(*run, *named, "--profile", "ci", "--explain", "0", "--tb=no", "--report-dir", str(folder))
    assert done.returncode in (0, 1), done.stdout[-3000:]
    report = json.loads((folder / "gate.json").read_text())
    clauses = {
        target["name"].removeprefix("fault:"): " ".join(
            failure["clause"] for failure in target["failures"] if failure["verdict"] in (DIFFERS, CRASHED)
        )
        for target in report["targets"]
    }
    return {name: test for name, test in tests.items() if DEFECTS[name].clause not in clauses[name].split()}


def is_of(test: str, clause: str) -> bool:
    """Return whether a test, by its node id, is marked with a clause."""
    return test.removeprefix("conformance/").partition("[")[0] in marked.tests_by_clause().get(clause, [])


def test_a_test_that_no_longer_sees_its_fault_is_red_and_the_next_best_is_named(tmp_path: Path) -> None:
    blind = Line("test_calls.py::test_no_rows_are_no_error[{target}-no request-starts]", 1, 1, "2026-01-01")
    (message,) = not_seen(["starts-ignored"], {"starts-ignored": blind}, tmp_path)
    assert message.startswith("starts-ignored (GATHER-2) is not seen by conformance/gate/test_calls.py::")
    assert "; seen by conformance/gate/test_" in message


def test_a_fault_without_a_line_is_right_if_a_test_of_its_clause_sees_it(tmp_path: Path) -> None:
    assert not not_seen(["starts-not-passed"], {}, tmp_path)


def test_a_fault_that_no_test_of_its_clause_sees_is_red(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DEFECTS, "starts-ignored", replace(DEFECTS["starts-ignored"], clause="SERVE-1", kind="serve"))
    assert not_seen(["starts-ignored"], {}, tmp_path) == [
        "starts-ignored (SERVE-1) is not seen by any test of its clause; seen by none: "
        "python -m conformance faults starts-ignored --write"
    ]


def test_a_line_says_what_a_row_says_and_no_line_is_lost(tmp_path: Path) -> None:
    page, mutant = tmp_path / "faults.md", MUTANTS[0].mutant
    write_lines([ROW, replace(ROW, name=mutant.name, what="mutant", first="")], page)
    write_lines([replace(ROW, name="starts-not-passed", counted="2026-01-02")], page)
    assert "| starts-ignored | GATHER-2 | seq_starts ignored | 3 of 9 | `a.py::t[{target}-1]` |" in page.read_text()
    assert [*read_lines(page)] == [("model", "starts-ignored"), ("model", "starts-not-passed")]
    write_lines([replace(ROW, name=mutant.name, what="mutant"), replace(ROW, name="no-fault-any-more")], page)
    assert read_lines(page)["mutant", mutant.name] == Line(FIRST, 3, 9, ROW.counted)
    assert len(read_lines(page)) == 3


def test_every_line_of_the_page_can_be_read() -> None:
    assert sum(text.endswith(" |") and "`" in text for text in PATH.read_text().splitlines()) == len(LINES)


@pytest.mark.parametrize("equivalent", EQUIVALENTS, ids=lambda equivalent: equivalent.name)
def test_what_is_no_fault_shows_in_no_legal_call(equivalent: Equivalent) -> None:
    equivalent.check()
