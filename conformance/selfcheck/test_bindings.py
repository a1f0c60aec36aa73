"""Whom a clause binds stands in SPEC.md alone: a new clause is asked of the right targets without an edit of code."""

import ast
import re
from pathlib import Path

import pytest

from conformance.bindings import (
    CLAIMING,
    Binding,
    BindingError,
    bindings,
    clauses_binding,
    read_bindings,
    runs_not_binding,
    whom,
)
from conformance.selfcheck import claiming
from conformance.selfcheck.claiming import GPU, NAMES, SCHEMA, Claiming
from conformance.selfcheck.running import ROOT, run
from conformance.spec import clauses, clauses_in, spec_text

EVERY = set(NAMES)
WRITERS = {"write.nvfp4", "write.fp8", "write.generic"}
PLANNERS = {"plan", "plan.metadata", "plan.dcp", "plan.workspace"}

NEXT: list[tuple[str, int | None, set[str]]] = [
    ("SCALAR", None, EVERY),
    ("RECORD", None, EVERY),
    ("READ", None, EVERY),
    ("PAGE", None, EVERY),
    ("GATHER", None, EVERY),
    ("GATHER", 15, {SCHEMA}),
    ("TWIN", 5, {"gather.generic"}),
    ("TWIN", 1, {"gather.fp8"}),
    ("WRITE", 1, WRITERS),
    ("WRITE", 10, {"write.nvfp4"}),
    ("WRITE", 19, {"write.generic"}),
    ("WRITE", 16, {"write.fp8"}),
    ("PLAN", 1, {"plan"}),
    ("PLAN", None, PLANNERS),
    ("SHARD", 1, EVERY),
    ("SHARD", 6, PLANNERS),
    ("MERGE", None, {"merge"}),
    ("ATTEND", 1, EVERY),
    ("ATTEND", 2, {"attend"}),
    ("SERVE", 3, {"serve.startup"}),
    ("SERVE", 1, {"serve.dispatch"}),
    ("DEVICE", None, {GPU}),
]
"""A chapter, the first number of the row that names its next clause, None for the open end, and whom that binds."""

LAST_OF_EACH = {chapter: (first, bound) for chapter, first, bound in NEXT}


def next_clause(text: str, chapter: str) -> str:
    """Return the id of the clause that comes after the last of a chapter."""
    return f"{chapter}-{1 + sum(clause.startswith(f'{chapter}-') for clause in clauses_in(text))}"


def with_next_clause(text: str, chapter: str, row: int | None) -> str:
    """Return SPEC.md with one clause more at the end of a chapter, whose number a row of the table names, or none."""
    clause = next_clause(text, chapter)
    before, heading, chapter_on = text.partition(f"\n## {chapter}: ")
    assert heading, chapter
    itself, end, after = chapter_on.partition("\n## ")
    text = f"{before}{heading}{itself}\n**{clause}** A target does what is new.\n{end}{after}"
    if row is None:
        return text
    number = clause.partition("-")[2]
    text, changed = re.subn(rf"^(\| {chapter} \| {row}\b[^|]*) \|", rf"\1, {number} |", text, flags=re.MULTILINE)
    assert changed == 1, (chapter, row)
    return text


def owner(rows: tuple[Binding, ...], clause: str) -> Binding:
    (row,) = [row for row in rows if clause in row.clauses]
    return row


def bound_by(row: Binding) -> set[str]:
    return {name for name in NAMES if row.binds(Claiming(name))}


@pytest.mark.parametrize(("chapter", "row", "bound"), NEXT)
def test_the_next_clause_of_a_chapter_binds_the_targets_of_its_row(
    chapter: str, row: int | None, bound: set[str]
) -> None:
    text = with_next_clause(spec_text(), chapter, row)
    assert bound_by(owner(read_bindings(text), next_clause(spec_text(), chapter))) == bound


def test_every_row_of_the_table_is_tried_with_a_next_clause() -> None:
    assert {chapter for chapter, _, _ in NEXT} == {clause.partition("-")[0] for clause in clauses()}
    opened = {(row.chapter, None) for row in bindings() if row.open_from is not None}
    named = {(row.chapter, int(row.clauses[0].partition("-")[2])) for row in bindings() if row.open_from is None}
    assert {(chapter, row) for chapter, row, _ in NEXT} == opened | named


