"""What is said of a difference: which known faults, one or two at a time, predict what was observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


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


class NotLookedInto(Exception):
    """Why it is not known whether a known fault explains a difference."""
