"""Elements of HTML and SVG, whose text is escaped unless it is markup already."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from conformance.showing.text import plain

MOST = 4000
"""Characters of one text."""


class Markup(str):
    """Text that is HTML; everything else is escaped."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: object) -> Markup:
    """An element; `_` in an attribute's name stands for `-`, and at its end for nothing."""
    given = "".join(f' {key.rstrip("_").replace("_", "-")}="{_text(str(value))}"' for key, value in attributes.items())
    return Markup(f"<{name}{given}>{together(*children)}</{name}>")


def together(*children: str) -> Markup:
    """Children one after the other."""
    return Markup("".join(child if isinstance(child, Markup) else _text(child) for child in children))


def lines(each: Iterable[str]) -> Markup:
    """Children on lines of their own, for a pre."""
    return Markup("\n".join(map(together, each)))


def _text(text: str) -> str:
    return escape(plain(text, MOST))
