"""How a measurement ended, and whether the bits it timed are right."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from conformance.bench.results import CRASHED, MEASURED, NOT_JUDGED, WRONG_BITS
from conformance.bench.workloads import Workload
from conformance.observe import TargetError, wrong_elements
from reference.reading import read_records
from reference.records import NVFP4_DS_MLA
from reference.scalars import Bf16Bits

Ints = npt.NDArray[np.int64]
RecordsOf = Callable[[Ints, Ints], npt.NDArray[np.uint8]]
"""int64 [N] blocks and int64 [N] slots of a cache -> uint8 [N, 352]."""

FAILURES = (TargetError, MemoryError, RuntimeError)
"""What ends a measurement and not the run; both CuPy and torch raise a RuntimeError for what CUDA reports."""


@dataclass(frozen=True)
class Outcome:
    """The median microseconds of a call and how they were taken, or a verdict other than "measured" and its reason."""

    verdict: str
    why: str = ""
    how: str = ""
    microseconds: float | None = None


def measured(microseconds: Sequence[float], how: str) -> Outcome:
    """The median of repeated measurements."""
    return Outcome(MEASURED, how=how, microseconds=statistics.median(microseconds))


def failed(error: BaseException) -> Outcome:
    """What one of FAILURES means: out of memory is no fault of a target's."""
    said = " ".join((str(error) or type(error).__name__).split())[:200]
    if isinstance(error, MemoryError) or "OutOfMemoryError" in (type(error).__name__, said.partition(":")[0]):
        return Outcome(NOT_JUDGED, said)
    return Outcome(CRASHED, said)


def require_memory(needed: int, free: int) -> None:
    """Raise MemoryError for arrays of `needed` bytes together where there are `free` ones."""
    if needed > free:
        raise MemoryError(f"needs {needed / 2**30:.1f} GiB, {free / 2**30:.1f} GiB free")


def expected_rows(work: Workload, rows: Ints, records_of: RecordsOf) -> Bf16Bits:
    """uint16 [N, 576]: what the golden model reads for these rows of dst."""
    source = work.sources
    blocks = work.block_table[source.request[rows], source.column[rows]].astype(np.int64)
    return read_records(NVFP4_DS_MLA, records_of(blocks, source.slot[rows]))


def wrong_bits(expected: Bf16Bits, observed: Bf16Bits, rows: Ints, nan: str, when: str) -> Outcome | None:
    """None where the sampled rows are right, else the outcome that says how many are not, and `when`."""
    wrong = wrong_elements(expected, observed, nan).any(axis=1)
    if not wrong.any():
        return None
    first = rows[int(wrong.argmax())]
    return Outcome(WRONG_BITS, f"{int(wrong.sum())} of {len(rows)} rows looked at, the first is {first}; {when}")
