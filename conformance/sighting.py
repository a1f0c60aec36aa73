"""Put what a judge saw as a question: would another target have done the same?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from conformance.targets.base import Target

Make = Callable[[], Target]
"""Makes a new target, since some remember earlier calls."""

Agrees = Callable[[Make], bool]
"""Tells whether such targets do all that was observed."""


@dataclass(frozen=True)
class Alike:
    """Hold a difference of a target that claims a capability. `agrees` tells whether another target does the same.

    `kinds` are those of conformance.faults.defect.PARTS that a fault of such a target may be of.
    """

    capability: str
    kinds: tuple[str, ...]
    agrees: Agrees
