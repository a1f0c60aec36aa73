"""GatherCase: the blocks of its cache, and the bytes of its records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from conformance.shrinking.elements import Array, Simpler, simplified, zero
from conformance.shrinking.gathers import in_first_block
from conformance.shrinking.steps import Steps, renumbered, tried
from fixtures.cases import GatherCase
from reference.records import Field, RecordLayout

SMALL = 1 << 20
"""Bytes up to which a cache holds all of its blocks."""
MOST_ENTRIES = 1 << 20
"""Of a table, for blocks to be cut up."""


def blocks(case: GatherCase) -> Steps[GatherCase]:
    """The blocks that are needed, numbered from 0; else those alone; else with numbers as low as can be."""
    return (yield from renumbered(case, _numbers, _renumbered, _differ))


def one_block(case: GatherCase) -> Steps[GatherCase]:
    """One block for all entries of the table."""
    if len(numbers := _numbers(case)) > 1:
        table = np.full(case.block_table.shape, numbers[0], np.int32)
        case = yield from tried(case, [replace(case, block_table=table)])
    return case


def small_blocks(case: GatherCase) -> Steps[GatherCase]:
    """Blocks of a few records, for which the table needs no more columns."""
    size, needed = case.block_size, case.sources.column.max(initial=0)
    if case.block_numbers is not None or case.block_table.size * size > MOST_ENTRIES:
        return case
    smaller = (_cut_up(case, few) for few in range(1, size) if size % few == 0)
    return (yield from tried(case, (cut for cut in smaller if cut.sources.column.max(initial=0) <= needed)))


def records(case: GatherCase) -> Steps[GatherCase]:
    """Records of zeros, then fields, bytes and nibbles; what has to stay is 1, if it can be."""
    fields = [field for field in _fields(case.layout) if field.count]
    changes = [zero, *(_within(field, zero) for field in fields)]
    changes += [_within(field, change) for field in fields for change in _simpler(field)]
    for change in changes:
        case = yield from simplified(case, _needed, _with_needed, change)
    return case


def _entries(case: GatherCase) -> npt.NDArray[np.bool_]:
    """Table entries that are needed; of a row that all requests share by any of them."""
    used = case.used_entries
    return np.broadcast_to(used.any(axis=0), used.shape) if case.arrangement.table_is_broadcast else used


def _numbers(case: GatherCase) -> list[int]:
    numbers: list[int] = np.unique(case.block_table[_entries(case)]).tolist()
    return numbers


def _renumbered(case: GatherCase, numbers: list[int]) -> GatherCase:
    """The needed blocks under other numbers, also ascending, and no others that matter; spare entries name one."""
    used = _entries(case)
    if not numbers:
        table = np.zeros_like(case.block_table)
        return replace(case, records=case.records[:1], block_table=table, block_numbers=None)
    old, place = np.unique(case.block_table[used], return_inverse=True)
    new = np.array(numbers, np.int32)
    table = np.full(case.block_table.shape, new[0], np.int32)
    table[used] = new[place]
    held = case.records[old if case.block_numbers is None else np.searchsorted(case.block_numbers, old)]
    if (numbers[-1] + 1) * held[0].nbytes > SMALL and numbers[-1] >= len(numbers):
        return replace(case, records=held, block_table=table, block_numbers=new)
    every = np.zeros((numbers[-1] + 1, *held.shape[1:]), np.uint8)
    every[new] = held
    return replace(case, records=every, block_table=table, block_numbers=None)


def _differ(one: GatherCase, other: GatherCase) -> bool:
    sizes = [(case.num_blocks, len(case.records)) for case in (one, other)]
    return sizes[0] != sizes[1] or not np.array_equal(one.block_table, other.block_table)


def _cut_up(case: GatherCase, size: int) -> GatherCase:
    pieces, records = case.block_size // size, case.records.reshape(-1, size, case.layout.nbytes)
    table = (case.block_table[..., None] * pieces + np.arange(pieces)).astype(np.int32)
    table = table.reshape(case.batch_size, case.block_table.shape[1] * pieces)
    return in_first_block(replace(case, records=records, block_table=table))


def _fields(layout: RecordLayout) -> tuple[Field, ...]:
    return layout.latent, layout.rope, layout.scales


def _needed(case: GatherCase) -> Array:
    return case.records[case.used_records]


def _with_needed(case: GatherCase, needed: Array) -> GatherCase:
    records = np.zeros(case.records.shape, np.uint8)
    records[case.used_records] = needed
    return replace(case, records=records)


def _within(field: Field, change: Simpler) -> Simpler:
    def simpler(records: Array) -> Array:
        changed = records.copy()
        changed[:, field.offset : field.end] = change(records[:, field.offset : field.end])
        return changed

    return simpler


def _simpler(field: Field) -> tuple[Simpler, ...]:
    if field.per_byte == 2:
        return (lambda stored: stored & np.uint8(0x0F), lambda stored: stored & np.uint8(0xF0), _codes_of_one)
    one = np.tile(_ONES[field.scalar.nbytes], field.count)
    return (lambda stored: np.where(stored == 0, stored, one),)


def _codes_of_one(stored: Array) -> Array:
    low, high = stored & np.uint8(0x0F), stored & np.uint8(0xF0)
    return np.where(low, np.uint8(0x02), low) | np.where(high, np.uint8(0x20), high)


_ONES = {
    1: np.array([0x38], np.uint8),
    2: np.array([0x3F80], "<u2").view(np.uint8),
    4: np.array([1], "<f4").view(np.uint8),
}
"""The bytes of 1, by how many there are."""
