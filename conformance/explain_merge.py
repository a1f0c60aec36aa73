"""A wrong merge as a person reads it: which token, head and element, of what numbers, and what was due."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.roundings import BINARIES
from fixtures.merge_cases import MergeCase
from reference.merging import numbers

Array = npt.NDArray[Any]
Reals = npt.NDArray[np.float64]
Wrong = npt.NDArray[np.bool_]


def output_lines(case: MergeCase, low: Reals, high: Reals, got: Array, wrong: Wrong) -> list[str]:
    """The first element of output that is wrong, and how many are."""
    at = token, head, element = tuple(int(i) for i in np.argwhere(wrong)[0])
    rows = wrong.any(axis=2)
    return [
        *output_place(case, (token, head, element), low[at], high[at], got[at]),
        f"{wrong.sum():,} of {wrong.size:,} elements for {rows.sum():,} of {rows.size:,} tokens and heads differ",
    ]


def lse_lines(case: MergeCase, low: Reals, high: Reals, got: Array, wrong: Wrong) -> list[str]:
    """The first element of output_lse that is wrong, and how many are."""
    at = head, token = tuple(int(i) for i in np.argwhere(wrong)[0])
    return [
        *lse_place(case, (head, token), low[at], high[at], got[at]),
        f"{wrong.sum():,} of {wrong.size:,} LSEs differ",
    ]


def output_place(case: MergeCase, at: tuple[int, int, int], low: float, high: float, got: Any) -> tuple[str, str]:
    """An element of output, [token, head, element]: what is merged there, and what may be and is the result."""
    token, head, element = at
    prefix, suffix = case.partials
    return (
        f"token {token} head {head} element {element}: p {_lse(case, 0, head, token)}, s {_lse(case, 1, head, token)}, "
        f"P {prefix.output[at]:g}, S {suffix.output[at]:g}",
        f"  output: expected {_due(low, high)} ({BINARIES[case.dtype].name})      got {_text(got)}",
    )


def lse_place(case: MergeCase, at: tuple[int, int], low: float, high: float, got: Any) -> tuple[str, str]:
    """An element of output_lse, [head, token]."""
    head, token = at
    return (
        f"token {token} head {head}: p {_lse(case, 0, head, token)}, s {_lse(case, 1, head, token)}",
        f"  output_lse: expected {_due(low, high)}      got {_text(got)}",
    )


def _lse(case: MergeCase, which: int, head: int, token: int) -> str:
    return f"{case.partials[which].lse[head, token]:.9g}"


def _due(low: float, high: float) -> str:
    return f"{low:.9g}" if low == high else f"[{low:.9g}, {high:.9g}]"


def _text(found: Any) -> str:
    digits = 2 * found.dtype.itemsize
    bits = int(found.view(f"u{found.dtype.itemsize}"))
    return f"0x{bits:0{digits}X} {float(numbers(np.array(found))):.9g}"
