"""How fast targets gather. Times stand in no test; they are for comparison within one run."""

from __future__ import annotations

import statistics
import time

from conformance.generation import Geometry, realize
from conformance.observe import call
from conformance.targets.base import Target
from fixtures.placement import POISONS, place


def measure(target: Target, rows: int, repeats: int) -> float:
    """Rows a second, the median of some gathers of `rows` rows: four requests, blocks of 64, unaligned starts."""
    lengths = (rows - rows // 2 - rows // 4 - rows // 8, rows // 2, rows // 4, rows // 8)
    case = realize(Geometry(64, lengths, (3, 70, 1, 500)), seed=0)
    regions = {name: target.memory.place(placement) for name, placement in place(case, POISONS[0]).items()}
    call(target, regions, case.batch_size)
    times = []
    for _ in range(repeats):
        target.memory.synchronize()
        start = time.perf_counter()
        call(target, regions, case.batch_size)
        target.memory.synchronize()
        times.append(time.perf_counter() - start)
    return rows / statistics.median(times)
