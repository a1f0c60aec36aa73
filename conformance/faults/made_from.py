"""What a row of the kill matrix is made from, as a hash: the matrix is stale where that has changed.

That is the tests of its kind and the cases that they are given, the models of its faults, and the CUDA sources of a
mutant. What compares is not among it, for `make test` judges every model again by the test that sees it soonest.
Comments and docstrings do not count, nor do marks of what profile quick or a sanitizer leaves out.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from conformance.faults import defects
from conformance.faults.defect import PARTS, Defect
from conformance.spec import SPEC

ROOT = SPEC.parent

COMPARES = ("conformance/judge.py", "conformance/drawing.py", "conformance/targets/base.py")
"""What every test of the gate imports, whatever it asks."""


OF_MUTANTS = ("kernels/cuda/*", "kernels/host/*", "conformance/faults/*mutants.py")


@cache
def made_from(kind: str, name: str = "") -> str:
    """The first 16 hexadecimal digits of a SHA-256 for the row of a fault of a kind; without a name, of a mutant."""
    gate = [ROOT / f"conformance/gate/test_{part}.py" for part in PARTS[kind]]
    asked = {path for module in gate for path in _imported(module) if _name(path) not in COMPARES}
    built = _closure(_module_of(name)) if name else _of_mutants()
    digest = hashlib.sha256()
    for path in sorted({*gate, *asked, *built}):
        digest.update(f"{_name(path)}\0".encode() + what_counts(path))
    return digest.hexdigest()[:16]


def _of_mutants() -> Iterator[Path]:
    return (path for pattern in OF_MUTANTS for path in ROOT.glob(pattern))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _module_of(name: str) -> Path:
    """The module in which a fault stands: of those whose DEFECTS have it, that which has fewest."""
    having = {path: table for path, table in _tables().items() if any(each.name == name for each in table)}
    return min(having, key=lambda path: len(having[path]))


@cache
def _tables() -> dict[Path, tuple[Defect, ...]]:
    """The DEFECTS of each module that the catalogue is made of."""
    families = [Path(str(each.__file__)) for each in vars(defects).values() if isinstance(each, ModuleType)]
    modules = {path: import_module(f"conformance.faults.{path.stem}") for each in families for path in _closure(each)}
    return {path: getattr(modules[path], "DEFECTS", ()) for path in sorted(modules)}


@cache
def _closure(module: Path) -> frozenset[Path]:
    """A module, and those of this package that it imports, directly or not."""
    found, waiting = set[Path](), [module]
    while waiting:
        path = waiting.pop()
        if path not in found and path.parent.name == "faults":
            found.add(path)
            waiting += _imported(path)
    return frozenset(found)


@cache
def _imported(path: Path) -> tuple[Path, ...]:
    """The files of conformance/ and fixtures/ that a module imports, wherever in it that stands."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    inside = [name for name in names if name.startswith(("conformance.", "fixtures."))]
    paths = [ROOT / (name.replace(".", "/") + ".py") for name in sorted(inside)]
    return tuple(path for path in paths if path.is_file())


_SILENT = re.compile(r"\s*(#|@pytest\.mark\.(long|unsanitized|nightly)$)")
"""A comment, and a mark that says which runs leave a test out: those that make the matrix leave nothing out."""


@cache
def what_counts(path: Path) -> bytes:
    """A file without what does nothing: of Python comments, docstrings, empty lines, and marks that spare a test."""
    if path.suffix != ".py":
        return path.read_bytes()
    text, silent = path.read_text(), set[int]()
    for docstring in _docstrings(ast.parse(text)):
        silent.update(range(docstring.lineno, int(docstring.end_lineno or docstring.lineno) + 1))
    lines = (line for number, line in enumerate(text.splitlines(), 1) if number not in silent)
    return "\n".join(line for line in lines if line.strip() and not _SILENT.match(line)).encode()


def _docstrings(tree: ast.Module) -> Iterator[ast.Expr]:
    """Every text that stands alone: it does nothing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node
