"""MergeCase: fewer tokens, heads and elements, results in memory of their own, and simple numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from conformance.shrinking.elements import NUMBERS, Array, lies_as_given, simplified
from conformance.shrinking.steps import Steps, contiguous, removed, tried
from fixtures.merge_cases import CONTIGUOUS, WIDE, MergeCase, Slack, strides_of

INPUTS = ("prefix_output", "prefix_lse", "suffix_output", "suffix_lse")


def sizes(case: MergeCase) -> Steps[MergeCase]:
    """Leave out tokens, heads and elements."""
    for axis in range(3):
        case = yield from removed(case, case.shape[axis], partial(_without, axis))
    return case


def places(case: MergeCase) -> Steps[MergeCase]:
    """Results in memory of their own."""
    if case.output_in != "output":
        case = yield from tried(case, [replace(case, output_in="output")])
    if case.lse_in not in (None, "output_lse"):
        case = yield from tried(case, [replace(case, lse_in="output_lse")])
    return case


def arrangement(case: MergeCase) -> Steps[MergeCase]:
    """Nothing apart in memory."""
    if case.arrangement:
        case = yield from tried(case, [replace(case, arrangement={})])
    for name in list(case.arrangement):
        case = yield from contiguous(case, partial(_slack, name), partial(_with_slack, name), CONTIGUOUS)
    return case


def numbers(case: MergeCase) -> Steps[MergeCase]:
    """Zeros; what has to stay is 1 or whole, if it can be."""
    for simpler, name in product(NUMBERS, INPUTS):
        case = yield from simplified(case, partial(_rows, name), partial(_with_rows, name), simpler)
    return case


def check(case: MergeCase) -> None:
    """Raise ValueError for an input whose elements share memory and differ."""
    for name in INPUTS:
        if not lies_as_given(getattr(case, name), strides_of(case, name)):
            raise ValueError(f"{name} has elements that differ in one place; allowed are some that are alike")


def _without(axis: int, case: MergeCase, first: int, end: int) -> MergeCase:
    def shorter(name: str) -> Array:
        array, at = getattr(case, name), (axis if name in WIDE else (1, 0, None)[axis])
        return array if at is None else np.delete(array, slice(first, end), at)

    changed: dict[str, Any] = {name: shorter(name) for name in INPUTS}
    return replace(case, **changed)


def _slack(name: str, case: MergeCase) -> Slack:
    return case.slack(name)


def _with_slack(name: str, case: MergeCase, slack: Slack) -> MergeCase:
    others = {each: how for each, how in case.arrangement.items() if each != name}
    return replace(case, arrangement=others if slack == CONTIGUOUS else others | {name: slack})


def _rows(name: str, case: MergeCase) -> Array:
    array: Array = getattr(case, name)
    return array.reshape(-1, array.shape[-1]) if array.size else array.reshape(0, 1)


def _with_rows(name: str, case: MergeCase, rows: Array) -> MergeCase:
    changed: dict[str, Any] = {name: rows.reshape(getattr(case, name).shape)}
    return replace(case, **changed)
