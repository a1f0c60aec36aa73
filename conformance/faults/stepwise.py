"""Merge two partials in binary32, step by step, so that wrong merges can replace a step."""

from typing import Any

import numpy as np

from conformance.merges import U
from conformance.targets.base import MERGE
from conformance.targets.models import NumpyTarget
from reference.merging import BF16, check_well_formed, counted, numbers
from reference.scalars import bf16_from_f32, f32_from_bf16

Array = Any
F32 = np.float32
LOG2E, LN2 = F32(np.log2(np.e)), F32(np.log(2))


def to_bf16(x: Array) -> Array:
    """Return float32 numbers rounded to bf16, as float32 of the same shape."""
    return f32_from_bf16(bf16_from_f32(x))


def flat(array: Array, shape: tuple[int, ...]) -> Array:
    """Return the memory from an array's first element on, as a contiguous array of that shape."""
    return np.lib.stride_tricks.as_strided(
        array, shape, [array.itemsize * int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    )


class Stepwise(NumpyTarget):
    """Merge correctly: weights e^(lse - max), shares, and the sum of the partials that have a share.

    In the steps P and S are float32 [T, H, D], and p and s are float32 [H, T].
    """

    capabilities = frozenset({MERGE})
    off = 0
    """Number of MERGE's bounds to move the results by. -1 and 1 give the ends of the allowed range."""

    def __init__(self) -> None:
        """Name the target by its module and class."""
        super().__init__()
        self.name = f"{type(self).__module__}:{type(self).__name__}"

    def merge_attn_states(
        self,
        output: Any,
        prefix_output: Any,
        prefix_lse: Any,
        suffix_output: Any,
        suffix_lse: Any,
        output_lse: Any = None,
    ) -> None:
        """Merge the partials. Raises ValueError for a malformed call."""
        check_well_formed(output, prefix_output, prefix_lse, suffix_output, suffix_lse, output_lse)
        self._run(output, prefix_output, prefix_lse, suffix_output, suffix_lse, output_lse)

    def _run(
        self,
        output: Any,
        prefix_output: Any,
        prefix_lse: Any,
        suffix_output: Any,
        suffix_lse: Any,
        output_lse: Any,
    ) -> None:
        with np.errstate(all="ignore"):
            p, s = (self._counted(self._lse_of(lse)) for lse in (prefix_lse, suffix_lse))
            lse = self._log_sum(p, s)
            a, b = (share.T[..., None].astype(F32) for share in self._shares(p, s))
            P, S = (numbers(self._numbers_of(x)).astype(F32) for x in (prefix_output, suffix_output))
            neither = np.isneginf(counted(np.maximum(counted(p), counted(s)))).T[..., None]
            bound = np.where((a > 0) & (b > 0), 32 * U * np.maximum(np.abs(P), np.abs(S)) + 2.0**-148, 0)
            self._store(output, self._neither(P, self._moved(self._combine(P, a, S, b), bound), neither), neither)
            if output_lse is not None:
                bound = np.where(np.isneginf(p) | np.isneginf(s), 0, U * (np.abs(lse) + 32))
                self._store_lse(output_lse, self._moved(lse, bound))

    def _moved(self, x: Array, bound: Array) -> Array:
        """Return x, float32 of any shape, moved by `off` bounds and rounded away. Exact or non-finite elements stay."""
        if not self.off:
            return x
        away = np.nextafter((x + self.off * bound).astype(F32), F32(self.off * np.inf))
        return np.where(np.isfinite(x) & (bound > 0), away, x)

    def _lse_of(self, lse: Array) -> Array:
        return lse.copy()

    def _numbers_of(self, x: Array) -> Array:
        return x.copy()

    def _counted(self, lse: Array) -> Array:
        return counted(lse)

    def _exponential(self, x: Array) -> Array:
        return np.exp(x)

    def _weights(self, p: Array, s: Array) -> tuple[Array, Array]:
        most = np.maximum(p, s)
        most = np.where(np.isneginf(most), F32(0), most)
        return self._exponential(p - most), self._exponential(s - most)

    def _shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        a, b = self._weights(p, s)
        total = np.where(a + b > 0, a + b, F32(1))
        return a / total, b / total

    def _log_sum(self, p: Array, s: Array) -> Array:
        a, b = self._weights(p, s)
        return np.where(a + b > 0, np.log(a + b) + np.maximum(p, s), F32(-np.inf))

    def _combine(self, P: Array, a: Array, S: Array, b: Array) -> Array:
        return np.where(a > 0, P, F32(0)) * a + np.where(b > 0, S, F32(0)) * b

    def _neither(self, P: Array, merged: Array, neither: Array) -> Array:
        return merged

    def _store(self, output: Array, merged: Array, neither: Array) -> None:
        output[...] = bf16_from_f32(merged) if output.dtype == BF16 else merged

    def _store_lse(self, output_lse: Array, lse: Array) -> None:
        output_lse[...] = lse
