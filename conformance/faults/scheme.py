"""Let the registry of targets find fault:NAME. Importing this module is enough."""

from __future__ import annotations

from conformance.faults.defects import find_defect
from conformance.targets.base import Target
from conformance.targets.registry import WITH_A_PARAMETER


def named(name: str) -> Target:
    """Return the target that has a fault of the catalogue. Raise KeyError for an unknown fault."""
    return find_defect(name).named_target()


WITH_A_PARAMETER["fault"] = named