@pytest.mark.parametrize("chapter", ["TWIN", "WRITE", "SHARD", "ATTEND", "SERVE"])
def test_a_next_clause_that_could_bind_either_of_two_has_to_be_named(chapter: str) -> None:
    with pytest.raises(BindingError, match=f"has {next_clause(spec_text(), chapter)} in no row"):
        read_bindings(with_next_clause(spec_text(), chapter, None))


def test_an_open_end_binds_whom_any_row_of_its_chapter_binds() -> None:
    for row in bindings():
        of_the_chapter = [bound_by(other) for other in bindings() if other.chapter == row.chapter]
        assert row.open_from is None or bound_by(row) == set().union(*of_the_chapter), row


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a test for the next clause of each chapter, and a plugin that adds these clauses to SPEC.md."""
    text = spec_text()
    for chapter, (row, _) in LAST_OF_EACH.items():
        text = with_next_clause(text, chapter, row)
    (tmp_path / "SPEC.md").write_text(text)
    plugin = (
        f"from pathlib import Path\n\nfrom conformance import spec\n\nspec.SPEC = Path({str(tmp_path / 'SPEC.md')!r})\n"
    )
    (tmp_path / "with_new_clauses.py").write_text(plugin)
    tests = [
        f"@pytest.mark.clause({next_clause(spec_text(), chapter)!r})\n"
        f"def test_{chapter}(judge):\n    judge.count.add(1, 1)\n"
        for chapter in LAST_OF_EACH
    ]
    (tmp_path / "test_new.py").write_text("\n\n".join(["import pytest\n", *tests]))
    return tmp_path


def pytest_in(project: Path, *more: str) -> str:
    """Run the tests of a project on all targets of `claiming`, and return what is said."""
    targets = [word for name in NAMES for word in ("--target", f"{claiming.__name__}:{name}")]
    plugins = ("-p", "with_new_clauses", "-p", "conformance.running", "-p", "no:cacheprovider")
    where = ("--rootdir", str(project), "--dump-dir", "", "--examples", "", str(project))
    return run("pytest", "-q", *plugins, *targets, *more, *where, PYTHONPATH=str(project)).stdout


def test_a_new_clause_of_any_chapter_is_asked_of_its_targets_alone(project: Path) -> None:
    said = pytest_in(project, "--collect-only")
    asked: dict[str, set[str]] = {}
    for chapter, name in re.findall(r"::test_([A-Z]+)\[.*:(.*)\]", said):
        asked.setdefault(chapter, set()).add(name)
    assert asked == {chapter: bound for chapter, (_, bound) in LAST_OF_EACH.items()}, said


def test_a_new_clause_without_a_test_is_not_asked_for_of_its_targets_alone(project: Path) -> None:
    said = pytest_in(project, "-k", "READ")
    lines = dict(re.findall(r"^target \S*:(\S+): .*\n(?:  (?!\d).*\n)*  \d+ clauses not asked for: (.*)", said, re.M))
    assert set(lines) == EVERY, said
    for chapter, (_, bound) in LAST_OF_EACH.items():
        clause = next_clause(spec_text(), chapter)
        listed = {name for name, line in lines.items() if re.search(rf"\b{clause}\b|to {clause}\b", line)}
        assert listed == (bound if chapter not in ("SCALAR", "READ") else set()), said


NAMING = {
    *("conformance/metadata.py", "conformance/metadata_rules.py", "conformance/plan_rules.py"),
    *(
        "conformance/features.py",
        "conformance/workspaces.py",
        "conformance/startups.py",
        "conformance/identify/report.py",
        "conformance/diagnosis/write.py",
    ),
    "reference/serving.py",
}
"""The modules that name the clause that an answer, a configuration or a fault breaks."""


def test_no_code_decides_by_the_number_of_a_clause() -> None:
    """Only a test's mark, a fault and a vector hold numbers, and messages of NAMING; nothing compares with one."""
    number = re.compile(rf"({'|'.join(LAST_OF_EACH)})-\d*")
    for floor in ("reference", "fixtures", "conformance"):
        for path in (ROOT / floor).rglob("*.py"):
            name = str(path.relative_to(ROOT))
            if re.match("conformance/(gate|selfcheck|faults|vectors)/", name):
                continue
            nodes = [*ast.walk(ast.parse(path.read_text()))]
            held = {text for text in map(text_of, nodes) if number.fullmatch(text)}
            assert not held or name in NAMING, (name, held)
            deciding = [part for node in nodes if isinstance(node, ast.Compare) for part in ast.walk(node)]
            assert not [text for text in map(text_of, deciding) if number.fullmatch(text)], name


