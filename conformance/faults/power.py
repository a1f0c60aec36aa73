"""Measure detection power: the number of cases until a fault of a gather shows, in usual data and in this suite's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from conformance.drawing import for_each
from conformance.faults.catalogue import FAULTS, Fault
from conformance.faults.steps import Call, in_memory
from conformance.generation import Geometry, realize
from conformance.judge import expected_rows
from conformance.strategies import gather_cases
from fixtures.cases import GatherCase
from fixtures.placement import POISONS
from reference.scalars import Bf16Bits, bf16_from_f32
from reference.writing import records_of

MOST = 200
SEEDS = range(10)


@dataclass(frozen=True)
class Power:
    """Hold the median number of cases until a fault shows, or None if MOST cases do not show it."""

    name: str
    usual: int | None
    suite: int | None


def powers(faults: Sequence[Fault] = FAULTS) -> list[Power]:
    """Return the detection power of each fault: medians over SEEDS."""
    usual, suite = _medians(faults, usual_cases), _medians(faults, suite_cases)
    return [Power(fault.name, usual[fault.name], suite[fault.name]) for fault in faults]


def usual_cases(seed: int, look: Callable[[GatherCase], None]) -> None:
    """Pass MOST cases, as in a test written by hand, to `look`."""
    for number in range(MOST):
        look(usual_case(seed, number))


def suite_cases(seed: int, look: Callable[[GatherCase], None]) -> None:
    """Pass MOST cases of the gate's random tests to `look`."""
    for_each(gather_cases(with_starts=True), MOST, seed, look)


def usual_case(seed: int, number: int) -> GatherCase:
    """Return a case as in a test written by hand: N(0, 1) records, starts at a block, contiguous arrays."""
    rng = np.random.default_rng([seed, number])
    requests = int(rng.integers(1, 5))
    lengths = tuple(int(n) for n in rng.integers(1, 200, requests))
    starts = tuple(64 * int(n) for n in rng.integers(0, 3, requests))
    case = realize(Geometry(64, lengths, starts, table="ascending"), seed=number)
    count = case.records.shape[0] * case.block_size
    latent, rope = (bf16_from_f32(rng.standard_normal((count, n)).astype(np.float32)) for n in (512, 64))
    records = records_of(latent, rope, "nvfp4_ds_mla", np.ones(1, np.float32))
    return replace(case, records=records.reshape(case.records.shape).view(np.uint8))


class _Counts:
    """Count the cases until each fault shows first."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.unseen = {fault.name: fault for fault in faults}
        self.seen: dict[str, int] = {}
        self.cases = 0

    def __call__(self, case: GatherCase) -> None:
        self.cases += 1
        if not self.unseen:
            return
        call, expected = in_memory(case, POISONS[0]), expected_rows(case)
        for fault in list(self.unseen.values()):
            if case.num_rows and _shows(fault, call, expected):
                self.seen[fault.name] = self.cases
                del self.unseen[fault.name]


def _shows(fault: Fault, call: Call, expected: Bf16Bits) -> bool:
    try:
        return bool((fault.gather(call) != expected).any())
    except IndexError:  # a read outside of all memory shows
        return True


def _medians(
    faults: Sequence[Fault], cases: Callable[[int, Callable[[GatherCase], None]], None]
) -> dict[str, int | None]:
    counts = []
    for seed in SEEDS:
        counts.append(_Counts(faults))
        cases(seed, counts[-1])
    middles = {fault.name: median(each.seen.get(fault.name, np.inf) for each in counts) for fault in faults}
    return {name: None if middle == np.inf else int(middle) for name, middle in middles.items()}
