"""Which known fault a target has, from what it wrote."""

from __future__ import annotations

import numpy as np

from conformance.faults.catalogue import FAULTS, Fault
from conformance.faults.steps import Call, in_memory, read
from conformance.observe import Observation
from fixtures.cases import GatherCase
from reference.records import NVFP4_DS_MLA
from reference.scalars import Bf16Bits


def explain(case: GatherCase, seen: Observation) -> list[Fault]:
    """The known faults whose dst equals the observed one bit for bit."""
    call = in_memory(case, seen.poison)
    # How records are read wrongly is known of one layout alone.
    known = [fault for fault in FAULTS if case.layout == NVFP4_DS_MLA or fault.gather.read is read]
    return [fault for fault in known if _predicts(fault, call, seen.dst[: case.num_rows])]


def _predicts(fault: Fault, call: Call, observed: Bf16Bits) -> bool:
    try:
        return bool(np.array_equal(fault.gather(call), observed))
    except IndexError:  # it would read outside of the allocations: no prediction
        return False
