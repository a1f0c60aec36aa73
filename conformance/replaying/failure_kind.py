"""In what way a case fails, so that a smaller case can be held to fail in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance.diagnosis.engine import diagnose
from conformance.faults.defects import DEFECTS
from conformance.judge import Judge
from conformance.observe import TargetError
from conformance.replaying.questions import ask_of
from conformance.targets.base import Target
from conformance.verdict import Crashed, Differs, Evidence, Pair
from fixtures.cases import GatherCase
from fixtures.merge_cases import MergeCase
from fixtures.placement import POISONS, ZERO
from fixtures.write_cases import WriteCase

MOST_FAULTS = 4
"""Faults that a smaller case is compared with; each is one more call of a model for a candidate."""

POISON_OF = {poison.name: poison for poison in (*POISONS, ZERO)}
NUMBERS = re.compile(r"(?<![A-Za-z_0-9.])[-+]?(?:0x[0-9a-f]+|\d[\d,_.]*(?:e[-+]?\d+)?)", re.IGNORECASE)
CLAUSES = re.compile(r"^\s*([A-Z]+-\d+):", re.MULTILINE)


@dataclass(frozen=True)
class FailureKind:
    """The verdict, "differs" or "crashed", the ways in which a case fails, and whether the call has nothing to do.

    A way is a kind of difference, such as "latent: never written", a clause, or a message without its numbers.
    """

    verdict: str
    ways: frozenset[str]
    empty: bool

    def covers(self, smaller: FailureKind) -> bool:
        """Return whether a smaller case fails in some of these ways, and in no other."""
        alike = (self.verdict, self.empty) == (smaller.verdict, smaller.empty)
        return alike and bool(smaller.ways) and smaller.ways <= self.ways


def kind_of(case: Any, error: Exception) -> FailureKind:
    """Return in what way a case failed."""
    if not isinstance(error, Differs):
        return FailureKind("crashed", frozenset({_without_numbers(_raised(error))}), is_empty(case))
    evidence = error.evidence
    ways = frozenset(_differences(case, evidence)) | evidence.around if evidence else _said(error)
    return FailureKind("differs", ways, is_empty(case))


def is_empty(case: Any) -> bool:
    """Return whether a call has nothing to do, such as a gather of no rows."""
    if isinstance(case, GatherCase):
        return not (case.num_rows and case.batch_size)
    if isinstance(case, WriteCase):
        return case.tokens == 0
    if isinstance(case, MergeCase):
        return 0 in case.shape
    return not getattr(case, "context_lens", True)


def models_of(judge: Judge, question: str, case: Any, error: Exception) -> list[Callable[[], Target]]:
    """Return the faults that explain a failure exactly and that, asked the same question, do the same."""
    named = [DEFECTS[name].target for name in diagnose(error).explained_by if name in DEFECTS]
    return [make for make in named[:MOST_FAULTS] if does_the_same(make, judge, question, case, error)]


def does_the_same(make: Callable[[], Target], judge: Judge, question: str, case: Any, error: Exception) -> bool:
    """Return whether the model of a fault differs on a case exactly as a target did, with `error`."""
    ask = ask_of(question)
    if ask is None or not isinstance(error, Differs):
        return False
    try:
        ask(Judge(make(), judge.clauses), case)
    except Differs as other:
        return _same(error, other)
    except Exception:  # a model that crashes on the case, or lacks what it needs
        return False
    return False


def _same(one: Differs, other: Differs) -> bool:
    first, second = one.evidence, other.evidence
    if first is None or second is None:
        return first is second and _lines(one) == _lines(other)
    if (first.poison, first.around, first.arrays.keys()) != (second.poison, second.around, second.arrays.keys()):
        return False
    pairs = [(first.arrays[name].observed, second.arrays[name].observed) for name in first.arrays]
    return all(a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)


def _differences(case: Any, evidence: Evidence) -> Iterator[str]:
    for name, pair in evidence.arrays.items():
        if isinstance(case, GatherCase):
            yield from _of_rows(case, pair, evidence.poison)
        elif isinstance(case, WriteCase):
            yield from _of_records(case, pair, evidence.poison)
        elif pair.wrong is None or pair.wrong.any():
            yield f"{name} differs"


def _of_rows(case: GatherCase, pair: Pair, poison: str) -> Iterator[str]:
    """Yield the kinds of differences in the latents and in the RoPE of rows."""
    assert pair.wrong is not None
    middle, blank = case.layout.latent.count, POISON_OF[poison].dst
    for part, columns in (("latent", slice(middle)), ("RoPE", slice(middle, None))):
        wrong = pair.wrong[:, columns]
        want, got = pair.expected[:, columns][wrong], pair.observed[:, columns][wrong]
        never = got == blank
        nans = ((want & 0x7FFF) > 0x7F80) & ((got & 0x7FFF) > 0x7F80)
        if never.any():
            yield f"{part}: never written"
        if nans.any():
            yield f"{part}: another NaN"
        # Under the pattern ZERO an element that was never written looks like one that was written as 0.
        if (~nans & ~never).any() or (never.any() and poison == ZERO.name):
            yield f"{part}: another value"


def _of_records(case: WriteCase, pair: Pair, poison: str) -> Iterator[str]:
    """Yield the kinds of differences in the records of a cache."""
    blank = case.blank(POISON_OF[poison])
    wrong = (pair.expected != pair.observed).any(axis=-1)
    none_due = (pair.expected == blank).all(axis=-1)
    none_there = (pair.observed == blank).all(axis=-1)
    for way, where in (
        ("record never written", wrong & none_there & ~none_due),
        ("record written that no slot names", wrong & none_due),
        ("record of other bytes", wrong & ~none_due & ~none_there),
    ):
        if np.any(where):
            yield way


def _said(error: Differs) -> frozenset[str]:
    """Return the clauses that a message begins its lines with, else the message without its numbers."""
    text = _lines(error)
    return frozenset(CLAUSES.findall(text)) or frozenset({_without_numbers(text.strip().split("\n")[0])})


def _lines(error: Exception) -> str:
    """Return the lines below the heading, which names the target."""
    return (error.text if isinstance(error, Differs) else str(error)).partition("\n")[2]


def _raised(error: Exception) -> str:
    """Return the first line of what the target raised."""
    cause = error.__cause__
    text = str(cause) if isinstance(cause, TargetError) or not isinstance(error, Crashed) else _lines(error)
    return (text or repr(cause)).strip().split("\n")[0]


def _without_numbers(text: str) -> str:
    """Return a message that is alike for cases of other sizes: no numbers, and lists of numbers as one."""
    return re.sub(r"#(?:[,\s]+#)+", "#", NUMBERS.sub("#", text))
