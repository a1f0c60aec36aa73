"""Hold the five words of a verdict, the exceptions that carry them, counts, and evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from conformance.patience import PATIENCE
from fixtures.stored_rows import sparse_rows

CONFORMS, DIFFERS, UNSUPPORTED, NOT_JUDGED, CRASHED = "conforms", "differs", "unsupported", "not judged", "crashed"

Array = npt.NDArray[Any]


class Pair(NamedTuple):
    """An array as expected and as observed, alike in shape, and where it is wrong; None: wherever bits differ."""

    expected: Array
    observed: Array
    wrong: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Evidence:
    """Arrays by name, the poison that they were observed under, and what was written around them."""

    poison: str
    arrays: Mapping[str, Pair]
    around: frozenset[str] = frozenset()

    def kept(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return what fixtures.store.Fixture keeps as expected and as observed."""
        expected: dict[str, Array] = {}
        observed: dict[str, Array] = {}
        for name, pair in self.arrays.items():
            one, other = sparse_rows(pair.expected, pair.observed, name, pair.wrong)
            expected |= one
            observed |= other
        return expected, observed


class Differs(AssertionError):
    """Say that a target did not do what SPEC.md says.

    `evidence` is what a fixture keeps. `sighting` is what was seen, for conformance.diagnosis to look into. Printing a
    difference searches for nothing.
    """

    def __init__(
        self,
        text: str | Callable[[], str],
        rest: Sequence[str] = (),
        evidence: Evidence | None = None,
        sighting: object = None,
    ) -> None:
        """Keep what a person reads, `text` and then the lines of `rest`.

        `text` may be a function, which is called when somebody reads it: shrinking passes through many differences.
        """
        super().__init__(*[text] if isinstance(text, str) else [])
        self._text, self.rest = text, tuple(rest)
        self.evidence, self.sighting = evidence, sighting

    @property
    def text(self) -> str:
        """The heading and the lines on what differs."""
        if not isinstance(self._text, str):
            self._text = self._text()
        return self._text

    def __str__(self) -> str:
        """Return the text and the rest."""
        return "\n  ".join([self.text, *self.rest])


class Crashed(AssertionError):
    """Say that a target raised on a legal call."""


class Unsupported(Exception):
    """Say that a target does not claim the capability that a case needs."""


class NotJudged(Exception):
    """Say that this machine cannot run the target, or not on this case."""


@dataclass
class Count:
    """Count the cases, rows and elements that were compared."""

    cases: int = 0
    rows: int = 0
    elements: int = 0

    def add(self, rows: int, elements: int, cases: int = 1) -> None:
        """Add what some more cases compared."""
        PATIENCE.again()
        self.cases += cases
        self.rows += rows
        self.elements += elements