def text_of(node: ast.AST) -> str:
    """Return the text that a node of a program stands for, "" for another node."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


TABLE_ROW = "| TWIN | 5 to 9 | gather_and_maybe_dequant_cache | gather.generic | targets that claim one |"


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (TABLE_ROW.replace("5 to 9", "5 to 8"), "has TWIN-9 in no row"),
        (TABLE_ROW.replace("5 to 9", "5 to 10"), "names TWIN-10, which SPEC.md does not have"),
        (TABLE_ROW.replace("5 to 9", "4 to 9"), "has TWIN-4 in two rows"),
        (TABLE_ROW.replace("5 to 9", "5 to 9, 7"), "has TWIN-7 in two rows"),
        (TABLE_ROW.replace("5 to 9", "9 to 5"), "has the clauses '9 to 5'; allowed are"),
        (TABLE_ROW.replace("5 to 9", "5-9"), "has the clauses '5-9'; allowed are"),
        (TABLE_ROW.replace("TWIN", "TWINS"), "names TWINS-5, TWINS-6, TWINS-7, TWINS-8, TWINS-9, which SPEC.md"),
        (
            TABLE_ROW.replace("generic |", "genric |"),
            "has the capability gather.genric; allowed are attend, gather.fp8",
        ),
        (TABLE_ROW.replace(CLAIMING, "some targets"), "binds 'some targets'; allowed are every target"),
        (TABLE_ROW.replace("gather.generic", ""), "names no capability"),
        (TABLE_ROW.replace("| gather.generic ", ""), "has 4 cells, not 5"),
        ("", "has TWIN-5, TWIN-6, TWIN-7, TWIN-8, TWIN-9 in no row"),
    ],
)
def test_a_table_that_does_not_go_with_the_clauses_is_refused_by_name(row: str, says: str) -> None:
    assert spec_text().count(TABLE_ROW) == 1
    with pytest.raises(BindingError) as refused:
        read_bindings(spec_text().replace(f"{TABLE_ROW}\n", f"{row}\n" if row else ""))
    assert says in str(refused.value)


def test_a_specification_without_the_table_is_refused() -> None:
    with pytest.raises(BindingError, match="lacks the table of its section 'Whom a clause binds'"):
        read_bindings("# SPEC\n\n**READ-1** A sentence.\n")


def test_a_run_with_a_clause_in_no_row_ends_at_its_start(project: Path) -> None:
    (project / "SPEC.md").write_text(with_next_clause(spec_text(), "TWIN", None))
    plugins = ("-p", "with_new_clauses", "-p", "conformance.running", "-p", "no:cacheprovider")
    done = run("pytest", *plugins, "--rootdir", str(project), str(project), PYTHONPATH=str(project))
    assert done.returncode == 4 and "has TWIN-10 in no row" in done.stderr + done.stdout, done.stdout + done.stderr


def test_what_does_not_bind_a_target_is_told_by_chapter_with_what_it_lacks() -> None:
    told = runs_not_binding(Claiming("write.fp8"))
    assert told[:2] == ["GATHER-15 (no schema)", "TWIN (no gather.fp8, no gather.generic)"]
    assert "WRITE-10 to WRITE-15 WRITE-21 (no write.nvfp4)" in told and "PLAN (no plan)" in told
    assert "ATTEND-2 to ATTEND-6 (no attend)" in told and told[-2:] == ["SERVE (no serve.*)", "DEVICE (no GPU code)"]
    assert not any("WRITE-16" in line for line in told)


def test_whom_a_clause_binds_is_told_in_words() -> None:
    assert whom("WRITE-1") == "targets that claim one of write.nvfp4, write.fp8, write.generic"
    assert (whom("DEVICE-1"), whom("READ-1")) == ("GPU code", "every target")


def test_a_clause_either_binds_a_target_or_is_told_not_to() -> None:
    for name in NAMES:
        target = Claiming(name)
        free = [row for row in bindings() if not row.binds(target)]
        assert set(clauses_binding(target)).isdisjoint(clause for row in free for clause in row.clauses)
        assert bool(runs_not_binding(target)) == bool(free)
