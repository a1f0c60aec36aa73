"""Time planners on a batch of 1,024 requests, beside the golden model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from conformance.judge import Judge
from conformance.plans import PlanCase, judge_plan
from conformance.targets.base import Target
from conformance.targets.models import NumpyTarget

REQUESTS = 1024
LONGEST = (2_048, 8_192, 65_536)
ROWS, ALIGNMENT = 65_536, 64
REPEATS = 15


@dataclass(frozen=True)
class Planned:
    """Hold the median microseconds of a plan and its number of chunks."""

    target: str
    longest: int
    chunks: int
    microseconds: float


def batch(longest: int) -> PlanCase:
    """Return a batch of 1,024 contexts of up to `longest` tokens, for a workspace of 65,536 rows.

    Every seventeenth context is empty.

    Returns:
        The case, the same in every call.

    """
    lengths = np.random.Generator(np.random.Philox(7)).integers(0, longest + 1, REQUESTS)
    lengths[::17] = 0
    return PlanCase(tuple(int(n) for n in lengths), ROWS, ROWS, ALIGNMENT)


def bench_plans(targets: Sequence[Target], repeats: int = REPEATS) -> list[Planned]:
    """Return the times of the golden model and of the targets on each batch.

    Each plan is judged before it is timed. Differs, Crashed or Unsupported pass through to the caller.

    Returns:
        The times, in the order of LONGEST, then of targets.

    """
    others = [target for target in targets if target.name != "numpy"]
    return [_planned(target, longest, repeats) for longest in LONGEST for target in (NumpyTarget(), *others)]


def show(planned: Sequence[Planned], console: Console) -> None:
    """Print the times, and their ratio to the golden model's."""
    table = Table("target", "requests", "contexts up to", "chunks", "ms a plan", "ratio", box=None)
    of_the_model = {each.longest: each.microseconds for each in planned if each.target == "numpy"}
    for each in planned:
        ratio = each.microseconds / of_the_model[each.longest]
        sizes = (f"{REQUESTS:,}", f"{each.longest:,}", f"{each.chunks:,}")
        table.add_row(each.target, *sizes, f"{each.microseconds / 1000:.2f}", f"{ratio:.2f}")
    console.print(table)


def _planned(target: Target, longest: int, repeats: int) -> Planned:
    case = batch(longest)
    judge_plan(Judge(target, ["PLAN"]), case)
    chunks = len(target.plan_mla_context_chunks(*case.arguments))
    times = [_seconds(lambda: target.plan_mla_context_chunks(*case.arguments)) for _ in range(repeats)]
    return Planned(target.name, longest, chunks, 1e6 * float(np.median(times)))


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
