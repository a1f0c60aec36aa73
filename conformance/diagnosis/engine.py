"""The one engine that looks for known faults, once for each failure, whatever the operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from conformance.attend_calls import LoopSighting
from conformance.diagnosis import loop
from conformance.diagnosis.budget import SEARCHES, NotLookedInto
from conformance.diagnosis.candidates import explain_alike
from conformance.diagnosis.explanation import Diagnosis, Explanation, fault_lines
from conformance.diagnosis.gather import explain_call
from conformance.diagnosis.merge import explain_merge
from conformance.diagnosis.write import diagnose_write
from conformance.judge import GatherSighting
from conformance.merges import MergeSighting
from conformance.sighting import Alike
from conformance.verdict import Differs
from conformance.writes import WriteSighting

_known: WeakKeyDictionary[Differs, Diagnosis] = WeakKeyDictionary()


def diagnose(error: BaseException | None) -> Diagnosis:
    """Return what known faults explain a failure; an empty diagnosis of what is no difference, or shows too little.

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
    try:
        with SEARCHES.timed():
            return SEARCH[type(sighting)](sighting)
    except NotLookedInto as reason:
        return Diagnosis(lines=(str(reason),))
    except Exception as error:  # a fault's model that fails must not take the verdict along
        return Diagnosis(lines=(f"the search for faults failed: {type(error).__name__}: {error}",))


def _by(explain: Callable[[Any], Sequence[Explanation]]) -> Callable[[Any], Diagnosis]:
    def search(sighting: Any) -> Diagnosis:
        found = explain(sighting)
        return Diagnosis(tuple(found), tuple(fault_lines(found)))

    return search


SEARCH: dict[type, Callable[[Any], Diagnosis]] = {
    Alike: _by(explain_alike),
    GatherSighting: _by(explain_call),
    LoopSighting: _by(loop.explain_call),
    MergeSighting: _by(lambda sighting: explain_merge(sighting.cases, sighting.seen)),
    WriteSighting: diagnose_write,
}
"""By type of sighting, the search."""
