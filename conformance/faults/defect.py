"""Define a defect: one mistake of an implementation, and a target that has only this mistake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from conformance.targets.base import Target

PARTS = {
    "gather": ("calls", "geometry", "memory", "random", "read", "schema", "shard"),
    "twin": ("twin", "generic"),
    "write": ("write", "write_calls"),
    "plan": ("plan", "metadata"),
    "merge": ("merge", "merge_calls"),
    "context": ("attend", "scenarios"),
    "serve": ("serve",),
    "device": ("device",),
}
"""Modules of the gate that judge a defect, by its kind."""


@dataclass(frozen=True)
class Defect:
    """Describe a defect: its name, the mistake in a sentence, the clause that it breaks, and a target that has it.

    `kind` is a key of PARTS. `source` is the public report of the defect, or empty.
    """

    name: str
    sentence: str
    clause: str
    kind: str
    target: Callable[[], Target]
    source: str = ""

    def named_target(self) -> Target:
        """Return a new target named "fault:NAME". `slow` is False: only the largest cases show some faults."""
        target = self.target()
        target.name = f"fault:{self.name}"
        target.slow = False  # some faults show in the largest cases alone
        return target
