"""Define a fault: a defect of a gather whose rows a model predicts."""

from __future__ import annotations

from dataclasses import dataclass, field

from conformance.faults.steps import Gather
from reference.records import FP8_DS_MLA, NVFP4_DS_MLA, RecordLayout

NVFP4 = frozenset({NVFP4_DS_MLA.name})
FP8 = frozenset({FP8_DS_MLA.name})
AUTO, TENSOR = frozenset({"auto"}), frozenset({"fp8"})


@dataclass(frozen=True)
class Fault:
    """Describe a fault: its name, the mistake in a sentence, the clause that it breaks, and the faulty gather.

    `source` is the public report of the fault, or empty. `layouts` names the record layouts that can have
    it; empty means all.
    """

    name: str
    sentence: str
    clause: str
    gather: Gather = field(compare=False)
    source: str = ""
    layouts: frozenset[str] = frozenset()

    def concerns(self, layout: RecordLayout) -> bool:
        """Return whether a gather of records with this layout can have the fault."""
        return not self.layouts or layout.name in self.layouts
