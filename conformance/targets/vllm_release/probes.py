"""Whether an operator refuses this device: a small legal call, and what is said to it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from conformance import pending
from conformance.raised import told
from conformance.shortage import Shortage
from conformance.targets.base import GATHERS, LAYOUTS, WRITES, Target
from fixtures.cases import GatherCase
from fixtures.placement import POISONS, Placement, others, place
from fixtures.write_cases import WriteCase, place_write

_OF_DEVICES = re.compile(r"\bSM ?_?\d{2,3}|compute capability|no kernel image", re.IGNORECASE)


def refusal_of_device(target: Target, capability: str) -> str | None:
    """Return the operator's own words, if it refuses a legal call because of the device; None whatever else it does.

    Raises:
        MemoryError: the call runs out of memory.
    """
    call = _call(capability)
    said = _said(target, *call) if call else ""
    return next((line.strip() for line in said.splitlines() if _OF_DEVICES.search(line)), None)


def _said(target: Target, operator: str, placements: dict[str, Placement], more: dict[str, Any]) -> str:
    """Return what was raised, or left pending, by a call of an operator; "" if nothing was."""
    regions = {name: target.memory.place(placement) for name, placement in placements.items()}

    def call() -> None:
        getattr(target, operator)(**{name: region.view for name, region in regions.items()}, **more)
        target.memory.synchronize()

    try:
        return pending.call_and_take(target.memory, call) or ""
    except (KeyboardInterrupt, Shortage):
        raise
    except BaseException as error:  # SystemExit and pytest's own skip and exit are no way out
        return told(error)


def _call(capability: str) -> tuple[str, dict[str, Placement], dict[str, Any]] | None:
    """Return an operator, the arrays of a legal call, and its other arguments; None for another capability."""
    for name, (bare, _, operator) in GATHERS.items():
        if capability.startswith(bare):
            case = _gather(name)
            return operator, place(case, POISONS[0]), others(case)
    for form, needed in WRITES.items():
        if capability == needed:
            return "concat_and_cache_mla", place_write(_write(form), POISONS[0]), {"kv_cache_dtype": form}
    return None


def _gather(name: str) -> GatherCase:
    """Return a gather of three records of zeros."""
    layout = LAYOUTS[name]
    records = np.zeros((1, 16, layout.nbytes), np.uint8)
    return GatherCase(records, np.zeros((1, 1), np.int32), np.zeros(1, np.int32), 3, layout=layout)


def _write(form: str) -> WriteCase:
    """Return a write of two tokens of ones."""
    ones = np.full((2, 576), 0x3F80, np.uint16)
    return WriteCase(ones[:, :512], ones[:, 512:], np.arange(2, dtype=np.int64), 1, 16, form)
