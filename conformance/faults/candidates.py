"""Which known faults do as a target did: the catalogue's targets, asked the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from conformance.faults.defect import Defect
from conformance.faults.explanation import Explanation, NotLookedInto
from conformance.targets.base import Target

SECONDS = 3.0
"""How long one difference is looked into."""

Make = Callable[[], Target]
"""A fault's target, new, since some remember what they were asked before."""

Agrees = Callable[[Make], bool]
"""Whether such targets do all that was observed."""


def defects_of(capability: str, *kinds: str) -> Iterator[Defect]:
    """Those of some kinds that are about a capability."""
    from conformance.faults.defects import DEFECTS  # whose families need the judges, who need this module

    return (each for each in DEFECTS.values() if each.kind in kinds and capability in each.target().capabilities)


def explain_by(defects: Iterable[Defect], agrees: Agrees) -> list[Explanation]:
    """The faults that agree, as far as SECONDS reach; NotLookedInto if none did by then and some are left."""
    return fitting((((each,), each.target) for each in defects), agrees, deadline())


def deadline() -> float:
    """When a search that begins now is to be over, on the clock time.monotonic."""
    return time.monotonic() + SECONDS


def fitting(candidates: Iterable[tuple[tuple[Defect, ...], Make]], agrees: Agrees, until: float) -> list[Explanation]:
    """The candidates that agree, as far as the time reaches; NotLookedInto if none did by then and some are left."""
    found: list[Explanation] = []
    for tried, (faults, make) in enumerate(candidates):
        if time.monotonic() > until:
            if not found:
                raise NotLookedInto(
                    f"no known fault explains it, of the {tried:,} that {SECONDS:g} seconds sufficed for"
                )
            break
        if _agrees(agrees, make):
            found.append(Explanation(faults))
    return found


def _agrees(agrees: Agrees, make: Make) -> bool:
    try:
        return agrees(make)
    except Exception:  # a fault that raises, or leaves what cannot be read, predicts nothing
        return False
