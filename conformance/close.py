"""ATTEND-2 and ATTEND-3: a result against one softmax over the whole context."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from conformance.context_generation import Batch
from conformance.judge import Judge
from conformance.one_softmax import Float64s, Whole
from conformance.verdict import Differs
from reference.merging import Partial, Reals


def must_be_close(
    judge: Judge,
    batch: Batch,
    whole: Whole,
    found: Partial,
    bounds: tuple[Float64s, Float64s],
    sighting: object = None,
) -> None:
    """Raise Differs for an element beyond its bound, or for a token without context that has not exactly 0 and -inf."""
    parts = (("output", whole.output, found.output, bounds[0]), ("LSE", whole.lse, found.lse, bounds[1]))
    for name, expected, got, bound in parts:
        if got.shape != expected.shape:
            said = f"{name} has shape {got.shape}, not {expected.shape}"
            raise Differs(judge.text("differs", [said]), [repr(batch.case)], sighting=sighting)
        without = np.isneginf(whole.lse)
        exact = np.broadcast_to(without.T[..., None], expected.shape) if name == "output" else without
        with np.errstate(invalid="ignore"):
            near = np.abs(got.astype(np.float64) - expected) <= bound  # never for NaN
        wrong = ~np.where(exact, got == expected, near)
        if wrong.any():
            lines = _lines(batch, name, expected, got, bound, wrong)
            raise Differs(judge.text("differs", lines), [repr(batch.case)], sighting=sighting)
        judge.count.add(0, expected.size, cases=0)


def _lines(
    batch: Batch, name: str, expected: Reals, got: Reals, bound: Reals, wrong: npt.NDArray[np.bool_]
) -> list[str]:
    at = tuple(int(place) for place in np.argwhere(wrong)[0])
    token = at[0] if name == "output" else at[1]
    request = int(np.searchsorted(batch.case.query_start_loc, token, side="right")) - 1
    allowed = "exactly" if np.isneginf(expected[at]) or not bound[at] else f"within {bound[at]:.3g}"
    context = batch.case.context_lens[request]
    return [
        f"{name}{[*at]} = query token {token} of request {request}, context {context}: "
        f"expected {expected[at]:.9g} {allowed}, got {got[at]:.9g}",
        f"{wrong.sum():,} of {wrong.size:,} elements are beyond their bounds",
    ]
