"""Move the modules to the rooms of rooms.txt, and rewrite every import and every mention of them; not made to stay.

python snapshot/move.py, in a clean clone; ruff sorts the imports. Afterwards `git apply -3 snapshot/after_move.patch`
makes the package with the one import name, the wheel and the pytest entry point. What is printed needs a look by hand:
modules whose last name has changed are imported under their old one.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "nvfp4_mla_conformance"
TOPS = ("conformance", "reference", "kernels", "fixtures")
TEXTS = (".md", ".toml", ".yml", ".cuh", ".cu", ".cpp", ".h", ".hpp", ".txt")
LEFT = ("CHANGELOG.md", "snapshot/")
DOTTED = re.compile(r"(?<![\w./])(?:conformance|reference|kernels|fixtures)(?:\.[A-Za-z_]\w*)+")
FSTRING = getattr(tokenize, "FSTRING_MIDDLE", -1)

Place = tuple[int, int]


def git(*arguments: str) -> str:
    """Return what git prints."""
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


FILES = git("ls-files").splitlines()
MODULES = {
    file[:-3].replace("/", ".").removesuffix(".__init__"): file
    for file in FILES
    if file.endswith(".py") and file.split("/")[0] in TOPS
}
ROOMS = dict(
    line.split()
    for line in Path(__file__).with_name("rooms.txt").read_text().splitlines()
    if line and not line.startswith("#")
)
PATHS = {
    file: ROOMS[module].replace(".", "/") + ("/__init__.py" if file.endswith("__init__.py") else ".py")
    for module, file in MODULES.items()
    if module in ROOMS
}
PATH = re.compile("|".join(re.escape(path) for path in sorted(PATHS, key=len, reverse=True)))


def mentions(text: str, prefix: bool) -> str:
    """Return a text with the new names of the modules and files that it mentions."""

    def renamed(found: re.Match[str]) -> str:
        parts = found.group().split(".")
        for length in range(len(parts), 1, -1):
            if (module := ".".join(parts[:length])) in MODULES:
                new = [ROOMS.get(module, module), *parts[length:]]
                return ".".join([PACKAGE, *new] if prefix else new)
        return found.group()

    return PATH.sub(lambda found: PATHS[found.group()], DOTTED.sub(renamed, text))


def imports(node: ast.Import | ast.ImportFrom, file: str) -> Iterator[str]:
    """Yield the new import statements of an old one."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            old = alias.name
            new = f"{PACKAGE}.{ROOMS.get(old, old)}" if old.split(".")[0] in TOPS else old
            yield f"import {new}" + (f" as {alias.asname}" if alias.asname else "")
        return
    wanted: dict[str, list[str]] = {}
    for alias in node.names:
        module, name, own = str(node.module), alias.name, alias.asname
        if (full := f"{module}.{name}") in MODULES:
            module, _, name = ROOMS.get(full, full).rpartition(".")
            own = own or alias.name
            if name != alias.name:
                print(f"{file}:{node.lineno}: {name} as {own}")
        else:
            module = ROOMS.get(module, module)
        wanted.setdefault(module, []).append(name + (f" as {own}" if own and own != name else ""))
    for module, names in wanted.items():
        yield f"from {PACKAGE}.{module} import ({', '.join(names)})"


def rewritten(text: str, file: str) -> str:
    """Return a module's text with new imports and new names in its strings and comments."""
    tree, lines = ast.parse(text), text.splitlines(keepends=True)
    prose = set(docstrings(tree))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) and is_ours(node)]
    covered = {line for node in nodes for line in range(node.lineno, int(node.end_lineno or 0) + 1)}
    edits: list[tuple[Place, Place, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT, FSTRING) and token.start[0] not in covered:
            is_prose = token.type == tokenize.COMMENT or token.start[0] in prose
            edits.append((token.start, token.end, mentions(token.string, prefix=not is_prose)))
    for node in nodes:
        new = ("\n" + " " * node.col_offset).join(imports(node, file))
        edits.append(((node.lineno, node.col_offset), (int(node.end_lineno or 0), int(node.end_col_offset or 0)), new))
    for (first, start), (last, end), new in sorted(edits, reverse=True):
        lines[first - 1 : last] = [lines[first - 1][:start] + new + lines[last - 1][end:]]
    return "".join(lines)


def docstrings(tree: ast.AST) -> Iterator[int]:
    """Yield the lines on which docstrings begin."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                yield statement.value.lineno


def is_ours(node: ast.Import | ast.ImportFrom) -> bool:
    """Return whether an import is one of a module of the four folders."""
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    return any(name.split(".")[0] in TOPS for name in names)


def main() -> None:
    """Rewrite all files, move the modules, and make the packages that are new."""
    print("\n".join(f"rooms.txt names {module}, which is not there" for module in ROOMS if module not in MODULES))
    for file in FILES:
        if file.startswith(LEFT):
            continue
        path = Path(file)
        if file.endswith(".py"):
            path.write_text(rewritten(path.read_text(), file))
        elif file.endswith(TEXTS) or file in ("Makefile", ".ci/run"):
            path.write_text(mentions(path.read_text(), prefix=False))
    for old in PATHS:  # in two passes, so that names that change hands do not meet
        git("mv", old, f"{old}.moving")
    for old, new in PATHS.items():
        Path(new).parent.mkdir(parents=True, exist_ok=True)
        git("mv", f"{old}.moving", new)
    for folder in {parent for new in PATHS.values() for parent in Path(new).parents if parent.parts}:
        if not (start := folder / "__init__.py").exists():
            print(f"{start} is to be written")
            start.write_text('"""Hold the modules of this room."""\n')
            git("add", str(start))


if __name__ == "__main__":
    main()
