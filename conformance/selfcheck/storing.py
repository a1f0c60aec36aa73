"""Storing a case and looking at what comes back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fixtures.placement import POISONS, ZERO, Placement, Poison
from fixtures.store import Fixture, load, save

Place = Callable[[Any, Poison], dict[str, Placement]]


def stored(case: Any, path: Path) -> Any:
    """The case as it comes back."""
    save(Fixture(case), path)
    return load(path).case


def lies_alike(case: Any, other: Any, place: Place, huge: bool) -> bool:
    """Whether all arguments are the same in memory, and around, under every pattern."""
    return all(_alike(place(case, poison), place(other, poison)) for poison in ([ZERO] if huge else POISONS))


def _alike(one: dict[str, Placement], other: dict[str, Placement]) -> bool:
    return one.keys() == other.keys() and all(_same(placed, other[name]) for name, placed in one.items())


def _same(one: Placement, other: Placement) -> bool:
    looks = [(p.shape, p.strides, p.before, p.after, p.poison, p.shift, p.data.dtype) for p in (one, other)]
    if looks[0] != looks[1]:
        return False
    if one.at is None and other.at is None:
        return np.array_equal(_bits(one.data), _bits(other.data))
    at = np.union1d(_numbers(one), _numbers(other))  # what neither holds is poison in both
    return np.array_equal(_bits(_entries(one, at)), _bits(_entries(other, at)))


def _numbers(placed: Placement) -> npt.NDArray[Any]:
    return np.arange(len(placed.data)) if placed.at is None else placed.at


def _entries(placed: Placement, at: npt.NDArray[Any]) -> npt.NDArray[Any]:
    entries = np.full((len(at), *placed.shape[1:]), placed.poison, placed.data.dtype)
    entries[np.searchsorted(at, _numbers(placed))] = placed.data
    return entries


def _bits(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")
