"""Classes that kinds of cases share: numbers by kind, counts by size, what is not contiguous in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.reports.coverage import Hit

KINDS = ("zero", "subnormal", "normal", "infinity", "NaN")
"""A binary floating-point number by its bits, without the sign."""

FIRST_NORMAL = {2: 0x0080, 4: 0x0080_0000}
INFINITY = {2: 0x7F80, 4: 0x7F80_0000}
"""Of bf16 and of binary32, by their bytes."""

NAN_BYTES = ("none", "0x7F", "0xFF", "both")
"""Which of the two NaN bytes of e4m3 there are."""

CONTIGUOUS = "contiguous"


def kinds_of(bits: npt.NDArray[np.unsignedinteger[Any]]) -> Iterator[str]:
    """The kinds that some numbers have, bf16 or binary32 as unsigned integers, each once."""
    size = bits.itemsize
    magnitudes = bits & ((1 << 8 * size - 1) - 1)
    bounds = (0, 1, FIRST_NORMAL[size], INFINITY[size], INFINITY[size] + 1)
    at_least = [int(np.count_nonzero(magnitudes >= bound)) for bound in bounds]
    for kind, many, fewer in zip(KINDS, at_least, [*at_least[1:], 0], strict=True):
        if many > fewer:
            yield kind


def nan_bytes(codes: npt.NDArray[np.uint8]) -> str:
    """Which NaN of e4m3 some bytes hold."""
    found = [name for name, byte in (("0x7F", 0x7F), ("0xFF", 0xFF)) if (codes == byte).any()]
    return "both" if len(found) == 2 else found[0] if found else "none"


def sized(*bounds: int) -> tuple[tuple[str, ...], Callable[[int], str]]:
    """Ranges of counts that begin at each bound, by name, and the function that says which one a count is in.

    The last range has no end; a range of one count is named by it.
    """
    ends = [bound - 1 for bound in bounds[1:]]
    names = [str(first) if first == end else f"{first} to {end}" for first, end in zip(bounds, ends, strict=False)]
    every = (*names, f"{bounds[-1]} and more")

    def which(count: int) -> str:
        return every[sum(count >= bound for bound in bounds) - 1]

    return every, which


def memory_hits(arrangement: Any, apart: str = "memory") -> Iterable[Hit]:
    """What is not contiguous of an arrangement, by its fields."""
    slack = [name for name, value in vars(arrangement).items() if value]
    return [(apart, name) for name in slack or (CONTIGUOUS,)]
