"""Calls that are nothing but numbers and names, and arrays of any kind."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import numpy as np

from conformance.showing.text import counted, in_words
from conformance.showing.view import Fact, Table, View
from fixtures.store import Fixture

MOST_VALUES = 24


def other_view(fixture: Fixture) -> View:
    """The case's own fields, and the first values that differ of each array that is there twice."""
    values = [row for name in fixture.expected for row in _values(fixture, name)]
    remarks = [] if fixture.case is not None else ["the file holds no case"]
    table = Table(("array", "place", "expected", "got"), tuple(values[:MOST_VALUES])) if values else None
    return View(_fields(fixture.case), remarks=tuple(remarks), amount=tuple(_arrays(fixture)), values=table)


def _fields(case: object) -> tuple[Fact, ...]:
    if not is_dataclass(case):
        return ()
    return tuple((field.name, _told(getattr(case, field.name))) for field in fields(case))


def _told(value: object) -> str:
    return in_words(list(value) if isinstance(value, tuple) else value)


def _arrays(fixture: Fixture) -> list[str]:
    """What is there of what was expected, and of what was observed."""
    named = {
        name: [group for group, of in (("expected", fixture.expected), ("observed", fixture.observed)) if name in of]
        for name in sorted({*fixture.expected, *fixture.observed})
        if not name.endswith((".at", ".sha256"))
    }
    return [f"{name}: {' and '.join(groups)}, {_shape(fixture, name)}" for name, groups in named.items()][:8]


def _shape(fixture: Fixture, name: str) -> str:
    array = fixture.expected.get(name, fixture.observed.get(name))
    assert array is not None
    kept = counted(len(array), "row") if f"{name}.at" in fixture.expected and array.ndim else "whole"
    return f"{array.dtype} {list(array.shape)}, {kept}"


def _values(fixture: Fixture, name: str) -> list[tuple[str, str, str, str]]:
    want, got = fixture.expected[name], fixture.observed.get(name)
    apart = name.endswith((".at", ".sha256"))
    if apart or got is None or got.shape != want.shape or got.dtype != want.dtype or not want.ndim:
        return []
    at = fixture.expected.get(f"{name}.at", np.arange(len(want)))
    if at.shape != want.shape[:1]:
        return []
    wrong = np.argwhere((want != got) & ~((want != want) & (got != got)))[:MOST_VALUES]
    places = [[int(at[index[0]]), *map(int, index[1:])] for index in wrong]
    return [
        (name, in_words(place), f"{want[tuple(index)]:.9g}", f"{got[tuple(index)]:.9g}")
        for place, index in zip(places, wrong, strict=True)
    ]
