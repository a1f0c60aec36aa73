"""Define merges, as targets, that give wrong numbers, in one way each."""

import numpy as np

from conformance.faults.stepwise import F32, LN2, LOG2E, Array, Stepwise, to_bf16
from reference.merging import BF16


class TakesPlusInfinityAsWeight(Stepwise):
    """Take an LSE of +inf for a weight: the other partial then has no weight, or becomes NaN."""

    def _counted(self, lse: Array) -> Array:
        return lse


class GivesNanWhereNeitherHasWeight(Stepwise):
    """Give NaN for two partials without weight, as -inf - (-inf) does."""

    def _weights(self, p: Array, s: Array) -> tuple[Array, Array]:
        most = np.maximum(p, s)
        return np.exp(p - most), np.exp(s - most)

    def _shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        a, b = self._weights(p, s)
        return a / (a + b), b / (a + b)

    def _combine(self, P: Array, a: Array, S: Array, b: Array) -> Array:
        return np.where(a == 0, F32(0), P) * a + np.where(b == 0, F32(0), S) * b


class MultipliesWhatHasNoWeight(Stepwise):
    """Multiply the output of a partial without weight by 0, so that NaN and infinities stay."""

    def _combine(self, P: Array, a: Array, S: Array, b: Array) -> Array:
        return P * a + S * b


class HandsThePrefixThrough(Stepwise):
    """Give the prefix's output for two partials without weight."""

    def _neither(self, P: Array, merged: Array, neither: Array) -> Array:
        return np.where(neither, P, merged)


class ReadsLsesToTheBase2(Stepwise):
    """Take the LSEs for logarithms to the base 2."""

    def _exponential(self, x: Array) -> Array:
        return np.exp2(x)


class GivesTheLseToTheBase2(Stepwise):
    """Give output_lse to the base 2."""

    def _log_sum(self, p: Array, s: Array) -> Array:
        return super()._log_sum(p, s) * LOG2E


class ScalesTheWholeLseFromBase2(Stepwise):
    """Compute output_lse to the base 2 and scale it to the base e."""

    def _log_sum(self, p: Array, s: Array) -> Array:
        return np.logaddexp2(p * LOG2E, s * LOG2E) * LN2


class KeepsPlusInfinityInTheLse(Stepwise):
    """Give +inf as the output_lse of no key."""

    def _store_lse(self, output_lse: Array, lse: Array) -> None:
        output_lse[...] = np.where(np.isneginf(lse), F32(np.inf), lse)


class HasWeightsOfBf16(Stepwise):
    """Round the weights to bf16."""

    def _shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        a, b = super()._shares(p, s)
        return to_bf16(a), to_bf16(b)


class AddsInBf16(Stepwise):
    """Round the products to bf16 before they are added."""

    def _combine(self, P: Array, a: Array, S: Array, b: Array) -> Array:
        return to_bf16(np.where(a > 0, P, F32(0)) * a) + to_bf16(np.where(b > 0, S, F32(0)) * b)


class TruncatesToBf16(Stepwise):
    """Truncate the result to bf16 instead of rounding it."""

    def _store(self, output: Array, merged: Array, neither: Array) -> None:
        if output.dtype == BF16:
            merged = (merged.view(np.uint32) & 0xFFFF0000).view(F32)
        super()._store(output, merged, neither)


class ForgetsTheMaximum(Stepwise):
    """Take exponentials of the LSEs without subtracting their maximum."""

    def _weights(self, p: Array, s: Array) -> tuple[Array, Array]:
        return np.exp(p), np.exp(s)


class SumsBeforeItDivides(Stepwise):
    """Divide after the weighted sum, which may overflow."""

    def _shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        return self._weights(p, s)

    def _combine(self, P: Array, a: Array, S: Array, b: Array) -> Array:
        return super()._combine(P, a, S, b) / np.where(a + b > 0, a + b, F32(1))


class DropsASmallWeight(Stepwise):
    """Take a weight below e^-11 for 0."""

    def _exponential(self, x: Array) -> Array:
        return np.where(x < -11, F32(0), np.exp(x))


class DropsAWeightJustBelow(Stepwise):
    """Take a weight below e^-12 for 0."""

    def _exponential(self, x: Array) -> Array:
        return np.where(x < -12, F32(0), np.exp(x))


class SwapsWeights(Stepwise):
    """Give each partial the weight of the other one."""

    def _shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        a, b = super()._shares(p, s)
        return b, a


class FlushesSubnormals(Stepwise):
    """Flush subnormal results to 0."""

    def _store(self, output: Array, merged: Array, neither: Array) -> None:
        super()._store(output, np.where(np.abs(merged) < 2.0**-126, F32(0), merged), neither)


class TakesTheSuffixAlone(Stepwise):
    """Give the suffix's output and LSE."""

    def _shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        return np.zeros_like(p), np.ones_like(s)

    def _log_sum(self, p: Array, s: Array) -> Array:
        return s
