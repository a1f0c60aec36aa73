"""A defect: one thing that an implementation gets wrong, as a target that has it and nothing else wrong."""

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
"""The modules of the gate that judge a kind of defect."""


@dataclass(frozen=True)
class Defect:
    """A defect by name: what it does in a sentence, the clause that it breaks, and a target that has it.

    `kind` is one of PARTS; `source` is the public report that it comes from, where there is one.
    """

    name: str
    sentence: str
    clause: str
    kind: str
    target: Callable[[], Target]
    source: str = ""

    def named_target(self) -> Target:
        """The target under the name by which the command line finds it."""
        target = self.target()
        target.name = f"fault:{self.name}"
        target.slow = False  # some faults show in the largest cases alone
        return target
