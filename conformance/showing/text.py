"""Words for what comes from a file, which may hold anything: nothing in them moves a cursor or turns a line around."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt


def plain(text: object, most: int = 400) -> str:
    """One line of printable characters, cut at `most`."""
    shown = "".join(each if each.isprintable() else _escaped(each) for each in str(text)[: most + 1])
    return shown if len(shown) <= most else shown[:most] + "..."


def plain_lines(text: object, most: int = 100) -> list[str]:
    """Up to so many lines of printable characters."""
    lines = str(text).split("\n")
    left_out = [f"... and {len(lines) - most:,} more lines"] if len(lines) > most else []
    return [plain(line) for line in lines[:most]] + left_out


def in_words(value: Any, most: int = 400) -> str:
    """A value of JSON in one line: "numpy 2.1, cupy 13"."""
    return plain(_words(value, 0), most)


def _words(value: Any, depth: int) -> str:
    if isinstance(value, Mapping) and depth < 6:
        return ", ".join(f"{name} {_nested(each, depth)}" for name, each in [*value.items()][:64])
    if isinstance(value, list | tuple) and depth < 6:
        return ", ".join(_nested(each, depth) for each in value[:64]) + (", ..." if len(value) > 64 else "")
    return "none" if value is None else str(value)[:4096]


def _nested(value: Any, depth: int) -> str:
    inner = _words(value, depth + 1)
    return f"({inner})" if isinstance(value, Mapping | list | tuple) and depth else inner


def few(numbers: Iterable[Any], most: int = 8) -> str:
    """The first ones, and how many there are if that is not all."""
    each = list(numbers)
    shown = ", ".join(f"{number:,}" for number in each[:most])
    return shown if len(each) <= most else f"{shown}, ... ({len(each):,} in all)"


def runs(numbers: npt.NDArray[Any]) -> list[tuple[int, int]]:
    """Ascending integers as (first, one after the last) of each run without a gap."""
    if not len(numbers):
        return []
    cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
    return [(int(part[0]), int(part[-1]) + 1) for part in np.split(numbers, cuts)]


def runs_in_words(numbers: npt.NDArray[Any], most: int = 6) -> str:
    """Ascending integers: "3, 7 to 22, ..."."""
    parts = runs(numbers)
    shown = [f"{a:,}" if b == a + 1 else f"{a:,} to {b - 1:,}" for a, b in parts[:most]]
    return ", ".join(shown) + (", ..." if len(parts) > most else "")


def counted(number: int, what: str) -> str:
    """ "1 row", "2 rows"."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()
