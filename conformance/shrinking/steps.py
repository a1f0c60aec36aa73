"""The steps of which reducers are made: each yields smaller cases, the biggest step first, and is told what was taken.

A reducer goes on from whatever was taken last, which is also what it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, TypeVar

Case = TypeVar("Case")
Steps = Generator[Case, bool, Case]
Reducer = Callable[[Case], Steps[Case]]


def tried(case: Case, candidates: Iterable[Case]) -> Steps[Case]:
    """The first of some cases that is taken."""
    for candidate in candidates:
        if (yield candidate):
            return candidate
    return case


def removed(case: Case, count: int, without: Callable[[Case, int, int], Case]) -> Steps[Case]:
    """Leave out runs [first, end) of `count` entries: all, halves, quarters, down to single ones."""
    size = count
    while size:
        first = 0
        while first < count:
            end = min(first + size, count)
            shorter = without(case, first, end)
            if (yield shorter):
                case, count = shorter, count - (end - first)
            else:
                first = end
        size //= 2
    return case


def lowered(case: Case, number: int, put: Callable[[Case, int], Case]) -> Steps[Case]:
    """Lower a number: to 0, then by halves of it, down to single ones."""
    step = number
    while step:
        smaller = put(case, number - step)
        if (yield smaller):
            case, number = smaller, number - step
            step = min(step, number)
        else:
            step //= 2
    return case


def lowered_fields(
    case: Case, get: Callable[[Case], Any], put: Callable[[Case, Any], Case], unit: Callable[[int], int] = lambda n: 1
) -> Steps[Case]:
    """Lower the integers of a dataclass that `get` finds in a case, also in dataclasses in it, in steps of units."""
    for field in fields(get(case)):
        case = yield from _lowered_field(case, get, put, field.name, unit)
    return case


def _lowered_field(
    case: Case, get: Callable[[Case], Any], put: Callable[[Case, Any], Case], name: str, unit: Callable[[int], int]
) -> Steps[Case]:
    def value(case: Case) -> Any:
        return getattr(get(case), name)

    def with_value(case: Case, number: Any) -> Case:
        return put(case, replace(get(case), **{name: number}))

    found = value(case)
    if is_dataclass(found):
        return (yield from lowered_fields(case, value, with_value, unit))
    if not isinstance(found, int):
        return case
    step = unit(found)
    return (yield from lowered(case, found // step, lambda case, n: with_value(case, type(found)(n * step))))


def contiguous(case: Case, get: Callable[[Case], Any], put: Callable[[Case, Any], Case], packed: Any) -> Steps[Case]:
    """An arrangement in memory as if there was none, or as little of it as can be, and aligned no less."""
    if get(case) == packed:
        return case
    case = yield from tried(case, [put(case, packed)])
    for name, value in vars(get(case)).items():
        if isinstance(value, tuple):  # strides that are given
            case = yield from tried(case, [put(case, replace(get(case), **{name: None}))])
    return (yield from lowered_fields(case, get, put, lambda n: n & -n or 1))


def renumbered(
    case: Case,
    numbers_of: Callable[[Case], list[int]],
    put: Callable[[Case, list[int]], Case],
    differ: Callable[[Case, Case], bool],
) -> Steps[Case]:
    """The blocks that are needed, numbered from 0; else those alone; else with numbers as low as can be."""
    for numbers in (list(range(len(numbers_of(case)))), numbers_of(case)):
        fewer = put(case, numbers)
        if differ(fewer, case) and (yield fewer):
            case = fewer
            break
    return (yield from lowered_numbers(case, numbers_of, put))


def lowered_numbers(
    case: Case, numbers_of: Callable[[Case], list[int]], put: Callable[[Case, list[int]], Case]
) -> Steps[Case]:
    """Lower each of a case's numbers, which ascend and of which no two are alike."""

    def with_number(place: int, floor: int, case: Case, above: int) -> Case:
        numbers = numbers_of(case)
        return put(case, [*numbers[:place], floor + above, *numbers[place + 1 :]])

    for place, number in enumerate(numbers_of(case)):
        floor = numbers_of(case)[place - 1] + 1 if place else 0
        case = yield from lowered(case, number - floor, partial(with_number, place, floor))
    return case
