"""Ask the targets of known faults what a target was asked, and find those that do the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from conformance.diagnosis import budget
from conformance.diagnosis.budget import NotLookedInto, deadline, is_over
from conformance.diagnosis.explanation import Explanation
from conformance.faults.defect import Defect
from conformance.faults.defects import DEFECTS
from conformance.sighting import Agrees, Alike, Make


def defects_of(capability: str, *kinds: str) -> Iterator[Defect]:
    """Yield those of some kinds that are about a capability."""
    return (each for each in DEFECTS.values() if each.kind in kinds and capability in each.target().capabilities)


def explain_alike(sighting: Alike) -> list[Explanation]:
    """Return the known faults whose targets do what was seen. Raise NotLookedInto as explain_by does."""
    return explain_by(defects_of(sighting.capability, *sighting.kinds), sighting.agrees)


def explain_by(defects: Iterable[Defect], agrees: Agrees) -> list[Explanation]:
    """Return the faults that agree, as far as budget.SECONDS reach.

    Raises:
        NotLookedInto: none did by then, and some are left.
    """
    return fitting((((each,), each.target) for each in defects), agrees, deadline())


def fitting(candidates: Iterable[tuple[tuple[Defect, ...], Make]], agrees: Agrees, until: float) -> list[Explanation]:
    """Return the candidates that agree, as far as the time reaches. Raise NotLookedInto as explain_by does."""
    found: list[Explanation] = []
    for tried, (faults, make) in enumerate(candidates):
        if is_over(until):
            if not found:
                raise NotLookedInto(
                    f"no known fault explains it, of the {tried:,} that {budget.SECONDS:g} seconds sufficed for"
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
