"""Exceptions of other people's code, in words: what was raised, and where."""

from __future__ import annotations

import traceback
from pathlib import Path

from conformance.spec import SPEC

MOST_FRAMES, MOST_LINES, MOST_TEXT = 4, 40, 4000
"""How much is told of an exception: frames, and lines and characters of its text."""

OWN = tuple(f"{SPEC.parent / folder}/" for folder in ("conformance", "reference", "kernels", "fixtures"))
"""Where the suite's own code lies, whose frames tell nobody what is wrong with a target."""

LIBRARIES = "/site-packages/", "/dist-packages/", "/lib/python"


def told(error: BaseException) -> str:
    """Return "Type: text" of an exception, as text that can be written anywhere, whatever its __str__ does."""
    try:
        said = str(error)
    except Exception as problem:
        said = f"its text cannot be made ({type(problem).__name__})"
    if len(said) > MOST_TEXT or said.count("\n") > MOST_LINES:
        said = "\n".join(said[:MOST_TEXT].split("\n")[:MOST_LINES]) + f" ... ({len(said):,} characters)"
    return writable(f"{type(error).__name__}: {said}" if said else type(error).__name__)


def where(error: BaseException) -> list[str]:
    """Return the innermost frames outside of the suite as "in function, file:line", the innermost first.

    Frames of libraries that stand inside of the target's own code are left out but for the innermost one.
    """
    frames = [
        (frame.filename, frame.lineno or 0, frame.name)
        for frame in reversed(traceback.extract_tb(error.__traceback__))
        if not frame.filename.startswith((*OWN, "<frozen"))
    ]
    mine = [frame for frame in frames if not any(part in frame[0] for part in LIBRARIES)]
    chosen = [*(frames[:1] if mine and frames[0] != mine[0] else []), *(mine or frames)]
    return [writable(f"in {name}, {_short(file)}:{line}") for file, line, name in chosen[:MOST_FRAMES]]


def located(error: BaseException) -> str:
    """Return what was raised and the innermost frame, in one line."""
    frames = where(error)
    mine = [frame for frame in frames if not any(part in frame for part in LIBRARIES)]
    return f"{told(error)} ({(mine or frames)[0]})" if frames else told(error)


def writable(text: str) -> str:
    """Return a text with \\udc80 and the like spelled out, which no file and no other process could be given."""
    return str(text).encode("utf-8", "backslashreplace").decode()


def _short(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
