"""The verdict on one call of merge_attn_states: numbers within bounds, and every byte that was not to change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.explain import outside_lines
from conformance.explain_merge import lse_lines, output_lines
from conformance.judge import Judge
from conformance.memory import Region
from conformance.observe import LeftPending, Observation, TargetError, around, invoke, settle
from conformance.roundings import BINARIES
from conformance.targets.base import MERGE, Target
from conformance.verdict import Differs, Evidence, NotJudged, Pair
from fixtures.merge_cases import MergeCase, is_huge, place_merge
from fixtures.placement import POISONS, ZERO, Placement, Poison
from reference.merging import merge_attn_states, numbers, with_weight

Array = npt.NDArray[Any]
Reals = npt.NDArray[np.float64]

U = 2.0**-24
"""Half the distance between 1 and the next binary32 (SPEC.md MERGE)."""


@dataclass(frozen=True)
class Interval:
    """What a result may be, from `low` to `high`, both included; a NaN is never within."""

    low: Reals
    high: Reals

    def misses(self, found: Reals) -> npt.NDArray[np.bool_]:
        """Where a result is outside. A zero of either sign is a zero."""
        return ~((self.low <= found) & (found <= self.high))


def merged(case: MergeCase) -> dict[str, Array]:
    """Return the golden model's output [T, H, D] and lse [H, T], rounded to the types they have."""
    output = np.zeros(case.shape, case.dtype)
    lse = np.zeros(case.shape_of("output_lse"), np.float32)
    prefix, suffix = (
        [np.ascontiguousarray(array) for array in partial]
        for partial in ((case.prefix_output, case.prefix_lse), (case.suffix_output, case.suffix_lse))
    )
    merge_attn_states(output, prefix[0], prefix[1], suffix[0], suffix[1], lse)
    return {"output": output, "lse": lse}


def expected_output(case: MergeCase) -> Interval:
    """What each element of output may be, [T, H, D] (MERGE-1, MERGE-4, MERGE-5).

    A number v of the type is right if it is what some real r with |r - exact| <= bound rounds to. Rounding is
    monotonic, so that those v are the numbers of the type from round(exact - bound) to round(exact + bound): one that
    is strictly between the two lies between exact - bound and exact + bound itself, and rounds to itself. Where one
    partial alone has weight, the bound is 0 and the golden model's number is of the type already. binary64's own error,
    below 2^-48 max(|P|, |S|), is added to the bound.
    """
    prefix, suffix = case.partials
    both = (with_weight(prefix.lse) & with_weight(suffix.lse)).T[..., None]
    most = np.maximum(np.abs(prefix.output), np.abs(suffix.output), where=both, out=np.zeros(case.shape))
    bound = np.where(both, (32 * U + 2.0**-48) * most + 2.0**-148, 0)
    exact, nearest = case.merged.output.astype(np.float64), BINARIES[case.dtype].nearest
    return Interval(nearest(exact - bound), nearest(exact + bound))


def expected_lse(case: MergeCase) -> Interval:
    """What each element of output_lse may be, [H, T] (MERGE-2, MERGE-4, MERGE-5).

    MERGE-2's bound is on the binary32 that is written, so that nothing is rounded here.
    """
    prefix, suffix = case.partials
    exact = case.merged.lse
    both = with_weight(prefix.lse) & with_weight(suffix.lse)
    bound = np.multiply(U + 2.0**-48, np.abs(exact) + 32, where=both, out=np.zeros(exact.shape))
    # An LSE near the end of binary32's range may round to infinity.
    high = np.where(exact + bound > BINARIES[np.dtype(np.float32)].largest, np.inf, exact + bound)
    return Interval(exact - bound, high)


@dataclass
class MergeObservation:
    """What one run left behind: output, output_lse or None, and what an Observation has."""

    output: Array
    lse: Array | None
    around: Observation


@dataclass(frozen=True)
class MergeSighting:
    """What the last of several merges, one after the other on the arrays of the first, left."""

    cases: tuple[MergeCase, ...]
    seen: MergeObservation


def patterns(case: MergeCase) -> tuple[Poison, ...]:
    """The poisons under which a case is run."""
    return (ZERO,) if is_huge(case) else POISONS


def judge_merge(judge: Judge, case: MergeCase, poisons: tuple[Poison, ...] | None = None) -> None:
    """Raise Differs, Crashed or Unsupported unless the target conforms on a case, under each poison.

    Refusing a case that MERGE-8 or MERGE-9 lets be refused, as MERGE-10 says, conforms.
    """
    judge.need(MERGE)
    with judge.on("merge", case):
        for poison in poisons or patterns(case):
            seen = observe_merge(judge, case, poison)
            if seen is not None:
                compare(judge, case, seen)
    judge.count.add(case.shape[0], int(np.prod(case.shape)))


def merged_by(judge: Judge, case: MergeCase) -> tuple[Array, Array | None]:
    """What the target writes, output and output_lse as bits, once it has been judged on a case it may not refuse."""
    judge_merge(judge, case)
    seen = observe_merge(judge, case, POISONS[0])
    assert seen is not None
    return _bits(seen.output), None if seen.lse is None else _bits(seen.lse)


