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
