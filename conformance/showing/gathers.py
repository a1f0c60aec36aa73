"""A gather as it is shown: requests over their blocks, rows that differ, elements in the terms of the record."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from conformance.diagnosis.engine import look_into
from conformance.explain import bits_text, element_line, row_line
from conformance.judge import GatherSighting
from conformance.observe import Observation, wrong_elements
from conformance.replaying.today import expected_today
from conformance.showing.memory import arrangement_in_words
from conformance.showing.paging import boxes_of, chosen_lanes
from conformance.showing.rows import PATTERNS, Rows, must_be_whole, rows_of
from conformance.showing.text import counted, few, plain
from conformance.showing.view import Fact, Lane, Map, MapRow, Region, Table, View, first_of_each, rows_to_map
from fixtures.cases import GatherCase
from fixtures.placement import ZERO
from fixtures.store import Fixture
from reference.records import RecordLayout

PLACES, VALUED_ROWS, VALUED = 3, 6, 3
"""Rows told in lines; rows with values in a table, and elements of each."""


def gather_view(fixture: Fixture) -> View:
    """Everything that the file says of the difference."""
    case: GatherCase = fixture.case
    rows = rows_of(fixture, "rows", expected_today(fixture).get("rows"))
    none = np.empty(0, np.int64)
    if rows is None:
        lanes, left_out = _lanes(case, none, 0)
        return View(_geometry(fixture), lanes=lanes, lanes_title="paging", lanes_left_out=left_out)
    nan = str(fixture.about.get("nan", "canonical"))
    wrong = wrong_elements(rows.expected, rows.observed, nan, case.layout)
    differing = rows.at[wrong.any(axis=1)]
    lanes, left_out = _lanes(case, differing, rows.known)
    places = [_place(fixture, rows, *at) for at in first_of_each(wrong, PLACES, 1)]
    return View(
        _geometry(fixture),
        tuple(places),
        (rows.amount(wrong), *_parts(case.layout, wrong)),
        rows.remarks,
        _values(fixture, rows, wrong) if wrong.any() else None,
        (_map(case, rows, wrong, differing),),
        lanes,
        "paging",
        left_out,
        partial(_search, fixture, rows, nan),
    )


def _geometry(fixture: Fixture) -> tuple[Fact, ...]:
    case: GatherCase = fixture.case
    lengths = np.diff(np.append(case.workspace_starts, case.num_rows).clip(max=case.num_rows))
    held = "" if case.block_numbers is None else f", of which {len(case.block_numbers):,} matter"
    shape = ", ".join(f"{n:,}" for n in (case.num_blocks, case.block_size, case.layout.width))
    facts = {
        "rows": f"T is {case.num_rows:,}, of {counted(case.batch_size, 'request')}",
        "lengths": few(lengths),
        "starts": "no seq_starts: every request from its token 0" if case.seq_starts is None else few(case.seq_starts),
        "cache": f"[{shape}]{held}; block size {case.block_size:,}",
        "block_table": f"[{', '.join(f'{n:,}' for n in case.block_table.shape)}]",
        "scale": "" if case.layout.scales.count else f"{case.scale:g}, of the tensor",
        "memory": arrangement_in_words(case.arrangement),
        "pattern": fixture.poison,
        "origin": plain(case.origin),
    }
    return tuple((name, said) for name, said in facts.items() if said)


def _place(fixture: Fixture, rows: Rows, number: int, element: int) -> tuple[str, ...]:
    row = int(rows.at[number])
    return (
        row_line(fixture.case, row),
        element_line(fixture.case, row, element),
        f"  expected {bits_text(int(rows.expected[number, element]))}      got {_got(fixture, rows, number, element)}",
    )


def _got(fixture: Fixture, rows: Rows, number: int, element: int) -> str:
    bits = int(rows.observed[number, element])
    poison = PATTERNS.get(fixture.poison)
    never = poison is not None and bits == poison.dst and fixture.poison != ZERO.name
    return bits_text(bits) + ("  (the poison: never written)" if never else "")


def _values(fixture: Fixture, rows: Rows, wrong: npt.NDArray[np.bool_]) -> Table:
    case = fixture.case
    cells = [
        (
            row_line(case, int(rows.at[number])),
            element_line(case, int(rows.at[number]), element),
            bits_text(int(rows.expected[number, element])),
            _got(fixture, rows, number, element),
        )
        for number, element in first_of_each(wrong, VALUED_ROWS, VALUED)
    ]
    return Table(("row", "element", "expected", "got"), tuple(cells))


def regions_of(layout: RecordLayout) -> tuple[Region, ...]:
    """The parts of a row, with the blocks of latents that share a scale."""
    latent = Region("latent", 0, layout.latent.count, layout.block if layout.scales.count else 0)
    if not layout.rope.count:
        return (latent,)
    return latent, Region("RoPE", layout.latent.count, layout.row)


def _parts(layout: RecordLayout, wrong: npt.NDArray[np.bool_]) -> list[str]:
    parts = regions_of(layout)
    told = [f"{int(wrong[:, part.start : part.end].sum()):,} {part.name}" for part in parts]
    return [f"of them {', '.join(told)}"] if len(parts) > 1 and wrong.any() else []


def _map(case: GatherCase, rows: Rows, wrong: npt.NDArray[np.bool_], differing: npt.NDArray[np.int64]) -> Map:
    kept = {int(row): number for number, row in enumerate(rows.at)}
    shown = tuple(
        MapRow(int(row), row_line(case, int(row)), np.flatnonzero(wrong[kept[row]]) if row in kept else differing[:0])
        for row in map(int, rows_to_map(differing, rows.known))
    )
    title = "rows of dst, and elements that differ"
    groups = np.unique(case.sources.request, return_index=True)[1]
    return Map(
        title, case.layout.row, rows.total, shown, differing, rows.known, regions_of(case.layout), groups=tuple(groups)
    )


def _lanes(case: GatherCase, differing: npt.NDArray[np.int64], known: int) -> tuple[tuple[Lane, ...], str]:
    sources = case.sources
    if not len(sources.request):
        return (), ""
    owners, first = np.unique(sources.request, return_index=True)
    ends = np.append(first[1:], len(sources.request))
    hit = np.flatnonzero(np.isin(owners, sources.request[differing]))
    lanes = []
    for i in chosen_lanes(len(owners), hit):
        rows = np.arange(first[i], ends[i])
        token, start = sources.token[rows], int(sources.token[first[i]])
        wrong = token[np.isin(rows, differing)]
        unknown = int(token[0]) + max(0, min(len(rows), known - int(first[i]))) if known < case.num_rows else None
        boxes = boxes_of(start, start + len(rows), case.block_size, wrong, unknown, case.block_table[owners[i]])
        of_it = f"rows {first[i]:,} to {ends[i] - 1:,}, tokens {start:,} to {start + len(rows) - 1:,}"
        lanes.append(Lane(f"request {owners[i]}: {of_it}", boxes))
    left_out = len(owners) - len(lanes)
    return tuple(lanes), f"{counted(left_out, 'request')} more {'is' if left_out == 1 else 'are'} left out" * (
        left_out > 0
    )


def _search(fixture: Fixture, rows: Rows, nan: str) -> list[str]:
    seen = Observation(PATTERNS[fixture.poison], must_be_whole(fixture, rows))
    return [*look_into(GatherSighting(fixture.case, seen, nan, whole=False)).lines]
