"""What is shown of a fixture, whatever its kind: facts and places as text, maps and lanes as numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Fact = tuple[str, str]


@dataclass(frozen=True)
class Region:
    """Columns of a map from `start` to `end` that belong together; a line every `step` of them, if there are such."""

    name: str
    start: int
    end: int
    step: int = 0


@dataclass(frozen=True)
class MapRow:
    """A row of a map: its number, what it is, and its columns that differ, ascending."""

    number: int
    label: str
    wrong: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Map:
    """Rows that differ, or are beside one that does, of `total` rows of `width` columns each.

    `differing` are the numbers of all rows known to differ; from `known` on it is not known which do. `groups` are
    rows that belong together, by their first row.
    """

    title: str
    width: int
    total: int
    rows: tuple[MapRow, ...]
    differing: npt.NDArray[np.int64]
    known: int
    regions: tuple[Region, ...] = ()
    row: str = "row"
    column: str = "element"
    groups: tuple[int, ...] = ()


@dataclass(frozen=True)
class Box:
    """A block of `size` slots. Spans, from a slot to the one after the last, are of a kind of SPANS."""

    number: int
    caption: str
    size: int
    spans: tuple[tuple[str, int, int], ...]


SPANS = {
    "before": "before the start",
    "read": "agrees",
    "wrong": "differs",
    "unknown": "not known",
}
"""Kinds of spans, and what a reader is told of them; what is in no span is not needed."""


@dataclass(frozen=True)
class Lane:
    """Blocks side by side, and in their place what is said of those left out."""

    title: str
    boxes: tuple[Box | str, ...]


@dataclass(frozen=True)
class Table:
    """A head, and rows with as many cells."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class View:
    """One fixture's case and difference. `places` are the first that differ, each in a few lines.

    `search` looks for known faults in what is stored, and returns what it found in lines; it may raise NotLookedInto.
    """

    geometry: tuple[Fact, ...] = ()
    places: tuple[tuple[str, ...], ...] = ()
    amount: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    values: Table | None = None
    maps: tuple[Map, ...] = ()
    lanes: tuple[Lane, ...] = ()
    lanes_title: str = ""
    lanes_left_out: str = ""
    search: Callable[[], list[str]] = field(default=list)


MOST_MAPPED = 40
"""Rows of a map."""


def rows_to_map(differing: npt.NDArray[np.int64], known: int) -> npt.NDArray[np.int64]:
    """The first rows that differ and those beside them, as far as it is known of them; at most MOST_MAPPED."""
    near = np.unique(np.concatenate([differing[:MOST_MAPPED] + step for step in (-1, 0, 1)]))
    return near[(near >= 0) & (near < known)][:MOST_MAPPED]


def first_of_each(wrong: npt.NDArray[np.bool_], rows: int, elements: int) -> list[tuple[int, int]]:
    """(row, column) of the first elements that differ in each of the first rows that do."""
    chosen = np.flatnonzero(wrong.any(axis=1))[:rows]
    return [(int(row), int(column)) for row in chosen for column in np.flatnonzero(wrong[row])[:elements]]
