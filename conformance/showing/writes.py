"""A write as it is shown: slots of the cache's blocks, records that differ, bytes in the terms of the record."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from conformance.diagnosis.engine import look_into
from conformance.explain_write import element_line, record_line
from conformance.observe import Observation
from conformance.replaying.today import expected_today
from conformance.showing.gathers import PLACES, VALUED, VALUED_ROWS
from conformance.showing.memory import arrangement_in_words
from conformance.showing.paging import MOST_BOXES, MOST_LANES, chosen_lanes
from conformance.showing.rows import PATTERNS, Rows, must_be_whole, rows_of
from conformance.showing.text import counted, few, plain, runs
from conformance.showing.view import Box, Fact, Lane, Map, MapRow, Region, Table, View, first_of_each, rows_to_map
from conformance.writes import WriteSighting
from fixtures.store import Fixture
from fixtures.write_cases import WriteCase
from reference.profiles import PROFILES
from reference.records import FP8_DS_MLA, GENERIC, NVFP4_DS_MLA, RecordLayout
from reference.writing import LATENT

LAYOUTS = {
    "nvfp4_ds_mla": NVFP4_DS_MLA,
    "fp8_ds_mla": FP8_DS_MLA,
    "auto": GENERIC["auto", 576],
    "fp8": GENERIC["fp8", 576],
}
Hits = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def write_view(fixture: Fixture) -> View:
    """Everything that the file says of the difference."""
    case: WriteCase = fixture.case
    rows = rows_of(fixture, "cache", expected_today(fixture).get("cache"))
    if rows is None:
        lanes, left_out = _lanes(case, np.empty(0, np.int64), 0)
        return View(_geometry(fixture), lanes=lanes, lanes_title="the cache", lanes_left_out=left_out)
    wrong = rows.expected != rows.observed
    differing = rows.at[wrong.any(axis=1)]
    lanes, left_out = _lanes(case, differing, rows.known)
    return View(
        _geometry(fixture),
        tuple((*_place(case, rows, *at),) for at in first_of_each(wrong, PLACES, 1)),
        (rows.amount(wrong, "elements", "records"), *_parts(case, wrong)),
        rows.remarks,
        _values(case, rows, wrong) if wrong.any() else None,
        (_map(case, rows, wrong, differing),),
        lanes,
        "the cache",
        left_out,
        partial(_search, fixture, rows),
    )


def _geometry(fixture: Fixture) -> tuple[Fact, ...]:
    case: WriteCase = fixture.case
    skipped = int((case.slot_mapping < 0).sum())
    held = "" if case.block_numbers is None else f", of which {len(case.block_numbers):,} matter"
    shape = ", ".join(f"{n:,}" for n in (case.num_blocks, case.block_size, case.format.width))
    facts = {
        "tokens": f"{case.tokens:,}" + (f", of which {skipped:,} have no slot" if skipped else ""),
        "slots": few(case.slot_mapping),
        "cache": f"[{shape}]{held}; block size {case.block_size:,}",
        "scale": f"{case.scale:g}, of the tensor" if case.kv_cache_dtype == "fp8" else "",
        "memory": arrangement_in_words(case.arrangement),
        "pattern": fixture.poison,
        "origin": plain(case.origin),
    }
    return tuple((name, said) for name, said in facts.items() if said)


def _token(case: WriteCase, record: int) -> int | None:
    tokens = np.flatnonzero(case.held_slots == record)
    return int(tokens[0]) if len(tokens) else None


def _where(case: WriteCase, record: int) -> str:
    return record_line(case, _token(case, record), *divmod(record, case.block_size))


def _place(case: WriteCase, rows: Rows, number: int, place: int) -> tuple[str, str]:
    record = int(rows.at[number])
    want, got = int(rows.expected[number, place]), int(rows.observed[number, place])
    return _where(case, record), element_line(case, _token(case, record), place, want, got)


def _values(case: WriteCase, rows: Rows, wrong: Hits) -> Table:
    places = [_place(case, rows, *at) for at in first_of_each(wrong, VALUED_ROWS, VALUED)]
    cells = [(record, *told.partition(": ")[::2]) for record, told in places]
    return Table(("record", "what differs", "expected and got"), tuple(cells))


def regions_of(layout: RecordLayout, width: int) -> tuple[Region, ...]:
    """The fields of a record of so many elements; latents by blocks that share a scale."""
    fields = [field for field in (layout.latent, layout.rope, layout.scales) if field.count]
    if len(fields) == 1:
        return Region("latent", 0, LATENT), Region("RoPE", LATENT, width)
    steps = {"latent": layout.latent.nbytes // layout.scales.count}
    return tuple(
        Region(field.name, field.offset, field.end, steps.get(field.name, 0))
        for field in sorted(fields, key=lambda field: field.offset)
    )


def _regions(case: WriteCase) -> tuple[Region, ...]:
    return regions_of(LAYOUTS[case.kv_cache_dtype], case.format.width)


def _parts(case: WriteCase, wrong: Hits) -> list[str]:
    told = [f"{int(wrong[:, part.start : part.end].sum()):,} {part.name}" for part in _regions(case)]
    return [f"of them {', '.join(told)}"] if wrong.any() else []


def _map(case: WriteCase, rows: Rows, wrong: Hits, differing: Ints) -> Map:
    kept = {int(row): number for number, row in enumerate(rows.at)}
    shown = tuple(
        MapRow(row, _where(case, row), np.flatnonzero(wrong[kept[row]]) if row in kept else differing[:0])
        for row in map(int, rows_to_map(differing, rows.known))
    )
    column = "byte" if case.format.dtype is np.uint8 else "element"
    groups = tuple(range(0, rows.total, case.block_size))
    title = f"records of the cache, and {column}s that differ"
    return Map(
        title, case.format.width, rows.total, shown, differing, rows.known, _regions(case), "record", column, groups
    )


def _lanes(case: WriteCase, differing: Ints, known: int) -> tuple[tuple[Lane, ...], str]:
    """A lane of boxes for every few blocks."""
    written = np.unique(case.held_slots[case.held_slots >= 0])
    used = np.union1d(written, differing) // case.block_size
    blocks = np.unique(used)
    hit = np.flatnonzero(np.isin(blocks, differing // case.block_size))
    chosen = [int(blocks[i]) for i in chosen_lanes(len(blocks), hit, MOST_LANES * MOST_BOXES // 2)]
    boxes = tuple(_box(case, block, written, differing, known) for block in chosen)
    lanes = (Lane(f"{counted(len(blocks), 'block')} with a slot that is written, or differs", boxes),) if boxes else ()
    left_out = len(blocks) - len(chosen)
    return lanes, f"{counted(left_out, 'block')} more left out" * (left_out > 0)


def _box(case: WriteCase, block: int, written: Ints, differing: Ints, known: int) -> Box:
    def slots(of: Ints) -> Ints:
        inside: Ints = of[of // case.block_size == block] - block * case.block_size
        return inside

    told = [(kind, a, b) for kind, of in (("read", written), ("wrong", differing)) for a, b in runs(slots(of))]
    end = (block + 1) * case.block_size
    unknown = [("unknown", max(0, known - block * case.block_size), case.block_size)] if known < end else []
    number = block if case.block_numbers is None else int(case.block_numbers[block])
    first = number * case.block_size
    caption = f"slots {first:,} to {first + case.block_size - 1:,}"
    return Box(number, caption, case.block_size, (*unknown, *told))


def _search(fixture: Fixture, rows: Rows) -> list[str]:
    case: WriteCase = fixture.case
    profile = PROFILES[str(fixture.about.get("profile"))]  # without which there was no image of today's
    image = must_be_whole(fixture, rows).reshape(-1, case.block_size, case.format.width)
    seen = Observation(PATTERNS[fixture.poison], image)
    return [*look_into(WriteSighting((case,), seen, profile, alone=False)).lines]
