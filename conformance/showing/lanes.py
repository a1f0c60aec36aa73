"""Lanes as HTML: blocks as boxes with their physical numbers, and in each which slots are read, shaded, or wrong."""

from __future__ import annotations

from conformance.showing.markup import Markup, element
from conformance.showing.view import SPANS, Box, Lane

TICKED = 64
"""Up to how many slots of a box are told apart."""


def lanes_of(lanes: tuple[Lane, ...], left_out: str) -> Markup:
    """All lanes, and what their shades mean."""
    parts = [_lane(lane) for lane in lanes]
    return element("div", _legend(lanes), *parts, *([element("p", left_out, class_="gap")] if left_out else []))


def _legend(lanes: tuple[Lane, ...]) -> Markup:
    kinds = {kind for lane in lanes for box in lane.boxes if isinstance(box, Box) for kind, _, _ in box.spans}
    shown = [element("span", element("i", class_=kind), said) for kind, said in SPANS.items() if kind in kinds]
    return element("p", *shown, element("span", element("i"), "not needed"), class_="legend")


def _lane(lane: Lane) -> Markup:
    boxes = [_box(box) if isinstance(box, Box) else element("span", box, class_="elided") for box in lane.boxes]
    return element("div", element("h3", lane.title), element("div", *boxes, class_="boxes"), class_="lane")


def _box(box: Box) -> Markup:
    spans = [
        element("i", class_=kind, style=f"left:{_percent(a, box.size)};width:{_percent(b - a, box.size)}")
        for kind, a, b in box.spans
    ]
    ticked = {"style": f"--slots:{box.size}"} if box.size <= TICKED else {}
    slots = element("div", *spans, class_="slots ticked" if ticked else "slots", **ticked)
    number = element("b", f"{box.number:,}")
    told = ", ".join(f"slots {a:,} to {b - 1:,} {SPANS[kind]}" for kind, a, b in box.spans)
    wrong = " hit" if any(kind == "wrong" for kind, _, _ in box.spans) else ""
    parts = (number, slots, element("small", box.caption))
    return element("div", *parts, class_=f"box{wrong}", title=f"physical block {box.number:,}, {box.caption}: {told}")


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.4g}%"
