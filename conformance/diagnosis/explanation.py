"""Hold the known faults, one or two at a time, that predict a difference, and tell them in lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from conformance.explain import few

SENTENCES, NAMES = 6, 12
"""The number of explanations that are told with a sentence, and of those that follow by name."""

UNEXPLAINED = "no known fault explains it"


class Named(Protocol):
    """Describe a fault of a catalogue."""

    @property
    def name(self) -> str:
        """The name by which a fault is found."""

    @property
    def sentence(self) -> str:
        """The sentence that says what the fault does."""


@dataclass(frozen=True)
class Explanation:
    """Hold one fault, or two at a time, and the number of rows, of all `of`, that it predicts bit for bit.

    Without a count, 0 of 0, it predicts all that was observed.
    """

    faults: tuple[Named, ...]
    rows: int = 0
    of: int = 0

    @property
    def exact(self) -> bool:
        """Whether everything that was observed is predicted."""
        return self.rows == self.of

    @property
    def name(self) -> str:
        """The names of the faults."""
        return " + ".join(fault.name for fault in self.faults)

    @property
    def sentence(self) -> str:
        """The sentences of the faults."""
        return ", and ".join(fault.sentence for fault in self.faults)


@dataclass(frozen=True)
class Diagnosis:
    """Hold the explanations that a search found, and the lines that tell them."""

    explanations: tuple[Explanation, ...] = ()
    lines: tuple[str, ...] = ()

    @property
    def explained_by(self) -> tuple[str, ...]:
        """The names of the faults, or pairs of faults, that predict exactly what was observed."""
        return tuple(each.name for each in self.explanations if each.exact)


def fault_lines(explanations: Sequence[Explanation], unexplained: str = UNEXPLAINED) -> list[str]:
    """Return a line for each fault that predicts all that was observed or, if none does, most of dst's rows."""
    named = [
        f"{_how_far(each)}: {each.sentence} ({'faults' if len(each.faults) > 1 else 'fault'} {each.name})"
        for each in explanations[:SENTENCES]
    ]
    more = [each.name for each in explanations[SENTENCES:]]
    if more:
        named.append(f"and by {few(more[:NAMES], len(more))}")
    return named or [unexplained]


def _how_far(explanation: Explanation) -> str:
    if explanation.exact:
        return "explained exactly by"
    share = 100 * explanation.rows // explanation.of
    return f"no known fault explains it all; {share} % of the {explanation.of:,} rows are explained by"
