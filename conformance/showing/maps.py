"""A map as HTML: a strip of all rows, an axis of regions, and a line for each row near a difference."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from conformance.showing.markup import Markup, element, together
from conformance.showing.text import counted, runs, runs_in_words
from conformance.showing.view import Map, MapRow

CELLS, GROUPS, TICKS, SHORT = 1024, 64, 128, 18
"""Into how many places a row is drawn at most, how many groups a strip tells apart, how many ticks
a region has, and how long labels are."""


def map_of(drawn: Map, number: int) -> Markup:
    """A figure; `number` tells it from the others of the page."""
    return element(
        "figure",
        element("figcaption", drawn.title),
        _strip(drawn),
        _axis(drawn, number),
        *_lines(drawn, number),
        class_="map",
        style=f"--label:{max([5, len(drawn.row), *map(len, (_label(row) for row in drawn.rows))])}ch",
    )


def _svg(width: int, *children: str, **attributes: object) -> Markup:
    return element("svg", *children, viewBox=f"0 0 {width} 1", preserveAspectRatio="none", **attributes)


def _marks(places: npt.NDArray[np.int64], width: int, kind: str = "wrong") -> Markup:
    """Places below `width`, ascending, as one path of a rectangle for each run."""
    by = max(1, -(-width // CELLS))
    return element(
        "path",
        d="".join(f"M{a * by} 0h{(b - a) * by}v1H{a * by}z" for a, b in runs(np.unique(places // by))),
        class_=kind,
    )


def _strip(drawn: Map) -> Markup:
    groups = drawn.groups if 1 < len(drawn.groups) <= GROUPS else ()
    bounds = [*groups, drawn.total]
    parts = [element("rect", x=a, y=0, width=b - a, height=1, class_="group") for a, b in [*pairwise(bounds)][1::2]]
    if drawn.known < drawn.total:
        parts.append(element("rect", x=drawn.known, y=0, width=drawn.total - drawn.known, height=1, class_="unknown"))
    svg = _svg(max(1, drawn.total), *parts, _marks(drawn.differing, drawn.total), class_="strip")
    return _line(
        "all", svg, f"{len(drawn.differing):,}", title=f"all {counted(drawn.total, drawn.row)}", class_="line strip"
    )


def _axis(drawn: Map, number: int) -> Markup:
    shapes, ticks = [], []
    for i, region in enumerate(drawn.regions):
        size = region.end - region.start
        shapes.append(element("rect", x=region.start, y=0, width=size, height=1, class_=f"region r{i % 3}"))
        if region.step and size // region.step <= TICKS:
            ticks += [f"M{at} 0v1" for at in range(region.start, region.end, region.step)]
    grid = element("g", *shapes, id=f"grid{number}")
    lines = element("g", element("path", d="".join(ticks), class_="tick"), id=f"ticks{number}")
    names = [
        element("span", region.name, style=f"flex:{region.end - region.start}", class_=f"region r{i % 3}")
        for i, region in enumerate(drawn.regions)
    ]
    defs = element("svg", element("defs", grid, lines), class_="defs", aria_hidden="true")
    ends = element("div", element("span", "0"), element("span", f"{drawn.width - 1:,}"), class_="ends")
    return _line(drawn.row, together(element("div", *names, class_="names"), ends, defs), "", class_="line axis")


def _lines(drawn: Map, number: int) -> Iterator[Markup]:
    last = -1
    for row in drawn.rows:
        if row.number - last > 1:
            yield _gap(drawn, last + 1, row.number)
        last = row.number
        what = f"{counted(len(row.wrong), drawn.column)} {'differ' if len(row.wrong) != 1 else 'differs'}"
        where = f": {runs_in_words(row.wrong)}" if len(row.wrong) else ""
        under, over = (element("use", href=f"#{part}{number}") for part in ("grid", "ticks"))
        marks = [_marks(row.wrong, drawn.width)] if len(row.wrong) else []
        svg = _svg(drawn.width, under, *marks, over, class_="cells")
        count = f"{len(row.wrong):,}" if len(row.wrong) else ""
        said = f"{row.label}: {what}{where}"
        yield _line(_label(row), svg, count, title=said, class_="line", data_row=row.number, data_wrong=len(row.wrong))
    if last + 1 < drawn.total:
        yield _gap(drawn, last + 1, drawn.total)


def _label(row: MapRow) -> str:
    """What it is, where that is short, else its number."""
    return row.label if len(row.label) <= SHORT else f"{row.number:,}"


def _gap(drawn: Map, first: int, end: int) -> Markup:
    """What is said of the rows between two that are drawn."""
    differing = int(((drawn.differing >= first) & (drawn.differing < end)).sum())
    unknown = max(0, end - max(first, drawn.known))
    agreeing = end - first - differing - unknown
    parts = [
        f"{counted(many, drawn.row)} {of[many != 1]}"
        for many, of in (
            (agreeing, ("agrees", "agree")),
            (differing, ("differs too", "differ too")),
            (unknown, ("of which nothing is known", "of which nothing is known")),
        )
        if many
    ]
    return element("p", f"{', '.join(parts)}: left out", class_="gap")


def _line(label: str, middle: Markup, count: str, **attributes: object) -> Markup:
    parts = (
        element("span", label, class_="label"),
        element("div", middle, class_="middle"),
        element("span", count, class_="count"),
    )
    return element("div", *parts, **attributes)
