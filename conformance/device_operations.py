"""The operators that SPEC.md's chapter DEVICE binds: what each is called with, writes, and should have written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.generation import Geometry, realize
from conformance.generics import over, with_spare_rows
from conformance.judge import Judge, expected_rows, needed_by
from conformance.memory import Region
from conformance.merge_generation import encode
from conformance.merges import call_merge
from conformance.observe import call
from conformance.targets.base import GATHER, GATHER_FP8, GATHER_GENERIC, MERGE, WRITES, Target
from conformance.twins import as_twin
from conformance.write_generation import Slots
from conformance.write_generation import realize as realize_write
from conformance.writes import call_write
from fixtures.cases import GatherCase
from fixtures.merge_cases import MergeCase, place_merge
from fixtures.placement import POISONS, Placement, others, place
from fixtures.write_cases import WriteCase, place_write
from reference.records import GENERIC

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
    served: Callable[[Judge, Any], Any] = lambda judge, case: case
    """A case as the target can be asked: without starts if it claims none."""

    def variants_for(self, judge: Judge) -> list[Any]:
        """Return the variants as the target can be asked them."""
        return [self.served(judge, case) for case in self.variants()]


def _twins() -> list[GatherCase]:
    return [as_twin(case, seed) for seed, case in enumerate(_gathers())]


def _generics() -> list[GatherCase]:
    requests = [(37, 3), (0, 9), (5, 61), (64, 0), (1, 200), (130, 7)]
    cases = []
    for turn in range(3):
        lengths, starts = zip(*requests[turn:], *requests[:turn], strict=True)
        cases.append(_generic(realize(Geometry(64, lengths, starts, extra_columns=4), turn), 2 * turn))
    return cases


def _generic(case: GatherCase, seed: int) -> GatherCase:
    """Over "fp8", whose scale has to be read; seeds of one parity give it one shape."""
    return with_spare_rows(over(case, GENERIC["fp8", 576], seed), 0)


def _gathers() -> list[GatherCase]:
    lengths = (37, 0, 5, 64, 1, 130)
    starts = ((3, 9, 61, 0, 200, 7), (64, 0, 1, 5, 63, 65), (0, 2, 130, 17, 8, 66))
    return [realize(Geometry(64, lengths, each, extra_columns=4), seed) for seed, each in enumerate(starts)]


def _writes(form: str) -> list[WriteCase]:
    return [realize_write(Slots(237, 16, skipped=9), seed, form) for seed in range(3)]


def _merge(tokens: int, seed: int) -> MergeCase:
    """Partials of equal or no weight, of which every target within MERGE-1's bounds makes the same bits.

    The mean of two integers from 1 to 63 is a bf16, and the bounds are narrower than the way to its neighbours.
    """
    rng = np.random.default_rng(seed)
    shape = (tokens, 5, 96)
    prefix, suffix = (encode(rng.integers(1, 64, shape), "bf16") for _ in range(2))
    lse = rng.normal(0, 9, (5, tokens)).astype(np.float32)
    without = rng.integers(0, 4, lse.shape)
    nothing = np.where(rng.random(lse.shape) < 0.5, np.float32(np.inf), np.float32(-np.inf))
    return MergeCase(prefix, np.where(without == 1, nothing, lse), suffix, np.where(without == 2, nothing, lse))


def _merged(judge: Judge, case: MergeCase) -> npt.NDArray[Any]:
    return encode(case.merged.output, "bf16")


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
        call=lambda target, regions, case: call(target, regions, case.layout, **others(case)),
        expected=lambda judge, case: expected_rows(case),
        served=lambda judge, case: judge.served(case),
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
GENERIC_GATHERING = _gathering("generic", GATHER_GENERIC, _generics, lambda: _generic(_long(), 2))
WRITING = _writing("write", "nvfp4_ds_mla")
WRITING_FP8 = _writing("write-fp8", "fp8_ds_mla")
MERGING = Operation(
    name="merge",
    output="output",
    claims=MERGE,
    needs=lambda case: MERGE,
    variants=lambda: [_merge(67, seed) for seed in range(3)],
    long=lambda: _merge(2000, 3),
    place=lambda case: place_merge(case, POISONS[0]),
    call=lambda target, regions, case: call_merge(target, case, regions),
    expected=_merged,
)
OPERATIONS = {
    operation.name: operation for operation in (GATHERING, TWIN, GENERIC_GATHERING, WRITING, WRITING_FP8, MERGING)
}
