"""Elements of a case's arrays made simpler: many at once, then fewer, down to single ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.shrinking.steps import Case, Steps

Array = npt.NDArray[Any]
Get = Callable[[Case], Array]
Put = Callable[[Case, Array], Case]
Simpler = Callable[[Array], Array]
"""Elementwise; what it gives for what it gave is the same, and for a zero a zero."""

MOST_PLACES = 1 << 16
"""How many single elements are looked at; nobody waits for as many verdicts."""


def simplified(case: Case, get: Get[Case], put: Put[Case], simpler: Simpler) -> Steps[Case]:
    """Make elements of an array [rows, width] simpler: whole rows of it, then columns of all rows, then single ones."""
    for axes in ((1,), (0,), ()):
        changed = _bits(simpler(get(case))) != _bits(get(case))
        places = np.argwhere(changed.any(axis=axes, keepdims=True))[:MOST_PLACES]
        runs = [(0, len(places))] if len(places) else []
        while runs:
            first, end = runs.pop()
            chosen = np.zeros(tuple(1 if axis in axes else size for axis, size in enumerate(changed.shape)), np.bool_)
            chosen[tuple(places[first:end].T)] = True
            array = get(case)
            candidate = put(case, np.where(chosen, simpler(array), array))
            if (yield candidate):
                case = candidate
            elif end - first > 1:
                middle = (first + end) // 2
                runs += [(middle, end), (first, middle)]
    return case


def zero(array: Array) -> Array:
    """Zeros."""
    return np.zeros_like(array)


def one(array: Array) -> Array:
    """What is no zero is 1; integers are encodings of bf16."""
    return np.where(array == 0, array, array.dtype.type(0x3F80 if array.dtype.kind == "u" else 1))


def whole(array: Array) -> Array:
    """The next whole number, or the next power of two of an encoding of bf16."""
    return array & array.dtype.type(0xFF80) if array.dtype.kind == "u" else np.rint(array)


NUMBERS: tuple[Simpler, ...] = (zero, one, whole)


def lies_as_given(array: Array, strides: tuple[int, ...]) -> bool:
    """Whether an array is the same under strides, in elements, under which parts of it may share memory."""
    steps = [stride for stride, size in zip(strides, array.shape, strict=True) if size > 1]
    if all(steps) or not array.size:
        return True
    return all(
        bool((_bits(array) == np.take(_bits(array), [0], axis)).all())
        for axis, (stride, size) in enumerate(zip(strides, array.shape, strict=True))
        if size > 1 and not stride
    )


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")
