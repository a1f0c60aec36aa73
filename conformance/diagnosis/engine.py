"""Look for the known faults of a failure: once for each failure, by one engine for all operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from conformance.attend_calls import LoopSighting
from conformance.diagnosis.budget import SEARCHES, NotLookedInto
from conformance.diagnosis.candidates import explain_alike
from conformance.diagnosis.explanation import UNEXPLAINED, Diagnosis, Explanation, fault_lines
from conformance.diagnosis.gather import explain_call
from conformance.diagnosis.loop import explain_loop
from conformance.diagnosis.merge import explain_merge
from conformance.diagnosis.write import explain_write
from conformance.diagnosis.write_recipe import recipe_lines
from conformance.judge import GatherSighting
from conformance.merges import MergeSighting
from conformance.sighting import Alike
from conformance.verdict import Differs
from conformance.writes import WriteSighting

_known: WeakKeyDictionary[Differs, Diagnosis] = WeakKeyDictionary()


def diagnose(error: BaseException | None) -> Diagnosis:
    """Return the known faults that explain a failure. The diagnosis is empty without a difference or a sighting.

    Each failure is looked into once.
    """
    if not isinstance(error, Differs) or error.sighting is None:
        return Diagnosis()
    if error not in _known:
        _known[error] = look_into(error.sighting)
    return _known[error]


def in_full(error: BaseException) -> str:
    """Return a failure as a report tells it: what differs, which known faults explain it, and the rest."""
    if not isinstance(error, Differs):
        return str(error)
    return "\n  ".join([error.text, *diagnose(error).lines, *error.rest])


def look_into(sighting: object) -> Diagnosis:
    """Return which known faults do what was seen, or a line on why that is not known: nothing is raised."""
    lines: list[str] = []
    try:
        with SEARCHES.timed():
            search = SEARCH[type(sighting)]
            lines += search.remarks(sighting)
            found = search.explain(sighting)
            return Diagnosis(tuple(found), (*lines, *fault_lines(found, search.unexplained)))
    except NotLookedInto as reason:
        return Diagnosis(lines=(*lines, str(reason)))
    except Exception as error:  # a fault's model that fails must not take the verdict along
        return Diagnosis(lines=(*lines, f"the search for faults failed: {type(error).__name__}: {error}"))


@dataclass(frozen=True)
class Search:
    """Hold the search for one type of sighting: its faults, and the remarks that come before them."""

    explain: Callable[[Any], Sequence[Explanation]]
    remarks: Callable[[Any], Sequence[str]] = lambda sighting: ()
    unexplained: str = UNEXPLAINED
    """The line for a failure that no fault explains."""


SEARCH: dict[type, Search] = {
    Alike: Search(explain_alike),
    GatherSighting: Search(explain_call),
    LoopSighting: Search(explain_loop),
    MergeSighting: Search(explain_merge),
    WriteSighting: Search(explain_write, recipe_lines, f"{UNEXPLAINED}, of those that were tried"),
}
"""By type of sighting, the search."""
