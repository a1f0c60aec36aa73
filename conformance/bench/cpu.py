"""Time gathers of arrays on the CPU: one call at a time, by wall clock."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from conformance.bench.outcome import FAILURES, Outcome, expected_rows, failed, measured, wrong_bits
from conformance.bench.results import Measurement
from conformance.bench.workloads import ROW, Case, Workload, rows_to_check, workload
from conformance.generation import Random
from conformance.memory import Region
from conformance.observe import call
from conformance.targets.base import Target
from fixtures.placement import POISONS, Placement

WALL_CLOCK = "wall clock"


def bench(targets: Sequence[Target], case: Case, repeats: int) -> list[Measurement]:
    """Return a case's measurements on targets. The first measured target is the reference of the others' ratios."""
    outcomes = _outcomes(targets, case, repeats)
    first = next((ended.microseconds for ended in outcomes if ended.microseconds is not None), None)
    return [
        Measurement(target.name, "cpu", **vars(case), **vars(ended), first_microseconds=first)
        for target, ended in zip(targets, outcomes, strict=True)
    ]


def _outcomes(targets: Sequence[Target], case: Case, repeats: int) -> list[Outcome]:
    try:
        work = workload(case)
        cache = Random(0).bytes(work.cache_shape)
    except MemoryError as error:
        return [failed(error) for _ in targets]
    return [_gather_time(target, work, cache, repeats) for target in targets]


def _gather_time(target: Target, work: Workload, cache: npt.NDArray[np.uint8], repeats: int) -> Outcome:
    try:
        regions = _regions(target, work, cache)
        call(target, regions, batch_size=work.case.requests)
        target.memory.synchronize()
        rows = rows_to_check(work)
        expected = expected_rows(work, rows, lambda blocks, slots: cache[blocks, slots])
        observed = target.memory.read(regions["dst"])[rows]
        wrong = wrong_bits(expected, observed, rows, target.nan, "after one call")
        if wrong:
            return wrong
        return measured([_call_time(target, regions, work) for _ in range(repeats)], WALL_CLOCK)
    except FAILURES as error:
        return failed(error)


def _call_time(target: Target, regions: dict[str, Region], work: Workload) -> float:
    start = time.perf_counter()
    call(target, regions, batch_size=work.case.requests)
    target.memory.synchronize()
    return 1e6 * (time.perf_counter() - start)


def _regions(target: Target, work: Workload, cache: npt.NDArray[np.uint8]) -> dict[str, Region]:
    arrays: dict[str, npt.NDArray[np.generic]] = {
        "src_cache": cache,
        "dst": np.full((work.case.rows, ROW), POISONS[0].dst, np.uint16),
        "block_table": work.block_table,
        "workspace_starts": work.workspace_starts,
        "seq_starts": work.seq_starts,
    }
    return {name: target.memory.place(_packed(data)) for name, data in arrays.items()}


def _packed(data: npt.NDArray[np.generic]) -> Placement:
    strides = tuple(stride // data.itemsize for stride in data.strides)
    return Placement(data, strides, before=0, after=0, poison=0)