def must_be_same(judge: Judge, bits: Array, others: Array, what: str) -> None:
    """Raise Differs unless two results that SPEC.md ties together are alike bit for bit; `what` says which."""
    wrong = bits != others
    if wrong.any():
        raise Differs(judge.text("differs", [f"{what}: {wrong.sum():,} of {wrong.size:,} elements differ"]))


def regions_of(judge: Judge, case: MergeCase, placements: dict[str, Placement]) -> dict[str, Region]:
    """The arrays of a call, allocated."""
    try:
        return {name: judge.target.memory.place(placement) for name, placement in placements.items()}
    except MemoryError as error:
        raise NotJudged(f"too little memory for {case!r}: {error}") from error


def observe_merge(judge: Judge, case: MergeCase, poison: Poison) -> MergeObservation | None:
    """One call of the target's merge; None if it was refused, for a reason for which it may be."""
    target = judge.target
    regions = regions_of(judge, case, place_merge(case, poison))
    try:
        call_merge(target, case, regions)
        settle(target)
    except TargetError as error:
        refusable = case.refusable()
        if not refusable or isinstance(error, LeftPending) or not isinstance(error.__cause__, Exception):
            raise judge.crashed(case, error) from error
        if amiss := amiss_in_refusal(target, regions, str(error), refusable):
            raise Differs(judge.text("differs", [*amiss.told, repr(case)])) from error
        return None
    return look_at_merge(target, case, regions, poison)


def call_merge(target: Target, case: MergeCase, regions: dict[str, Region]) -> None:
    """merge_attn_states with the regions' views; TargetError if it raises."""
    views = {name: region.view for name, region in regions.items()}
    results = {result: views[place] for result, place in case.written.items()}
    invoke(target, target.merge_attn_states, {**views, "output_lse": None, **results})


def look_at_merge(target: Target, case: MergeCase, regions: dict[str, Region], poison: Poison) -> MergeObservation:
    """Read the results back, compare every input, and look for writes outside of what may be written."""
    memory, results = target.memory, case.written
    output = memory.read(regions[results["output"]])
    lse = memory.read(regions[results["output_lse"]]) if "output_lse" in results else None
    return MergeObservation(output, lse, _around(target, regions, poison, set(results.values())))


def _around(target: Target, regions: dict[str, Region], poison: Poison, written: set[str]) -> Observation:
    seen = Observation(poison, np.zeros(0))
    for name, region in regions.items():
        if name not in written:
            changed = np.argwhere(_bits(target.memory.read(region)) != _bits(region.placement.data))
            if len(changed):
                seen.changed[name] = [tuple(int(i) for i in index) for index in changed[:8]]
        if strays := target.memory.strays(region):
            seen.strays[name] = strays
    return seen


def _bits(numbers: Array) -> Array:
    return numbers.view(f"u{numbers.itemsize}")


def compare(judge: Judge, case: MergeCase, seen: MergeObservation, before: Sequence[MergeCase] = ()) -> None:
    """Raise Differs for a number beyond its bound, a stray write or a changed input.

    `before` are the cases that were merged before on the same arrays.
    """
    lines: list[str] = []
    output, found = expected_output(case), {"output": seen.output}
    misses = {"output": output.misses(numbers(seen.output))}
    if misses["output"].any():
        lines += output_lines(case, output.low, output.high, seen.output, misses["output"])
    if seen.lse is not None:
        lse, found["lse"] = expected_lse(case), seen.lse
        misses["lse"] = lse.misses(numbers(seen.lse))
        if misses["lse"].any():
            lines += lse_lines(case, lse.low, lse.high, seen.lse, misses["lse"])
    lines += outside_lines(seen.around)
    if lines:
        right = merged(case)
        pairs = {name: Pair(right[name], found[name], misses[name]) for name in found}
        raise Differs(
            judge.text("differs", lines),
            [repr(case)],
            Evidence(seen.around.poison.name, pairs, around(seen.around)),
            MergeSighting((*before, case), seen),
        )


@dataclass(frozen=True)
class Amiss:
    """What is wrong with what became of a call that is to be refused: `what`, however it is told."""

    what: tuple[str, ...]
    told: tuple[str, ...] = field(compare=False)


def amiss_in_refusal(target: Target, regions: dict[str, Region], refusal: str, names: set[str]) -> Amiss | None:
    """Whether a refusal names none of some arguments, or something was written (MERGE-10)."""
    target.memory.synchronize()
    seen = _around(target, regions, POISONS[0], set())
    if seen.changed or seen.strays:
        written = tuple(outside_lines(seen))
        return Amiss(("wrote", *written), (f"refused with {refusal}, but wrote", *written))
    if not any(re.search(rf"\b{name}\b", refusal) for name in names):
        return Amiss(("unnamed",), (f"{' or '.join(sorted(names))}: not named in {refusal}",))
    return None
