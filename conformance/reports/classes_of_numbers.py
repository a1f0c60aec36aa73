"""Define classes that several kinds of cases share: kinds of numbers, ranges of counts, slack in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.reports.coverage import Hit

KINDS = ("zero", "subnormal", "normal", "infinity", "NaN")
"""The kinds of a binary floating-point number, by its bits without the sign."""

FIRST_NORMAL = {2: 0x0080, 4: 0x0080_0000}
INFINITY = {2: 0x7F80, 4: 0x7F80_0000}
"""The encodings in bf16 and binary32, by their size in bytes."""

NAN_BYTES = ("none", "0x7F", "0xFF", "both")
"""Which of the two NaN bytes of e4m3 occur."""

CONTIGUOUS = "contiguous"


def kinds_of(bits: npt.NDArray[np.unsignedinteger[Any]]) -> Iterator[str]:
    """Yield each kind that occurs among numbers of any shape, bf16 as uint16 or binary32 as uint32."""
    size = bits.itemsize
    magnitudes = bits & ((1 << 8 * size - 1) - 1)
    bounds = (0, 1, FIRST_NORMAL[size], INFINITY[size], INFINITY[size] + 1)
    at_least = [int(np.count_nonzero(magnitudes >= bound)) for bound in bounds]
    for kind, many, fewer in zip(KINDS, at_least, [*at_least[1:], 0], strict=True):
        if many > fewer:
            yield kind


def nan_bytes(codes: npt.NDArray[np.uint8]) -> str:
    """Return which NaN bytes of e4m3 occur among uint8 codes, as a value of NAN_BYTES."""
    found = [name for name, byte in (("0x7F", 0x7F), ("0xFF", 0xFF)) if (codes == byte).any()]
    return "both" if len(found) == 2 else found[0] if found else "none"


def sized(*bounds: int) -> tuple[tuple[str, ...], Callable[[int], str]]:
    """Return the names of count ranges that begin at the bounds, and a function from a count to its range.

    The last range has no end. A range of one count has the count as its name.

    Returns:
        The names and the function.

    """
    ends = [bound - 1 for bound in bounds[1:]]
    names = [str(first) if first == end else f"{first} to {end}" for first, end in zip(bounds, ends, strict=False)]
    every = (*names, f"{bounds[-1]} and more")

    def which(count: int) -> str:
        return every[sum(count >= bound for bound in bounds) - 1]

    return every, which


def memory_hits(arrangement: Any, apart: str = "memory") -> Iterable[Hit]:
    """Return the fields of an arrangement that are not contiguous, as hits of the class `apart`."""
    slack = [name for name, value in vars(arrangement).items() if value]
    return [(apart, name) for name in slack or (CONTIGUOUS,)]
