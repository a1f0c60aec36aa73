"""The kill matrix in docs/: whether it is of what is here, and whether each model is still seen by its first test."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from conformance.faults.all_mutants import MUTANTS
from conformance.faults.defect import PARTS
from conformance.faults.defects import DEFECTS
from conformance.faults.equivalents import EQUIVALENTS, Equivalent
from conformance.faults.matrix import Row
from conformance.faults.matrix_report import stored
from conformance.faults.power import powers_from
from conformance.reports.verdicts import CRASHED, DIFFERS
from conformance.selfcheck.running import gate

REPAIR = "docs/faults.json is stale; python -m conformance faults judges what has changed"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """The rows of docs/faults.json."""
    return list(stored()["rows"])


def test_the_matrix_has_every_fault_as_it_is_today(rows: list[Row]) -> None:
    models = [row.name for row in rows if row.what == "model"]
    mutants = [row.name for row in rows if row.what == "mutant"]
    assert models == [*DEFECTS] and mutants == [kept.mutant.name for kept in MUTANTS], REPAIR
    assert all(
        (row.clause, row.sentence) == (DEFECTS[row.name].clause, DEFECTS[row.name].sentence)
        for row in rows[: len(models)]
    )
    assert not [row.name for row in rows if row.stale], REPAIR


def test_the_detection_power_is_of_the_faults_and_cases_of_today() -> None:
    powers = stored()["power"]
    assert powers and {power.made_from for power in powers} == {powers_from()}, REPAIR


def test_nothing_survives(rows: list[Row]) -> None:
    assert stored()["profile"] == "ci"
    assert not [row.name for row in rows if row.survived]
    assert all(row.tests for row in rows if row.kind != "device")


@pytest.mark.parametrize("kind", [kind for kind in PARTS if kind != "device"])
def test_the_gate_is_red_again_on_every_model(kind: str, rows: list[Row], tmp_path: Path) -> None:
    mine = [row for row in rows if row.kind == kind and row.what == "model"]
    tests = {f"fault:{row.name}": row.first.replace("{target}", f"fault:{row.name}") for row in mine}
    red = red_of(tests, [*dict.fromkeys(tests.values())], tmp_path)
    rest = {target: test for target, test in tests.items() if target not in red}
    if rest:  # those that remember, and are wrong after other tests alone
        red |= red_of(rest, sorted({test.partition("::")[0] for test in rest.values()}), tmp_path)
    assert red == tests.keys()


def red_of(targets: Iterable[str], tests: list[str], folder: Path) -> set[str]:
    """The targets on which one of some tests is red."""
    named = [argument for target in targets for argument in ("--target", target)]
    run = gate(*tests, *named, "--profile", "ci", "--explain", "0", "--tb=no", "--report-dir", str(folder))
    report = json.loads((folder / "gate.json").read_text())
    assert run.returncode in (0, 1), run.stdout[-3000:]
    return {
        target["name"]
        for target in report["targets"]
        if any(failure["verdict"] in (DIFFERS, CRASHED) for failure in target["failures"])
    }


@pytest.mark.parametrize("equivalent", EQUIVALENTS, ids=lambda equivalent: equivalent.name)
def test_what_is_no_fault_shows_in_no_legal_call(equivalent: Equivalent) -> None:
    equivalent.check()
