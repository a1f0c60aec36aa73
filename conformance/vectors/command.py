"""Run `python -m conformance vectors`: write the files of fixtures/vectors, or check them."""

from __future__ import annotations

from rich.console import Console

from conformance.vectors import files
from conformance.vectors.golden import Disputed


def write(console: Console) -> int:
    """Write all files, and remove files without an operator. Return the exit status.

    If two sources disagree on a vector, nothing is written.

    Returns:
        0, or 1 if two sources disagree.

    """
    try:
        texts = files.texts()
    except Disputed as disputed:
        console.print(f"nothing is written: {disputed}", markup=False)
        return 1
    for name, path in files.stored().items():
        if name not in texts:
            path.unlink()
    for name, text in texts.items():
        (files.FOLDER / name).write_text(text)
    console.print(_told(texts), markup=False)
    return 0


def check(console: Console) -> int:
    """Print the files that a new `write` would change. Return 1 if there are any, else 0."""
    try:
        texts = files.texts()
    except Disputed as disputed:
        console.print(str(disputed), markup=False)
        return 1
    stored = files.stored()
    amiss = [name for name in {**texts, **stored} if name not in stored or stored[name].read_text() != texts.get(name)]
    for name in amiss:
        state = "is missing" if name not in stored else "is of no operator" if name not in texts else "differs"
        console.print(f"{name} {state}: python -m conformance vectors writes it", markup=False)
    if not amiss:
        console.print(_told(texts), markup=False)
    return 1 if amiss else 0


def _told(texts: dict[str, str]) -> str:
    vectors = sum(len(operator.vectors) for operator in files.OPERATORS)
    return f"{vectors} vectors of {len(texts)} operators and layouts, {sum(map(len, texts.values())) / 1024:.0f} KiB"
