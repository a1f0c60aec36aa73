"""What a difference leaves for a fixture: the arrays that differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from conformance.observe import Observation
from fixtures.merge_cases import MergeCase
from fixtures.stored_rows import sparse_rows
from reference.merging import merge_attn_states

Array = npt.NDArray[Any]


class Pair(NamedTuple):
    """An array as expected and as observed, alike in shape, and where it is wrong; None: wherever bits differ."""

    expected: Array
    observed: Array
    wrong: npt.NDArray[np.bool_] | None = None


def merged(case: MergeCase) -> dict[str, Array]:
    """The golden model's output [T, H, D] and lse [H, T], rounded to the types they have."""
    output = np.zeros(case.shape, case.dtype)
    lse = np.zeros(case.shape_of("output_lse"), np.float32)
    prefix, suffix = (
        [np.ascontiguousarray(array) for array in partial]
        for partial in ((case.prefix_output, case.prefix_lse), (case.suffix_output, case.suffix_lse))
    )
    merge_attn_states(output, prefix[0], prefix[1], suffix[0], suffix[1], lse)
    return {"output": output, "lse": lse}


def around(seen: Observation) -> frozenset[str]:
    """Return what a call did to memory that it may not write, a line for each array and side of it."""
    return frozenset(
        f"{name} written {'before' if place < 0 else 'between or behind'} its elements"
        for name, places in seen.strays.items()
        for place in places
    ) | {f"{name} overwritten" for name in seen.changed}


@dataclass(frozen=True)
class Evidence:
    """Arrays by name, the poison that they were observed under, and what was written around them."""

    poison: str
    arrays: Mapping[str, Pair]
    around: frozenset[str] = frozenset()

    def kept(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """What fixtures.store.Fixture keeps as expected and as observed."""
        expected: dict[str, Array] = {}
        observed: dict[str, Array] = {}
        for name, pair in self.arrays.items():
            one, other = sparse_rows(pair.expected, pair.observed, name, pair.wrong)
            expected |= one
            observed |= other
        return expected, observed
