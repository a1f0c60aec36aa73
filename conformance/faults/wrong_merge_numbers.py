"""Merges with wrong numbers, in one way each, as targets."""

import numpy as np

from conformance.faults.stepwise import F32, LN2, LOG2E, Array, Stepwise, to_bf16
from reference.merging import BF16


class TakesPlusInfinityAsWeight(Stepwise):
    """An LSE of +inf is a weight, so that what is beside it counts for nothing or becomes NaN."""

    def _counted(self, lse: Array) -> Array:
        return lse


class GivesNanWhereNeitherHasWeight(Stepwise):
    """Two partials without weight give NaN, as -inf less -inf does."""

    def _weights(self, p: Array, s: Array) -> tuple[Array, Array]:
        most = np.maximum(p, s)
        return np.exp(p - most), np.exp(s - most)

    def _shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        a, b = self._weights(p, s)
        return a / (a + b), b / (a + b)

    def _combine(self, P: Array, a: Array, S: Array, b: Array) -> Array:
        return np.where(a == 0, F32(0), P) * a + np.where(b == 0, F32(0), S) * b


class MultipliesWhatHasNoWeight(Stepwise):
    """The output of a partial without weight is multiplied by 0, so that NaN and infinities stay."""

    def _combine(self, P: Array, a: Array, S: Array, b: Array) -> Array:
        return P * a + S * b


class HandsThePrefixThrough(Stepwise):
    """Two partials without weight give the prefix's output."""

    def _neither(self, P: Array, merged: Array, neither: Array) -> Array:
        return np.where(neither, P, merged)


class ReadsLsesToTheBase2(Stepwise):
    """LSEs are taken to be to the base 2."""

    def _exponential(self, x: Array) -> Array:
        return np.exp2(x)


class GivesTheLseToTheBase2(Stepwise):
    """Output_lse is to the base 2."""

    def _log_sum(self, p: Array, s: Array) -> Array:
        return super()._log_sum(p, s) * LOG2E


class ScalesTheWholeLseFromBase2(Stepwise):
    """Output_lse is a logarithm to the base 2, scaled."""

    def _log_sum(self, p: Array, s: Array) -> Array:
        return np.logaddexp2(p * LOG2E, s * LOG2E) * LN2


class KeepsPlusInfinityInTheLse(Stepwise):
    """Output_lse of no key is +inf."""

    def _store_lse(self, output_lse: Array, lse: Array) -> None:
        output_lse[...] = np.where(np.isneginf(lse), F32(np.inf), lse)


class HasWeightsOfBf16(Stepwise):
    """Weights are rounded to bf16."""

    def _shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        a, b = super()._shares(p, s)
        return to_bf16(a), to_bf16(b)


class AddsInBf16(Stepwise):
    """Products are rounded to bf16 before they are added."""

    def _combine(self, P: Array, a: Array, S: Array, b: Array) -> Array:
        return to_bf16(np.where(a > 0, P, F32(0)) * a) + to_bf16(np.where(b > 0, S, F32(0)) * b)


class TruncatesToBf16(Stepwise):
    """The result is cut off to bf16, not rounded."""

    def _store(self, output: Array, merged: Array, neither: Array) -> None:
        if output.dtype == BF16:
            merged = (merged.view(np.uint32) & 0xFFFF0000).view(F32)
        super()._store(output, merged, neither)


class ForgetsTheMaximum(Stepwise):
    """Exponentials are those of the LSEs themselves."""

    def _weights(self, p: Array, s: Array) -> tuple[Array, Array]:
        return np.exp(p), np.exp(s)


class SumsBeforeItDivides(Stepwise):
    """The sum of what is weighted overflows before it is divided."""

    def _shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        return self._weights(p, s)

    def _combine(self, P: Array, a: Array, S: Array, b: Array) -> Array:
        return super()._combine(P, a, S, b) / np.where(a + b > 0, a + b, F32(1))


class DropsASmallWeight(Stepwise):
    """A weight below e^-11 is taken for 0."""

    def _exponential(self, x: Array) -> Array:
        return np.where(x < -11, F32(0), np.exp(x))


class DropsAWeightJustBelow(Stepwise):
    """A weight below e^-12 is taken for 0."""

    def _exponential(self, x: Array) -> Array:
        return np.where(x < -12, F32(0), np.exp(x))


class SwapsWeights(Stepwise):
    """Each partial has the other's weight."""

    def _shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        a, b = super()._shares(p, s)
        return b, a


class FlushesSubnormals(Stepwise):
    """Subnormal results are flushed to 0."""

    def _store(self, output: Array, merged: Array, neither: Array) -> None:
        super()._store(output, np.where(np.abs(merged) < 2.0**-126, F32(0), merged), neither)


class TakesTheSuffixAlone(Stepwise):
    """The suffix is taken for both."""

    def _shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        return np.zeros_like(p), np.ones_like(s)

    def _log_sum(self, p: Array, s: Array) -> Array:
        return s
