"""WriteCase: fewer tokens, a smaller cache, nothing apart in memory, and simple numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from operator import attrgetter
from typing import Any

import numpy as np

from conformance.shrinking.elements import NUMBERS, Array, lies_as_given, simplified
from conformance.shrinking.steps import Steps, contiguous, lowered, removed, renumbered, tried
from fixtures.write_cases import PACKED, WriteArrangement, WriteCase

SMALL = 1 << 20
"""Bytes up to which a cache holds all of its blocks."""


def tokens(case: WriteCase) -> Steps[WriteCase]:
    """Leave out tokens, those that are skipped first."""
    skipped = case.slot_mapping < 0
    if skipped.any():
        case = yield from tried(case, [_of_tokens(case, ~skipped)])
    return (yield from removed(case, case.tokens, _without))


def skipped(case: WriteCase) -> Steps[WriteCase]:
    """Skip tokens by a slot of -1 alone."""
    plain = np.maximum(case.slot_mapping, -1)
    if (plain != case.slot_mapping).any():
        case = yield from tried(case, [replace(case, slot_mapping=plain)])
    return case


def blocks(case: WriteCase) -> Steps[WriteCase]:
    """The blocks that are written to, numbered from 0; else those alone; else with numbers as low as can be."""
    return (yield from renumbered(case, _numbers, _renumbered, _differ))


def slots(case: WriteCase) -> Steps[WriteCase]:
    """The first records of a block, and blocks of no more records than that."""
    for token in np.flatnonzero(case.slot_mapping >= 0):
        record = int(case.slot_mapping[token]) % case.block_size
        case = yield from lowered(case, record, partial(_with_record, int(token)))
    least = 1 + int((case.slot_mapping % case.block_size).max(initial=0, where=case.slot_mapping >= 0))
    return (yield from lowered(case, case.block_size - least, partial(_with_larger_blocks, least)))


def arrangement(case: WriteCase) -> Steps[WriteCase]:
    """Nothing apart in memory."""
    return (yield from contiguous(case, attrgetter("arrangement"), _with_arrangement, PACKED))


def scale(case: WriteCase) -> Steps[WriteCase]:
    """A scale of 1."""
    if case.scale != 1:
        case = yield from tried(case, [replace(case, scale=1.0)])
    return case


def numbers(case: WriteCase) -> Steps[WriteCase]:
    """Zeros in kv_c and k_pe; what has to stay is 1 or a power of two, if it can be."""
    for simpler, name in product(NUMBERS, ("kv_c", "k_pe")):
        case = yield from simplified(case, attrgetter(name), partial(_with_rows, name), simpler)
    return case


def check(case: WriteCase) -> None:
    """Raise ValueError for rows that share memory and differ."""
    strides = case.arrangement.input_strides or (1, 1)
    for name, array, stride in (("kv_c", case.kv_c, strides[0]), ("k_pe", case.k_pe, strides[1])):
        if not lies_as_given(array, (stride, 1)):
            raise ValueError(f"{name} has rows that differ in one place; allowed is one row for all")


def _with_arrangement(case: WriteCase, how: WriteArrangement) -> WriteCase:
    return replace(case, arrangement=how)


def _with_rows(name: str, case: WriteCase, rows: Array) -> WriteCase:
    changed: dict[str, Any] = {name: rows}
    return replace(case, **changed)


def _of_tokens(case: WriteCase, kept: Array) -> WriteCase:
    return replace(case, kv_c=case.kv_c[kept], k_pe=case.k_pe[kept], slot_mapping=case.slot_mapping[kept])


def _without(case: WriteCase, first: int, end: int) -> WriteCase:
    return _of_tokens(case, np.delete(np.arange(case.tokens), slice(first, end)))


def _numbers(case: WriteCase) -> list[int]:
    numbers: list[int] = np.unique(case.slot_mapping[case.slot_mapping >= 0] // case.block_size).tolist()
    return numbers


def _renumbered(case: WriteCase, numbers: list[int]) -> WriteCase:
    """The blocks that are written to under other numbers, also ascending, and no others that matter."""
    block, record = np.divmod(case.slot_mapping, case.block_size)
    old, new = (np.array(each or [0]) for each in (_numbers(case), numbers))
    new = new[np.searchsorted(old, block).clip(max=len(new) - 1)]
    moved = np.where(case.slot_mapping < 0, case.slot_mapping, new * case.block_size + record)
    count = numbers[-1] + 1 if numbers else 1
    nbytes = count * case.block_size * case.format.width * np.dtype(case.format.dtype).itemsize
    sparse = nbytes > SMALL and count > len(numbers)
    held = np.array(numbers, np.int32) if sparse else None
    return replace(case, slot_mapping=moved, num_blocks=count, block_numbers=held)


def _differ(one: WriteCase, other: WriteCase) -> bool:
    held = [None if case.block_numbers is None else case.block_numbers.tolist() for case in (one, other)]
    same = np.array_equal(one.slot_mapping, other.slot_mapping) and held[0] == held[1]
    return not same or one.num_blocks != other.num_blocks


def _with_record(token: int, case: WriteCase, record: int) -> WriteCase:
    moved = case.slot_mapping.copy()
    moved[token] += record - moved[token] % case.block_size
    return replace(case, slot_mapping=moved)


def _with_larger_blocks(least: int, case: WriteCase, by: int) -> WriteCase:
    size = least + by
    block, record = np.divmod(case.slot_mapping, case.block_size)
    moved = np.where(case.slot_mapping < 0, case.slot_mapping, block * size + record)
    return replace(case, slot_mapping=moved, block_size=size)
