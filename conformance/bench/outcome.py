"""Describe the end of a measurement, and check the bits that it timed."""

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
"""A function of int64 [N] blocks and int64 [N] slots of a cache that returns records, uint8 [N, 352]."""

FAILURES = (TargetError, MemoryError, RuntimeError)
"""Errors that end a measurement but not the run. CuPy and torch raise RuntimeError for an error of CUDA."""


@dataclass(frozen=True)
class Outcome:
    """Hold the median microseconds of a call and the way of timing, or another verdict and its reason."""

    verdict: str
    why: str = ""
    how: str = ""
    microseconds: float | None = None


def measured(microseconds: Sequence[float], how: str) -> Outcome:
    """Return the outcome of repeated measurements: the median of `microseconds`."""
    return Outcome(MEASURED, how=how, microseconds=statistics.median(microseconds))


def failed(error: BaseException) -> Outcome:
    """Return the outcome of one of FAILURES: "not judged" if memory ran out, else "crashed"."""
    said = " ".join((str(error) or type(error).__name__).split())[:200]
    if isinstance(error, MemoryError) or "OutOfMemoryError" in (type(error).__name__, said.partition(":")[0]):
        return Outcome(NOT_JUDGED, said)
    return Outcome(CRASHED, said)


def require_memory(needed: int, free: int) -> None:
    """Raise MemoryError if `needed` bytes exceed the `free` ones."""
    if needed > free:
        raise MemoryError(f"needs {needed / 2**30:.1f} GiB, {free / 2**30:.1f} GiB free")


def expected_rows(work: Workload, rows: Ints, records_of: RecordsOf) -> Bf16Bits:
    """Return the golden rows of dst with the numbers `rows`, int64 [N]: uint16 bf16 encodings [N, 576]."""
    source = work.sources
    blocks = work.block_table[source.request[rows], source.column[rows]].astype(np.int64)
    return read_records(NVFP4_DS_MLA, records_of(blocks, source.slot[rows]))


def wrong_bits(expected: Bf16Bits, observed: Bf16Bits, rows: Ints, nan: str, when: str) -> Outcome | None:
    """Return None if the sampled rows are right, else a "wrong bits" outcome with their number and `when`.

    expected, observed: uint16 bf16 encodings [N, 576]; rows: int64 [N], their numbers in dst; nan: the target's NaN
    rule.

    Returns:
        The outcome or None.

    """
    wrong = wrong_elements(expected, observed, nan).any(axis=1)
    if not wrong.any():
        return None
    first = rows[int(wrong.argmax())]
    return Outcome(WRONG_BITS, f"{int(wrong.sum())} of {len(rows)} rows looked at, the first is {first}; {when}")
