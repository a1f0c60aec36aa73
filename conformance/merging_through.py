"""A target's merge_attn_states as what a loop over chunks merges with."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.judge import Judge
from conformance.observe import TargetError, invoke
from conformance.targets.base import MERGE
from fixtures.placement import placement
from reference import merging
from reference.context import Merge
from reference.merging import Partial


def merge_of(judge: Judge, dtype: type[np.floating[Any]]) -> Merge:
    """The target's own if it claims one and the numbers are binary32; else the golden model's."""
    target = judge.target
    if dtype is not np.float32 or MERGE not in target.capabilities or target.hindrance(MERGE):
        return merging.merge

    def merge(prefix: Partial, suffix: Partial) -> Partial:
        if not prefix.output.size:
            return prefix
        arrays: dict[str, npt.NDArray[Any]] = {
            "output": np.full_like(prefix.output, np.nan),
            "prefix_output": prefix.output,
            "prefix_lse": prefix.lse,
            "suffix_output": suffix.output,
            "suffix_lse": suffix.lse,
            "output_lse": np.full_like(prefix.lse, np.nan),
        }
        regions = {name: target.memory.place(placement(each, _packed(each.shape), 0)) for name, each in arrays.items()}
        try:
            invoke(target, target.merge_attn_states, {name: region.view for name, region in regions.items()})
            target.memory.synchronize()
        except TargetError as error:
            raise judge.crashed("merge_attn_states of a continuation", error) from error
        return Partial(target.memory.read(regions["output"]), target.memory.read(regions["output_lse"]))

    return merge


def _packed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
