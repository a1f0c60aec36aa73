"""The operators that SPEC.md's chapter DEVICE binds: what each is called with, writes, and should have written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy.typing as npt

from conformance.generation import Geometry, realize
from conformance.judge import Judge, expected_rows, needed_by
from conformance.memory import Region
from conformance.observe import call
from conformance.targets.base import GATHER, GATHER_FP8, WRITES, Target
from conformance.twins import as_twin
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

    `claims` is the capability without which DEVICE asks nothing of it, `needs` the one that a case needs.
    `variants` are three cases of the same shapes, no two of which agree in any argument; `long` is one of some thousand
    rows or tokens; `expected` is the output after a call over the first poison.
    """

    name: str
    output: str
    claims: str
    needs: Callable[[Any], str]
    variants: Callable[[], list[Any]]
    long: Callable[[], Any]
    place: Callable[[Any], dict[str, Placement]]
    call: Call
    expected: Callable[[Judge, Any], npt.NDArray[Any]]


def _twins() -> list[GatherCase]:
    return [as_twin(case, seed) for seed, case in enumerate(_gathers())]


def _gathers() -> list[GatherCase]:
    lengths = (37, 0, 5, 64, 1, 130)
    starts = ((3, 9, 61, 0, 200, 7), (64, 0, 1, 5, 63, 65), (0, 2, 130, 17, 8, 66))
    return [realize(Geometry(64, lengths, each, extra_columns=4), seed) for seed, each in enumerate(starts)]


def _writes(form: str) -> list[WriteCase]:
    return [realize_write(Slots(237, 16, skipped=9), seed, form) for seed in range(3)]


def _call_writer(target: Target, regions: dict[str, Region], case: WriteCase) -> None:
    call_write(target, {name: region.view for name, region in regions.items()}, case.kv_cache_dtype)


def _gathering(
    name: str, claims: str, variants: Callable[[], list[GatherCase]], long: Callable[[], GatherCase]
) -> Operation:
    return Operation(
        name=name,
        output="dst",
        claims=claims,
        needs=needed_by,
        variants=variants,
        long=long,
        place=lambda case: place(case, POISONS[0]),
        call=lambda target, regions, case: call(target, regions, case.batch_size, case.layout),
        expected=lambda judge, case: expected_rows(case),
    )


def _writing(name: str, form: str) -> Operation:
    return Operation(
        name=name,
        output="kv_cache",
        claims=WRITES[form],
        needs=lambda case: WRITES[form],
        variants=partial(_writes, form),
        long=lambda: realize_write(Slots(4000, 64, skipped=100), 5, form),
        place=lambda case: place_write(case, POISONS[0]),
        call=_call_writer,
        expected=lambda judge, case: case.written(POISONS[0], judge.target.profile),
    )


def _long() -> GatherCase:
    return realize(Geometry(64, (1500, 7, 0, 2600), (77, 1, 0, 640)), seed=5)


GATHERING = _gathering("gather", GATHER, _gathers, _long)
TWIN = _gathering("twin", GATHER_FP8, _twins, lambda: as_twin(_long()))
WRITING = _writing("write", "nvfp4_ds_mla")
WRITING_FP8 = _writing("write-fp8", "fp8_ds_mla")
OPERATIONS = {operation.name: operation for operation in (GATHERING, TWIN, WRITING, WRITING_FP8)}
