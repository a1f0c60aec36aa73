"""What a target's own functions answer: called so that nothing they do is a way out of a verdict, and read strictly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from conformance.judge import Judge
from conformance.observe import TargetError
from conformance.sighting import Alike, Make
from conformance.verdict import Differs, NotJudged, Unsupported

LET_THROUGH = (KeyboardInterrupt, MemoryError, NotJudged, Unsupported)
"""What is no verdict on a target, or its own word that there can be none."""


@dataclass(frozen=True)
class Question:
    """What a target's function is asked, a case at a time.

    `operator` is the function, called with case.arguments, `capability` what claims it and `what` the name of an
    answer. `read` makes an answer comparable, for a case, or raises; `golden` is what SPEC.md leaves, read; `told` says
    in lines what differs, of a case, what was expected, and what was found.
    """

    operator: str
    capability: str
    what: str
    read: Callable[[Any, Any], Any]
    golden: Callable[[Any], Any]
    told: Callable[[Any, Any, Any], list[str]]

    def reply(self, case: Any, answer: Any) -> Any:
        """An answer as it is read, or why it cannot be."""
        try:
            return self.read(case, answer)
        except LET_THROUGH:
            raise
        except BaseException as error:  # whatever a field's own code leads to
            return _unreadable(self.what, error)

    def sighting(self, cases: Sequence[Any], number: int, found: Any) -> Alike:
        """Return what was seen: `found` is the answer to one of several cases, read when all are there."""

        def agrees(make: Make) -> bool:
            target = make()
            answers = [getattr(target, self.operator)(*case.arguments) for case in cases]
            return bool(self.reply(cases[number], answers[number]) == found)

        return Alike(self.capability, ("plan",), agrees)


@dataclass(frozen=True)
class Unreadable:
    """An answer in which something is missing, or is nothing that SPEC.md says."""

    says: str
    error: BaseException = field(compare=False)


def judge_answers(judge: Judge, question: Question, *cases: Any) -> None:
    """Raise Differs or Crashed unless each answer is what SPEC.md leaves, when all of them are there (PLAN-22)."""
    answers = [answer_of(judge, case, question.operator, question.capability) for case in cases]
    for number, (case, answer) in enumerate(zip(cases, answers, strict=True)):
        judge.count.add(0, 0)
        expected, found = question.golden(case), question.reply(case, answer)
        if found == expected:
            continue
        judge.asked = question.operator, case
        lines = [found.says] if isinstance(found, Unreadable) else question.told(case, expected, found)
        late = ["PLAN-22: when a later answer was there:"] if len(cases) > 1 else []
        raise Differs(
            judge.text("differs", [*late, *map(short, lines)]),
            [short(repr(case), 2000)],
            sighting=question.sighting(cases, number, found),
        ) from (found.error if isinstance(found, Unreadable) else None)


def answer_of(judge: Judge, case: Any, operator: str, capability: str) -> Any:
    """What a function answers to case.arguments; Crashed if it raises, Differs if it changes them (PLAN-23)."""
    arguments = case.arguments
    with judge.on(operator, case):
        answer = _answer(judge, case, operator, arguments)
        for before, after in zip(case.arguments, arguments, strict=True):
            if before != after:
                said = f"PLAN-23: after the call an argument is {after!r:.300}, it was {before!r:.300}"
                sighting = Alike(capability, ("plan",), partial(_left, operator, case, arguments))
                raise Differs(judge.text("differs", [said]), [short(repr(case), 2000)], sighting=sighting)
    return answer


def _answer(judge: Judge, case: Any, operator: str, arguments: Sequence[Any]) -> Any:
    try:
        return getattr(judge.target, operator)(*arguments)
    except LET_THROUGH:
        raise
    except BaseException as error:  # SystemExit and pytest's own skip and exit too: see conformance.observe.invoke
        raise judge.crashed(case, TargetError.of(error)) from error


def _left(operator: str, case: Any, left: Sequence[Any], make: Make) -> bool:
    """Whether a function leaves its arguments so."""
    arguments = case.arguments
    getattr(make(), operator)(*arguments)
    return bool(arguments == left)


def refuses(judge: Judge, case: Any, function: Callable[..., Any]) -> tuple[bool, Any]:
    """Whether a function raises on case.arguments, and what it answers if not; Crashed for what is no Exception."""
    try:
        return False, function(*case.arguments)
    except LET_THROUGH:
        raise
    except Exception:
        return True, None
    except BaseException as error:
        raise judge.crashed(case, TargetError.of(error)) from error


@contextmanager
def reading(judge: Judge, case: Any, what: str) -> Iterator[None]:
    """Raise Differs for an answer that cannot be read."""
    try:
        yield
    except LET_THROUGH:
        raise
    except BaseException as error:
        raise Differs(judge.text("differs", [_unreadable(what, error).says, short(repr(case), 2000)])) from error


def _unreadable(what: str, error: BaseException) -> Unreadable:
    return Unreadable(
        f"the {what} cannot be read: {error}" if isinstance(error, Exception) else f"the {what}: {error!r}", error
    )


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
