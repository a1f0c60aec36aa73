"""Collect all defects by name."""

from __future__ import annotations

from difflib import get_close_matches

from conformance.faults import (
    devices,
    gather_calls,
    gathers,
    loops,
    merges,
    metadata,
    plans,
    servers,
    serving,
    shard_metadata,
    startups,
    twins,
    workspaces,
    writers,
)
from conformance.faults.defect import Defect

FAMILIES: tuple[tuple[Defect, ...], ...] = (
    gathers.DEFECTS,
    gather_calls.DEFECTS,
    twins.DEFECTS,
    merges.DEFECTS,
    loops.DEFECTS,
    serving.DEFECTS,
    devices.DEFECTS,
    plans.DEFECTS,
    metadata.DEFECTS,
    shard_metadata.DEFECTS,
    workspaces.DEFECTS,
    servers.DEFECTS,
    startups.DEFECTS,
    writers.DEFECTS,
)

DEFECTS: dict[str, Defect] = {defect.name: defect for family in FAMILIES for defect in family}


def find_defect(name: str) -> Defect:
    """Return the defect of a name; raise KeyError with similar names if it is unknown."""
    if name not in DEFECTS:
        near = get_close_matches(name, DEFECTS, 5) or list(DEFECTS)[:5]
        raise KeyError(f"there is no fault {name} among {len(DEFECTS)}; some are {', '.join(near)}")
    return DEFECTS[name]
