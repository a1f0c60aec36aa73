"""Find the known faults of a merge from what it wrote.

A merge that has a fault is bound by MERGE like any other in all that the fault does not touch, so that what one writes
is known up to MERGE's bounds alone: with the LSEs and partials that it reads and the shares that it gives them, its
numbers before they are stored are within MERGE-1's bound of the fault's model, and its LSE within MERGE-2's. Stores are
monotonic, so that the model, run with all numbers a bound too low and run with all a bound too high, leaves the ends of
what such a merge may leave; where nothing is rounded (one share alone, a NaN, what is not written), both ends are one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.diagnosis.budget import NotLookedInto, deadline
from conformance.diagnosis.candidates import fitting
from conformance.diagnosis.explanation import Explanation
from conformance.faults.defect import Defect
from conformance.faults.merges import DEFECTS
from conformance.faults.stepwise import Stepwise
from conformance.judge import Judge
from conformance.merges import MergeObservation, MergeSighting, call_merge, compare, look_at_merge
from conformance.sighting import Make
from conformance.verdict import Differs
from fixtures.merge_cases import MergeCase, is_huge, place_merge
from fixtures.placement import Poison
from reference.merging import numbers

MOST, MOST_IN_PAIRS = 1 << 21, 1 << 15
"""Up to how many elements of output one fault is looked for, and pairs of faults, of which there are a thousand."""

Candidates = Iterator[tuple[tuple[Defect, ...], Make]]


def explain_merge(sighting: MergeSighting) -> list[Explanation]:
    """Return the known faults that may leave what was seen or, if there are none, pairs of faults in different steps.

    Raises:
        NotLookedInto: the call is too large, or the time is over before all faults were tried and none was found.
    """
    cases, seen = sighting.cases, sighting.seen
    size = cases[-1].prefix_output.size
    if is_huge(cases[0]) or size > MOST:
        raise NotLookedInto("known faults are not looked for in calls of this size")
    until, agrees = deadline(), partial(_may_leave, cases, seen)
    found = fitting((((each,), each.target) for each in DEFECTS), agrees, until)
    return found or (fitting(_pairs(), agrees, until) if size <= MOST_IN_PAIRS else [])


def _pairs() -> Candidates:
    """Yield two faults at a time that replace no step in common."""
    steps = {each: _replaced(type(each.target())) for each in DEFECTS}
    for first, second in combinations(DEFECTS, 2):
        if not steps[first] & steps[second]:
            kinds = (type(first.target()), type(second.target()))
            yield (first, second), type("Both", kinds, {})


def _replaced(kind: type) -> set[str]:
    bases = kind.__mro__[: kind.__mro__.index(Stepwise)]
    return {name for base in bases for name, value in vars(base).items() if callable(value)}


def _may_leave(cases: Sequence[MergeCase], seen: MergeObservation, make: Make) -> bool:
    low, high = (_left(make, cases, seen.around.poison, off) for off in (-1, 1))
    for end in (low, high):
        if (end.around.strays, end.around.changed) != (seen.around.strays, seen.around.changed):
            return False
    if not _between(low.output, seen.output, high.output):
        return False
    if seen.lse is not None and not _between(low.lse, seen.lse, high.lse):
        return False
    return _is_seen(make, cases, seen.around.poison)


def _is_seen(make: Make, cases: Sequence[MergeCase], poison: Poison) -> bool:
    """Return whether the gate sees the fault in this call. A fault that changes nothing here explains nothing."""
    try:
        compare(Judge(make()), cases[-1], _left(make, cases, poison, 0))
    except Differs:
        return True
    return False


def _left(make: Make, cases: Sequence[MergeCase], poison: Poison, off: int) -> MergeObservation:
    """Return what a fault's model leaves with all its numbers `off` bounds off. Its exceptions are passed on."""
    target = make()
    assert isinstance(target, Stepwise)
    target.off, memory = off, target.memory
    regions = {name: memory.place(placement) for name, placement in place_merge(cases[0], poison).items()}
    for case in cases:
        for name, placement in place_merge(case, poison).items():
            if name not in ("output", "output_lse"):
                memory.write(regions[name], placement.data)
                regions[name].placement = placement
        call_merge(target, case, regions)
    return look_at_merge(target, cases[-1], regions, poison)


def _between(low: Any, found: Any, high: Any) -> bool:
    ends, middle = np.sort([numbers(low), numbers(high)], axis=0), numbers(found)  # NaN is put last
    nan = np.isnan(numbers(low)) & np.isnan(numbers(high)) & np.isnan(middle)
    within: npt.NDArray[np.bool_] = nan | ((ends[0] <= middle) & (middle <= ends[1]))
    return bool(within.all())
