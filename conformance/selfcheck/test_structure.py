"""The house: floors that import only downwards, clauses that are judged, faults and markers that exist."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.spec import SPEC, clauses, in_short

ROOT = SPEC.parent
FLOORS = {
    "reference": set(),
    "kernels": set(),
    "fixtures": {"reference", "kernels"},
    "conformance": {"reference", "kernels", "fixtures"},
}


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module.split(".")[0]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)


@pytest.mark.parametrize("floor", FLOORS)
def test_a_floor_imports_only_from_lower_ones(floor: str) -> None:
    allowed = FLOORS[floor] | {floor}
    for path in (ROOT / floor).rglob("*.py"):
        assert {name for name in imports_of(path) if name in FLOORS} <= allowed, path


ABOVE_JUDGES = {
    *("faults", "diagnosis", "replaying", "shrinking", "showing", "vectors", "identify", "bench"),
    *("reports", "running", "cli", "gate", "selfcheck"),
}
"""The rooms that look at what judges found; a judge, a target and a case know none of them."""

ABOVE = {
    "targets": ABOVE_JUDGES | {"judge", "observe", "generation", "write_generation", "contexts", "scenarios"},
    "faults": {"diagnosis", "identify", "replaying", "shrinking", "showing", "running", "cli", "gate", "selfcheck"},
    "diagnosis": ABOVE_JUDGES - {"faults", "diagnosis"},
    "identify": {"replaying", "shrinking", "showing", "running", "cli", "gate", "selfcheck"},
    "replaying": {"identify", "bench", "reports", "running", "cli", "gate", "selfcheck"},
    "reports": {"running", "cli", "gate", "selfcheck"},
    "running": {"cli", "gate", "selfcheck"},
}
"""By room, some of those above it, which it does not import, not even within a function."""

NO_JUDGES = {"__main__", "cli", "marked"}
"""Flat modules that are above judges: commands, and what reads the marks of tests."""

CASES = re.compile(r".*(cases|generation|strategies|extremes|generics|features|contexts|records)")
"""Flat modules that make cases, by name, but for what judges and replays with them."""


def modules_of(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in it: "pytest", "conformance.judge", or a name of one."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def rooms_of(path: Path) -> set[str]:
    """The rooms and flat modules of conformance that a file imports."""
    return {name.split(".")[1] for name in modules_of(path) if name.startswith("conformance.")}


def lower_modules() -> list[Path]:
    house = ROOT / "conformance"
    flat = [path for path in house.glob("*.py") if path.stem not in NO_JUDGES]
    return [*flat, *(path for room in ("memory", "targets", "scenarios") for path in (house / room).rglob("*.py"))]


def test_no_judge_knows_a_fault_a_diagnosis_or_pytest() -> None:
    for path in lower_modules():
        assert not rooms_of(path) & ABOVE_JUDGES, path
        assert not {name.split(".")[0] for name in modules_of(path)} & {"pytest", "_pytest", "xdist"}, path


@pytest.mark.parametrize("room", ABOVE)
def test_a_room_imports_none_of_those_above_it(room: str) -> None:
    for path in (ROOT / "conformance" / room).rglob("*.py"):
        assert not rooms_of(path) & ABOVE[room], path


def test_the_verdicts_lie_at_the_bottom() -> None:
    for path in (ROOT / "conformance/verdict.py", ROOT / "conformance/patience.py"):
        assert rooms_of(path) <= {"patience"}, path


def test_what_makes_cases_knows_no_judge() -> None:
    making = {path.stem: path for path in (ROOT / "conformance").glob("*.py") if CASES.fullmatch(path.stem)}
    making = {name: path for name, path in making.items() if name not in ("stored_cases", "broken_features")}
    assert len(making) >= 15
    for path in making.values():
        assert not rooms_of(path) & {"judge", "observe", "writes", "merges", "sighting", "serving", "attending"}, path


@pytest.mark.parametrize("model", ["scalars", "records", "reading", "paging", "gather", "contract"])
def test_the_second_model_shares_nothing_with_the_first(model: str) -> None:
    assert f"reference.{model}" not in (ROOT / "reference/torch_model.py").read_text()
    assert "torch_model" not in (ROOT / f"reference/{model}.py").read_text()


def test_the_models_know_no_pytest_and_no_file() -> None:
    for path in (ROOT / "reference").glob("*.py"):
        assert not {"pytest", "hypothesis", "safetensors", "pathlib", "json"} & set(imports_of(path)), path


def clauses_named_in(folder: str) -> set[str]:
    text = "".join(path.read_text() for path in (ROOT / "conformance" / folder).glob("test_*.py"))
    return set(
        re.findall(
            r"[A-Z]+-\d+",
            "".join(
                re.findall(r"(?:mark\.clause\(|ALWAYS = \(|_ds_mla\": \(|\"auto\": \(|\"fp8\": \()([^)]*)\)", text)
            ),
        )
    )


def test_every_clause_is_judged_by_a_test() -> None:
    judged = clauses_named_in("gate") | clauses_named_in("selfcheck")
    assert judged == set(clauses())


def test_every_clause_on_what_a_gather_does_is_judged_by_the_gate() -> None:
    of_a_gather = {clause for clause in clauses() if not clause.startswith("SCALAR")}
    assert of_a_gather <= clauses_named_in("gate")


def test_the_clauses_of_a_chapter_are_numbered_from_one_without_a_gap() -> None:
    chapters: dict[str, list[int]] = {}
    for clause in clauses():
        chapter, number = clause.split("-")
        chapters.setdefault(chapter, []).append(int(number))
    assert " ".join(chapters) == "SCALAR RECORD READ PAGE GATHER TWIN WRITE PLAN SHARD MERGE ATTEND SERVE DEVICE"
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in chapters.values())


def test_no_file_of_the_suite_outgrows_three_hundred_lines() -> None:
    sources = [
        path for floor in FLOORS for ending in ("py", "cu", "cuh", "hpp", "cpp") for path in files(floor, ending)
    ]
    assert [path for path in sources if len(path.read_text().splitlines()) > 300] == []


def files(floor: str, ending: str) -> list[Path]:
    return list((ROOT / floor).rglob(f"*.{ending}"))


def test_a_run_that_needs_no_torch_does_not_wait_for_it() -> None:
    imported = "import sys, conformance.running.plugin, conformance.cli"
    code = f"{imported}; sys.exit('torch' in sys.modules or 'cupy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_clauses_in_a_row_are_named_in_short() -> None:
    some = ("READ-1", "READ-2", "PLAN-2", "PLAN-3", "PLAN-4", "PLAN-9", "SHARD-10")
    assert in_short(some) == "READ-1 READ-2 PLAN-2 to PLAN-4 PLAN-9 SHARD-10"
