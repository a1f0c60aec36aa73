"""Convert between float32 and the number formats e2m1, e4m3 and bf16 (SPEC.md SCALAR-1 to SCALAR-8)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.uint8]
Bf16Bits = npt.NDArray[np.uint16]

BF16_NAN = np.uint16(0x7FFF)


@dataclass(frozen=True)
class MiniFloat:
    """Describe a sign-magnitude format of at most eight bits by the magnitudes of its non-negative finite codes.

    `magnitudes` ascends, so that codes and magnitudes have the same order. A NaN is encoded as `nan_code`. The codes of
    either sign from `first_nan` on are NaN; there is no NaN code if `first_nan` is `sign_bit`.
    """

    name: str
    sign_bit: int
    magnitudes: tuple[float, ...]
    nan_code: int

    @property
    def nbytes(self) -> int:
        """The size of the smallest unit that holds codes: 1 byte."""
        return 1

    @property
    def first_nan(self) -> int:
        """The first code after the finite non-negative ones."""
        return len(self.magnitudes)

    @cached_property
    def values(self) -> Floats:
        """The value of every code (SCALAR-1, SCALAR-4): float32 [2 * sign_bit], read-only."""
        half = np.full(self.sign_bit, np.nan, np.float32)
        half[: self.first_nan] = self.magnitudes
        values = np.concatenate([half, -half])
        values.flags.writeable = False
        return values

    def decode(self, codes: Codes) -> Floats:
        """Return float32 values for uint8 codes, of the same shape (SCALAR-1, SCALAR-4)."""
        return self.values[codes]

    def encode(self, x: npt.ArrayLike) -> Codes:
        """Return uint8 codes for float32 of any shape: nearest, ties to even, saturating (SCALAR-2, 3, 5 and 6)."""
        given = np.asarray(x, np.float32)
        numbers = np.where(np.isnan(given), np.float32(0), given)
        magnitudes = np.array(self.magnitudes, np.float32)
        ties = (magnitudes[:-1] + magnitudes[1:]) / 2  # exact: one more mantissa bit than the format has
        below = np.searchsorted(ties, np.abs(numbers)).astype(np.uint8)
        on_tie = np.abs(numbers) == np.append(ties, np.inf)[below]
        code = np.where(on_tie & (below < len(ties)), below + (below & 1), below)
        signed = code | np.where(np.signbit(numbers), self.sign_bit, 0)
        return np.where(np.isnan(given), self.nan_code, signed).astype(np.uint8)


@dataclass(frozen=True)
class WideFloat:
    """Describe a little endian format of whole bytes. `dtype` is the NumPy dtype of its bits."""

    name: str
    dtype: str

    @property
    def nbytes(self) -> int:
        """The size of one number in bytes."""
        return np.dtype(self.dtype).itemsize


def _e4m3_magnitude(code: int) -> float:
    exponent, mantissa = code >> 3, code & 7
    return mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)


E2M1 = MiniFloat("e2m1", 0x8, (0, 0.5, 1, 1.5, 2, 3, 4, 6), nan_code=0x7)
E4M3 = MiniFloat("e4m3", 0x80, tuple(_e4m3_magnitude(code) for code in range(0x7F)), nan_code=0x7F)

BF16 = WideFloat("bf16", "<u2")
BINARY32 = WideFloat("binary32", "<f4")


def bf16_from_f32(x: npt.ArrayLike) -> Bf16Bits:
    """Return uint16 bf16 encodings of float32 numbers of any shape: nearest even, NaN to 0x7FFF (SCALAR-7 and 8)."""
    numbers = np.asarray(x, np.float32)
    bits = numbers.view(np.uint32)
    # Just under half of the discarded part, plus the kept part's last bit, carries exactly where rounding goes up. Only
    # a NaN can carry out of 32 bits.
    rounded = ((bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(numbers), BF16_NAN, rounded)


def f32_from_bf16(bits: Bf16Bits) -> Floats:
    """Return the exact float32 values of uint16 bf16 encodings of any shape."""
    return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)
