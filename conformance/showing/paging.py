"""Blocks side by side: which are needed, from which slot to which, and where in them something differs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.showing.text import counted, runs
from conformance.showing.view import Box

MOST_LANES, MOST_BOXES = 8, 8


def chosen_lanes(total: int, hit: npt.NDArray[np.int64], most: int = MOST_LANES) -> list[int]:
    """Which of so many to show, ascending: the first that are hit, then the others."""
    others = np.setdiff1d(np.arange(min(total, 2 * most)), hit)
    return sorted(int(i) for i in [*hit[:most], *others][:most])


def boxes_of(
    start: int, end: int, size: int, wrong: npt.NDArray[np.int64], unknown: int | None, numbers: Any
) -> tuple[Box | str, ...]:
    """Blocks of `size` slots with tokens `start` to `end`, by physical `numbers`, and words for those left out.

    `wrong` are tokens that differ; from `unknown` on, if that is given, it is not known which do.
    """
    columns = np.arange(start // size, (end - 1) // size + 1)
    hit = np.flatnonzero(np.isin(columns, wrong // size))
    keep = [i for i in (0, len(columns) - 1) if i not in hit[: MOST_BOXES - 2]]
    chosen = sorted({*map(int, hit[: MOST_BOXES - len(keep)]), *keep, *range(min(MOST_BOXES, len(columns)))})
    for i in reversed(range(len(chosen))):  # those that were only taken to fill up give way
        if len(chosen) > MOST_BOXES and chosen[i] not in hit and chosen[i] not in keep:
            del chosen[i]
    boxes: list[Box | str] = [f"{counted(int(columns[0]), 'block')} before the start"] if columns[0] else []
    for before, i in zip([-1, *chosen], chosen, strict=False):
        if i - before > 1:
            boxes.append(f"{counted(i - before - 1, 'block')} left out")
        column = int(columns[i])
        spans = tuple(_spans(start, end, column * size, size, wrong, unknown))
        boxes.append(Box(int(numbers[column]), f"block {column:,}", size, spans))
    return tuple(boxes)


def _spans(
    start: int, end: int, first: int, size: int, wrong: npt.NDArray[np.int64], unknown: int | None
) -> Iterator[tuple[str, int, int]]:
    """What the slots of the block are whose slot 0 holds token `first`."""
    low, high = max(0, start - first), min(size, end - first)
    if low:
        yield "before", 0, low
    told = high if unknown is None else min(high, max(low, unknown - first))
    if told > low:
        yield "read", low, told
    if high > told:
        yield "unknown", told, high
    for one, other in runs(wrong[(wrong >= first) & (wrong < first + size)] - first):
        yield "wrong", one, other
