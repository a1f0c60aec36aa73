"""A fault: a defect of a gather that predicts what is written."""

from __future__ import annotations

from dataclasses import dataclass, field

from conformance.faults.steps import Gather
from reference.records import FP8_DS_MLA, NVFP4_DS_MLA, RecordLayout

NVFP4 = frozenset({NVFP4_DS_MLA.name})
FP8 = frozenset({FP8_DS_MLA.name})
AUTO, TENSOR = frozenset({"auto"}), frozenset({"fp8"})


@dataclass(frozen=True)
class Fault:
    """A defect: its name, what it does, the clause it breaks, and the gather that has it.

    `source` is the public report that it comes from, where there is one. `layouts` names the records that it is about;
    without any, it is about all.
    """

    name: str
    sentence: str
    clause: str
    gather: Gather = field(compare=False)
    source: str = ""
    layouts: frozenset[str] = frozenset()

    def concerns(self, layout: RecordLayout) -> bool:
        """Whether a gather of such records can have it."""
        return not self.layouts or layout.name in self.layouts
