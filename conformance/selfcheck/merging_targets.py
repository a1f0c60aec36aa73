"""Merges that are right in another way than the golden model."""

import numpy as np

from conformance.faults.stepwise import F32, LN2, LOG2E, Array, Stepwise
from reference.merging import counted


class OfBase2(Stepwise):
    """Right: exponentials and logarithms to the base 2 of what is left of the maximum."""

    def _exponential(self, x: Array) -> Array:
        return np.exp2(x * LOG2E)

    def _log_sum(self, p: Array, s: Array) -> Array:
        a, b = self._weights(p, s)
        return np.where(a + b > 0, np.log2(a + b) * LN2 + np.maximum(p, s), F32(-np.inf))


class Online(Stepwise):
    """Right: the prefix is rescaled when the suffix comes, as an online softmax does it."""

    def _shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        most = np.where(np.isneginf(np.maximum(p, s)), F32(0), np.maximum(p, s))
        rescaled, new = np.exp(p - most), np.exp(s - most)
        inverse = F32(1) / np.where(rescaled + new > 0, rescaled + new, F32(1))
        return rescaled * inverse, new * inverse


class InBinary64(Stepwise):
    """Right: binary64 throughout."""

    def _counted(self, lse: Array) -> Array:
        return counted(lse).astype(np.float64)


class BySigmoid(Stepwise):
    """Right: the logistic function of the difference, and logaddexp."""

    def _shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        def sigmoid(mine: Array, other: Array) -> Array:
            return np.where(np.isneginf(mine), F32(0), F32(1) / (F32(1) + np.exp(other - mine)))

        return sigmoid(p, s), sigmoid(s, p)

    def _log_sum(self, p: Array, s: Array) -> Array:
        return np.logaddexp(p, s)


class WithTheWorstExponential(Stepwise):
    """Right: every weight and logarithm as far off as SPEC.md's derivation lets it be."""

    up = 1

    def _exponential(self, x: Array) -> Array:
        d = np.minimum(np.abs(x), F32(104)).astype(np.float64)
        return (np.exp(x.astype(np.float64)) * (1 + self.up * (4 * d + 4 * (d > 0)) * 2.0**-24)).astype(F32)

    def _log_sum(self, p: Array, s: Array) -> Array:
        a, b = self._weights(p, s)
        log = np.log(a + b) + F32(self.up * 7 * 2.0**-24)
        one = np.isneginf(p) | np.isneginf(s)  # then exact
        return np.where(one, np.maximum(p, s), log + np.maximum(p, s))


class WithTheWorstExponentialBelow(WithTheWorstExponential):
    """Right: the same to the other side."""

    up = -1


RIGHT = (Stepwise, OfBase2, Online, InBinary64, BySigmoid, WithTheWorstExponential, WithTheWorstExponentialBelow)
