"""Changes that make an argument malformed: each takes its placement in a good call, and returns another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fixtures.placement import Placement

Change = Callable[[Placement], Placement]


def as_type(dtype: type[np.generic]) -> Change:
    """Make zeros of another type."""
    return lambda p: replace(p, data=np.zeros(p.data.shape, dtype), poison=p.poison & 0x7F)


def with_width(width: int) -> Change:
    """Make zeros of another last dimension."""

    def change(p: Placement) -> Placement:
        data = np.zeros((*p.data.shape[:-1], width), p.data.dtype)
        return replace(p, data=data, strides=contiguous_strides(data.shape))

    return change


def of_the_other_width(p: Placement) -> Placement:
    """Make zeros of 512 elements a row instead of 576, or the other way round."""
    return with_width(576 + 512 - p.data.shape[-1])(p)


def with_shape(*shape: int) -> Change:
    """Make zeros of another shape."""
    return lambda p: replace(p, data=np.zeros(shape, p.data.dtype), strides=contiguous_strides(shape))


def with_inner_stride_two(p: Placement) -> Placement:
    """Double all strides, the innermost one included."""
    return replace(p, strides=tuple(2 * stride for stride in p.strides))


def with_rows_that_overlap(p: Placement) -> Placement:
    """Make the row stride eight elements smaller than a row."""
    return replace(p, strides=(p.data.shape[1] - 8, 1))


def shorter(p: Placement) -> Placement:
    """Leave out the last entry of the first dimension."""
    return replace(p, data=p.data[:-1].copy())


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides, in elements, of an array without gaps."""
    return tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
