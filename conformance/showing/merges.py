"""A merge as it is shown: tokens by heads, elements that differ, and what was merged there."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from conformance.diagnosis.engine import look_into
from conformance.explain_merge import lse_place, output_place
from conformance.merges import Interval, MergeObservation, MergeSighting, expected_lse, expected_output
from conformance.observe import Observation
from conformance.replaying.today import expected_today
from conformance.roundings import BINARIES
from conformance.showing.gathers import PLACES, VALUED, VALUED_ROWS
from conformance.showing.rows import PATTERNS, Rows, must_be_whole, rows_of
from conformance.showing.text import plain
from conformance.showing.view import Fact, Map, MapRow, Region, Table, View, first_of_each, rows_to_map
from fixtures.merge_cases import MergeCase
from fixtures.store import Fixture
from reference.merging import numbers

Hits = npt.NDArray[np.bool_]


class Part(NamedTuple):
    """One result: rows kept of it, what each of their elements may be, and where they are outside of that."""

    rows: Rows
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    wrong: Hits


def merge_view(fixture: Fixture) -> View:
    """Everything that the file says of the difference."""
    case: MergeCase = fixture.case
    today = expected_today(fixture)
    output = _part(rows_of(fixture, "output", today["output"]), expected_output(case))
    lse = _part(rows_of(fixture, "lse", today["lse"]), expected_lse(case)) if case.lse_in else None
    places = [*_output_places(case, output, PLACES, 1), *_lse_places(case, lse, 1, 1)]
    told = [*_output_places(case, output, VALUED_ROWS, VALUED), *_lse_places(case, lse, VALUED_ROWS, VALUED)]
    values = tuple(_cells(*lines) for lines in told)
    return View(
        _geometry(fixture),
        tuple(places[: PLACES + 1]),
        tuple(_amounts(output, lse)),
        tuple(dict.fromkeys(remark for part in (output, lse) if part for remark in part.rows.remarks)),
        Table(("token and head", "result", "expected", "got"), values) if values else None,
        (*_output_maps(case, output), *_lse_maps(case, lse)),
        search=partial(_search, fixture, output, lse),
    )


def _part(rows: Rows | None, due: Interval) -> Part | None:
    if rows is None:
        return None
    low, high = (end.reshape(rows.total, -1)[rows.at] for end in (due.low, due.high))
    return Part(rows, low, high, Interval(low, high).misses(numbers(rows.observed)))


def _geometry(fixture: Fixture) -> tuple[Fact, ...]:
    case: MergeCase = fixture.case
    tokens, heads, size = case.shape
    facts = {
        "sizes": f"{tokens:,} tokens, {heads:,} heads, {size:,} elements of {BINARIES[case.dtype].name} for each",
        "results": ", ".join(f"{result} in {place}" for result, place in case.written.items() if result != place),
        "LSE": "" if case.lse_in else "no output_lse",
        "memory": "; ".join(f"{name}: {slack}" for name, slack in case.arrangement.items()) or "contiguous",
        "pattern": fixture.poison,
        "origin": plain(case.origin),
    }
    return tuple((name, said) for name, said in facts.items() if said)


def _amounts(output: Part | None, lse: Part | None) -> list[str]:
    parts = (("output", "elements", "tokens and heads", output), ("output_lse", "LSEs", "heads", lse))
    return [
        f"{name}: {part.rows.amount(part.wrong, what, rows)}"
        for name, what, rows, part in parts
        if part and part.wrong.any()
    ]


def _output_places(case: MergeCase, part: Part | None, rows: int, elements: int) -> Iterator[tuple[str, str]]:
    if part:
        for n, e in first_of_each(part.wrong, rows, elements):
            token, head = divmod(int(part.rows.at[n]), case.shape[1])
            yield output_place(case, (token, head, e), part.low[n, e], part.high[n, e], part.rows.observed[n, e])


def _lse_places(case: MergeCase, part: Part | None, rows: int, elements: int) -> Iterator[tuple[str, str]]:
    if part:
        for n, e in first_of_each(part.wrong, rows, elements):
            at = (int(part.rows.at[n]), e)
            yield lse_place(case, at, part.low[n, e], part.high[n, e], part.rows.observed[n, e])


def _cells(merged: str, result: str) -> tuple[str, str, str, str]:
    """The lines of a place as cells: its token and head with their LSEs, then element, expected, got."""
    where, _, numbers_there = merged.partition(": ")
    pair, _, element = where.partition(" element ")
    lses, _, elements = numbers_there.partition(", P ")
    name, _, rest = result.strip().partition(": expected ")
    due, _, got = rest.partition("      got ")
    what = f"{name}, element {element}: P {elements}" if element else name
    return f"{pair}: {lses}", what, due, got


def _output_maps(case: MergeCase, part: Part | None) -> list[Map]:
    """Tokens by heads, and elements for each token and head."""
    if part is None or not part.wrong.any():
        return []
    heads = case.shape[1]
    at = part.rows.at[part.wrong.any(axis=1)]
    tokens, known = np.unique(at // heads), part.rows.known
    by_token = tuple(
        MapRow(token, f"token {token}", at[at // heads == token] % heads)
        for token in map(int, rows_to_map(tokens, known // heads))
    )
    region = (Region(f"{heads:,} heads", 0, heads, 1),)
    title = "output: tokens, and heads that differ"
    whole = Map(title, heads, case.shape[0], by_token, tokens, known // heads, region, "token", "head")
    return [whole, _map(part, "output: elements that differ", lambda row: f"token {row // heads} head {row % heads}")]


def _lse_maps(case: MergeCase, part: Part | None) -> list[Map]:
    if part is None or not part.wrong.any():
        return []
    return [_map(part, "output_lse: heads, and tokens that differ", lambda row: f"head {row}", "head", "token")]


def _map(part: Part, title: str, label: Any, row: str = "token-head pair", column: str = "element") -> Map:
    kept = {int(at): number for number, at in enumerate(part.rows.at)}
    differing = part.rows.at[part.wrong.any(axis=1)]
    shown = tuple(
        MapRow(at, label(at), np.flatnonzero(part.wrong[kept[at]]) if at in kept else differing[:0])
        for at in map(int, rows_to_map(differing, part.rows.known))
    )
    width = part.wrong.shape[1]
    regions = (Region(f"{width:,} {column}s", 0, width, 16 if width > 16 else 0),)
    return Map(title, width, part.rows.total, shown, differing, part.rows.known, regions, row, column)


def _search(fixture: Fixture, output: Part | None, lse: Part | None) -> list[str]:
    case: MergeCase = fixture.case
    merged = must_be_whole(fixture, output.rows if output else None).reshape(case.shape)
    lses = (
        must_be_whole(fixture, lse.rows if lse else None).reshape(case.shape_of("output_lse")) if case.lse_in else None
    )
    around = Observation(PATTERNS[fixture.poison], np.zeros(0))
    return [*look_into(MergeSighting((case,), MergeObservation(merged, lses, around))).lines]
