"""What a judge saw, put as a question: would another target have done the same?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from conformance.targets.base import Target

Make = Callable[[], Target]
"""A target, new, since some remember what they were asked before."""

Agrees = Callable[[Make], bool]
"""Whether such targets do all that was observed."""


@dataclass(frozen=True)
class Alike:
    """A difference of a target that claims a capability; `agrees` tells whether another one does the same.

    `kinds` are those of conformance.faults.defect.PARTS that a fault of such a target may be of.
    """

    capability: str
    kinds: tuple[str, ...]
    agrees: Agrees
