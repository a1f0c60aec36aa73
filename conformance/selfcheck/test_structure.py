"""The house: floors that import only downwards, clauses that are judged, faults and markers that exist."""

import ast
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
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


ROOMS = (
    *("spec", "process", "verdict", "memory", "targets", "operators", "device", "scenarios", "faults", "diagnosis"),
    *("replay", "vectors", "identify", "bench", "matrix", "reports", "pytest_plugin", "commands", "cli", "__main__"),
    *("gate", "selfcheck"),
)
"""The rooms of conformance/, lowest first. A room imports only from lower ones, not even within a function."""

MOVES = dict(
    line.split()
    for line in (ROOT / "snapshot/rooms.txt").read_text().splitlines()
    if line.strip() and not line.startswith("#")
)
"""Where each module that lies flat, or in a folder of another name, has its room until it is moved."""

MAKING_CASES = re.compile(r".*\b(\w*_cases|generation|strategies|extremes|features|record_patterns)")
"""The modules that make cases, by their names after the move."""


def modules() -> dict[str, Path]:
    paths = (ROOT / "conformance").rglob("*.py")
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def imported_by(path: Path, known: Collection[str]) -> set[str]:
    """Return the modules that a file imports, wherever in it. `known` tells a module from a name in one."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in known else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def room_of(module: str) -> str:
    """Return the room of a module, "" for the package itself and for what lies on another floor."""
    floor, _, inside = MOVES.get(module, module).partition(".")
    return inside.partition(".")[0] if floor == "conformance" else ""


def test_no_room_imports_from_one_above_it() -> None:
    known = modules()
    for module, path in known.items():
        own, used = room_of(module), {room_of(name) for name in imported_by(path, known)} - {""}
        assert not own or {own, *used} <= {*ROOMS}, module
        assert {name for name in used if own and ROOMS.index(name) > ROOMS.index(own)} == set(), module


def test_what_is_below_the_pytest_plugin_knows_no_pytest() -> None:
    known = modules()
    for module, path in known.items():
        if room_of(module) in ROOMS[: ROOMS.index("matrix")]:
            tops = {name.split(".")[0] for name in imported_by(path, known)}
            assert not tops & {"pytest", "_pytest", "xdist"}, module


def test_what_makes_cases_knows_no_judge() -> None:
    known = modules()
    making = {module for module in known if MAKING_CASES.fullmatch(MOVES.get(module, module))}
    making = {module for module in making if room_of(module) == "operators"} - {"conformance.broken_features"}
    assert len(making) >= 15
    for module in making:
        judging = {
            name for name in imported_by(known[module], known) if MOVES.get(name, name).endswith(("judge", "observe"))
        }
        assert judging == set(), module


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
