"""What a target's own functions answer: called so that nothing they do is a way out of a verdict, and read strictly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from conformance.judge import Differs, Judge, NotJudged, Unsupported
from conformance.observe import TargetError

LET_THROUGH = (KeyboardInterrupt, MemoryError, NotJudged, Unsupported)
"""What is no verdict on a target, or its own word that there can be none."""


def answer_of(judge: Judge, case: Any, function: Callable[..., Any]) -> Any:
    """What a function answers to case.arguments; Crashed if it raises, Differs if it changes them (PLAN-23)."""
    arguments = case.arguments
    try:
        answer = function(*arguments)
    except LET_THROUGH:
        raise
    except BaseException as error:  # SystemExit and pytest's own skip and exit too: see conformance.observe.invoke
        raise judge.crashed(case, TargetError(f"{type(error).__name__}: {error}")) from error
    for before, after in zip(case.arguments, arguments, strict=True):
        if before != after:
            said = f"PLAN-23: after the call an argument is {after!r:.300}, it was {before!r:.300}"
            raise Differs(judge.text("differs", [said, short(repr(case), 2000)]))
    return answer


def refuses(judge: Judge, case: Any, function: Callable[..., Any]) -> tuple[bool, Any]:
    """Whether a function raises on case.arguments, and what it answers if not; Crashed for what is no Exception."""
    try:
        return False, function(*case.arguments)
    except LET_THROUGH:
        raise
    except Exception:
        return True, None
    except BaseException as error:
        raise judge.crashed(case, TargetError(f"{type(error).__name__}: {error}")) from error


@contextmanager
def reading(judge: Judge, case: Any, what: str) -> Iterator[None]:
    """Raise Differs for an answer that cannot be read: something is missing, or is nothing that SPEC.md says."""
    try:
        yield
    except LET_THROUGH:
        raise
    except BaseException as error:  # whatever a field's own code leads to
        said = f"the {what} cannot be read: {error}" if isinstance(error, Exception) else f"the {what}: {error!r}"
        raise Differs(judge.text("differs", [said, short(repr(case), 2000)])) from error


@contextmanager
def kept() -> Iterator[None]:
    """Say of what differs that it was read late (PLAN-22)."""
    try:
        yield
    except Differs as error:
        head, *lines = str(error).split("\n")
        raise Differs("\n".join([head, "  PLAN-22: when a later answer was there:", *lines])) from error


def truth(said: Any) -> bool:
    """A bool of Python's or NumPy's; TypeError for anything else."""
    if not isinstance(said, bool | np.bool_):
        raise TypeError(f"{said!r:.100} is no bool")
    return bool(said)


def members(chunks: Any) -> list[Any]:
    """The chunks of a sequence; TypeError for what has no length, such as a generator."""
    if len(chunks) != len(listed := list(chunks)):
        raise TypeError(f"chunks has {len(chunks)} members and yields {len(listed)}")
    return listed


def short(line: str, most: int = 500) -> str:
    """A line, cut where it gets long."""
    return line if len(line) <= most else f"{line[:most]}... ({len(line):,} characters)"
