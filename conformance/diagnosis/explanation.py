"""What is said of a difference: which known faults, one or two at a time, predict what was observed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from conformance.explain import few

SENTENCES, NAMES = 6, 12
"""How many explanations are told with a sentence, and how many more by name."""

UNEXPLAINED = "no known fault explains it"


class Named(Protocol):
    """A fault of a catalogue."""

    @property
    def name(self) -> str:
        """By which it is found."""

    @property
    def sentence(self) -> str:
        """What it does."""


@dataclass(frozen=True)
class Explanation:
    """A fault, or two at a time, and how many rows it predicts bit for bit; where none are counted, it predicts all."""

    faults: tuple[Named, ...]
    rows: int = 0
    of: int = 0

    @property
    def exact(self) -> bool:
        """Whether it predicts all that was observed."""
        return self.rows == self.of

    @property
    def name(self) -> str:
        """The faults' names."""
        return " + ".join(fault.name for fault in self.faults)

    @property
    def sentence(self) -> str:
        """What the faults do."""
        return ", and ".join(fault.sentence for fault in self.faults)


@dataclass(frozen=True)
class Diagnosis:
    """What a search found: explanations, and the lines that are said of them."""

    explanations: tuple[Explanation, ...] = ()
    lines: tuple[str, ...] = ()

    @property
    def explained_by(self) -> tuple[str, ...]:
        """Return the names of the faults, or pairs of faults, that predict exactly what was observed."""
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
