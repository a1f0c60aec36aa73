"""Probe whether an operator refuses this device, with a small legal call."""

from __future__ import annotations

import re

from conformance.generation import Geometry, realize
from conformance.generics import LAYOUTS, over
from conformance.judge import Judge
from conformance.observe import TargetError, observe
from conformance.targets.base import GATHERS, WRITES, Target
from conformance.verdict import Crashed
from conformance.write_generation import Slots
from conformance.write_generation import realize as realize_write
from conformance.writes import observe_write
from fixtures.placement import POISONS

_OF_DEVICES = re.compile(r"\bSM ?_?\d{2,3}|compute capability|no kernel image", re.IGNORECASE)


def refusal_of_device(target: Target, capability: str) -> str | None:
    """Return the operator's message if it refuses a legal call because of the device, else None."""
    try:
        _call(target, capability)
    except (TargetError, Crashed) as error:
        return next((line.strip() for line in str(error).splitlines() if _OF_DEVICES.search(line)), None)
    return None


def _call(target: Target, capability: str) -> None:
    for name, (bare, _, _) in GATHERS.items():
        if capability.startswith(bare):
            case = realize(Geometry(16, (3,), None), seed=1)
            observe(target, over(case, LAYOUTS[name]), POISONS[0])
            return
    for form, needed in WRITES.items():
        if capability == needed:
            observe_write(Judge(target), realize_write(Slots(2), 1, form), POISONS[0])
            return
