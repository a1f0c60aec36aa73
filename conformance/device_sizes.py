"""SPEC.md DEVICE-8 and DEVICE-9: every number of rows, and a workspace beyond 32 bits, compared where they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from conformance.device_setup import device_synchronize
from conformance.generation import Geometry, Random, realize
from conformance.judge import Judge, expected_rows
from conformance.memory import Region
from conformance.observe import TargetError, call
from conformance.verdict import Differs, NotJudged
from fixtures.cases import GatherCase
from fixtures.placement import POISONS, Placement, place

MOST_ROWS = (1 << 20) + 1
NUMBERS_OF_ROWS = (*range(1, 514), *((1 << power) + more for power in range(10, 21) for more in (-1, 0, 1)))

PERIOD = 4096
ROWS_BEYOND_32_BITS = 911 * PERIOD + 5
"""3,731,461 rows of 1,152 bytes and 576 elements: more than 2^32 bytes, more than 2^31 elements."""


def must_serve_every_number_of_rows(judge: Judge) -> None:
    """DEVICE-8: the first T rows of one gather, for all small T and around every power of two."""
    quarter = MOST_ROWS // 4
    lengths = (quarter, 1, 3 * quarter // 2, 0, MOST_ROWS - quarter - 1 - 3 * quarter // 2)
    case = judge.served(realize(Geometry(64, lengths, (5, 63, 130, 7, 1000), table="shared"), seed=8))
    regions = _placed(judge, place(case, POISONS[0]))
    golden = _placed(judge, {"dst": replace(place(case, POISONS[0])["dst"], data=expected_rows(case))})["dst"]
    device_synchronize()
    dst, width = regions["dst"], case.layout.row
    poison = golden.base[:1]
    for rows in NUMBERS_OF_ROWS:
        _call(judge, case, regions, dst.view[:rows])
        written, untouched = _split(dst, rows * width)
        expected, _ = _split(golden, rows * width)
        if bool((written != expected).any()) or any(bool((part != poison).any()) for part in untouched):
            raise Differs(judge.text("differs", [_where(written, expected, rows, width), repr(case)]))
        judge.count.add(rows, rows * width)
        written[:] = poison


def must_write_a_workspace_beyond_32_bits(judge: Judge) -> None:
    """DEVICE-9: rows that repeat every 4,096, so that a small cache and a small golden result tell of all."""
    short = realize(Geometry(64, (PERIOD,)), seed=9)
    columns = -(-ROWS_BEYOND_32_BITS // 64)
    table = np.resize(Random(9).permutation(PERIOD // 64), (1, columns)).astype(np.int32)
    short = replace(short, block_table=table[:, : PERIOD // 64].copy())
    placements = place(short, POISONS[0])
    placements["block_table"] = replace(placements["block_table"], data=table, strides=(columns, 1))
    placements["dst"] = _only_the_last_row(placements["dst"], ROWS_BEYOND_32_BITS)
    regions = _placed(judge, placements)
    golden = _placed(judge, {"dst": replace(place(short, POISONS[0])["dst"], data=expected_rows(short))})["dst"]
    device_synchronize()
    _call(judge, short, regions, regions["dst"].view)
    width = short.layout.row
    expected, _ = _split(golden, PERIOD * width)
    written, outside = _split(regions["dst"], ROWS_BEYOND_32_BITS * width)
    if any(bool((part != golden.base[:1]).any()) for part in outside):
        raise Differs(judge.text("differs", ["dst: written outside its rows"]))
    for first in range(0, ROWS_BEYOND_32_BITS, PERIOD):
        part = written[first * width : (first + PERIOD) * width]
        if bool((part != expected[: len(part)]).any()):
            where = _where(part, expected[: len(part)], len(part) // width, width, first)
            raise Differs(judge.text("differs", [where, f"{ROWS_BEYOND_32_BITS:,} rows that repeat every {PERIOD:,}"]))
    judge.count.add(ROWS_BEYOND_32_BITS, ROWS_BEYOND_32_BITS * width)


def _only_the_last_row(dst: Placement, rows: int) -> Placement:
    # All other rows are poison already, and need no image on the host.
    return replace(dst, data=dst.data[:1].copy(), at=np.array([rows - 1], np.int32))


def _placed(judge: Judge, placements: dict[str, Placement]) -> dict[str, Region]:
    try:
        return {name: judge.target.memory.place(placement) for name, placement in placements.items()}
    except MemoryError as error:
        raise NotJudged(f"too little memory on the device: {error}") from error


def _call(judge: Judge, case: GatherCase, regions: dict[str, Region], dst: Any) -> None:
    try:
        call(judge.target, regions, batch_size=case.batch_size, dst=dst)
    except TargetError as error:
        raise judge.crashed(case, error) from error
    device_synchronize()


def _split(region: Region, elements: int) -> tuple[Any, tuple[Any, Any]]:
    """The first elements of a packed region, and what lies before and behind them."""
    end = region.first + elements
    return region.base[region.first : end], (region.base[: region.first], region.base[end:])


def _where(written: Any, expected: Any, rows: int, width: int, first: int = 0) -> str:
    wrong = (written != expected).reshape(rows, width)
    number = int(wrong.sum())
    if not number:
        return f"T = {rows:,}: written outside its rows"
    row = int(wrong.any(1).reshape(-1).nonzero()[0][0])
    return f"T = {rows:,}: {number:,} elements differ, the first in row {first + row:,}"
