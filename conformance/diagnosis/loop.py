"""Find the known faults of a loop over chunks from its result.

A loop that has a fault, and computes as its target says, is as far from what the fault is without rounding as
ATTEND-2's bounds allow: these grow with the magnitudes of scores and values alone, which a fault in the order, the
number or the merging of chunks leaves as they are. The fault's model, in binary32, is within the bounds of binary32.
The two are therefore no further apart than both bounds together. A fault that makes numbers larger, such as a
softmax_scale left out, may differ by more between two loops, and is then not named; that a fault is named which the
loop does not have, takes two that are closer together than the gate can see.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.attend_calls import Bounds, LoopSighting, bounds_of
from conformance.close import must_be_close
from conformance.context_generation import Batch
from conformance.diagnosis.candidates import defects_of, explain_by
from conformance.diagnosis.explanation import Explanation
from conformance.judge import Judge
from conformance.one_softmax import Float64s, Whole
from conformance.sighting import Make
from conformance.targets.base import ATTEND, Target
from conformance.verdict import Differs
from reference.merging import Partial


def explain_loop(sighting: LoopSighting) -> list[Explanation]:
    """Return the known faults whose results are what the last call gave, within the target's bounds and a model's."""
    batch, _ = sighting.asked[-1]
    of_binary32 = bounds_of(batch, sighting.whole, "binary32")
    return explain_by(defects_of(ATTEND, "context"), partial(_agrees, sighting, of_binary32))


def _agrees(sighting: LoopSighting, of_binary32: Bounds, make: Make) -> bool:
    target = make()
    results = [_result(target, *each) for each in sighting.asked]
    pairs = zip(sighting.found, results[-1], sighting.bounds, of_binary32, strict=True)
    alike = all(_near(observed, predicted, mine + its) for observed, predicted, mine, its in pairs)
    return alike and _is_seen(target, sighting.asked[-1][0], sighting.whole, results[-1], of_binary32)


def _result(target: Target, batch: Batch, softmax_scale: float) -> Partial:
    return Partial(*target.compute_prefill_context(**batch.arguments(softmax_scale)))


def _near(observed: npt.NDArray[Any], predicted: npt.NDArray[Any], bound: Float64s) -> bool:
    if observed.shape != predicted.shape:
        return False
    with np.errstate(invalid="ignore"):
        near = np.abs(observed.astype(np.float64) - predicted) <= bound
    same: npt.NDArray[np.bool_] = (observed == predicted) | (np.isnan(observed) & np.isnan(predicted))
    return bool((near | same).all())


def _is_seen(target: Target, batch: Batch, whole: Whole, result: Partial, bounds: Bounds) -> bool:
    """Return whether the gate sees the fault in this batch. A fault that changes nothing here explains nothing."""
    try:
        must_be_close(Judge(target), batch, whole, result, bounds)
    except Differs:
        return True
    return False
