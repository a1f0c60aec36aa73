"""Rounding a binary64 number to a shorter binary type, by one definition for all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Binary:
    """A binary type: digits of a normal number, the exponent of its least number 2^e, and its largest finite number."""

    name: str
    digits: int
    least: int
    largest: float

    def nearest(self, x: Reals) -> Reals:
        """Round to nearest, ties to even, an infinity where the nearest is beyond the largest; NaN stays."""
        _, exponent = np.frexp(x)
        unit = np.maximum(exponent - self.digits, self.least)
        # Scaling by a power of two is exact, and rint takes the even one on a tie.
        rounded = np.ldexp(np.rint(np.ldexp(x, -unit)), unit)
        infinite = np.copysign(np.inf, rounded)
        bounded: Reals = np.where(np.abs(rounded) > self.largest, infinite, rounded)
        return bounded


BINARIES = {
    np.dtype(np.uint16): Binary("bf16", 8, -133, (2 - 2.0**-7) * 2.0**127),
    np.dtype(np.float16): Binary("binary16", 11, -24, 65504.0),
    np.dtype(np.float32): Binary("binary32", 24, -149, (2 - 2.0**-23) * 2.0**127),
}
"""By what an array of that type is in NumPy; bf16 is uint16 encodings."""
