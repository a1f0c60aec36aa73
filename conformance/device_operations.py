"""The operators that SPEC.md's chapter DEVICE binds: what each is called with, writes, and should have written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from conformance.generation import Geometry, realize
from conformance.judge import Judge, expected_rows
from conformance.memory import Region
from conformance.observe import call
from conformance.targets.base import Target
from conformance.write_generation import Slots
from conformance.write_generation import realize as realize_write
from conformance.writes import call_write
from fixtures.cases import GatherCase
from fixtures.placement import POISONS, Placement, place
from fixtures.write_cases import WriteCase, place_write

Call = Callable[[Target, dict[str, Region], Any], None]


@dataclass(frozen=True)
class Operation:
    """An operator with cases of its own. `output` is the argument it writes.

    `variants` are three cases of the same shapes, no two of which agree in any argument; `long` is one of some thousand
    rows or tokens; `expected` is the output after a call over the first poison.
    """

    name: str
    output: str
    variants: Callable[[], list[Any]]
    long: Callable[[], Any]
    place: Callable[[Any], dict[str, Placement]]
    call: Call
    expected: Callable[[Judge, Any], npt.NDArray[Any]]


def _gathers() -> list[GatherCase]:
    lengths = (37, 0, 5, 64, 1, 130)
    starts = ((3, 9, 61, 0, 200, 7), (64, 0, 1, 5, 63, 65), (0, 2, 130, 17, 8, 66))
    return [realize(Geometry(64, lengths, each, extra_columns=4), seed) for seed, each in enumerate(starts)]


def _writes() -> list[WriteCase]:
    return [realize_write(Slots(237, 16, skipped=9), seed) for seed in range(3)]


def _call_writer(target: Target, regions: dict[str, Region], case: WriteCase) -> None:
    call_write(target, {name: region.view for name, region in regions.items()}, case.kv_cache_dtype)


GATHERING = Operation(
    name="gather",
    output="dst",
    variants=_gathers,
    long=lambda: realize(Geometry(64, (1500, 7, 0, 2600), (77, 1, 0, 640)), seed=5),
    place=lambda case: place(case, POISONS[0]),
    call=lambda target, regions, case: call(target, regions, case.batch_size),
    expected=lambda judge, case: expected_rows(case),
)
WRITING = Operation(
    name="write",
    output="kv_cache",
    variants=_writes,
    long=lambda: realize_write(Slots(4000, 64, skipped=100), 5),
    place=lambda case: place_write(case, POISONS[0]),
    call=_call_writer,
    expected=lambda judge, case: case.written(POISONS[0], judge.target.profile),
)
OPERATIONS = {operation.name: operation for operation in (GATHERING, WRITING)}
