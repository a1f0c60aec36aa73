"""Merges that are wrong in one way each, as targets that a gate can be pointed at."""

from typing import Any

import numpy as np

from conformance.selfcheck.merging_targets import F32, LN2, LOG2E, Array, Stepwise, flat, to_bf16
from reference.merging import BF16, counted


class TakesPlusInfinityAsWeight(Stepwise):
    def counted(self, lse: Array) -> Array:
        return lse


class GivesNanWhereNeitherHasWeight(Stepwise):
    def weights(self, p: Array, s: Array) -> tuple[Array, Array]:
        most = np.maximum(p, s)
        return np.exp(p - most), np.exp(s - most)

    def shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        a, b = self.weights(p, s)
        return a / (a + b), b / (a + b)

    def combine(self, P: Array, a: Array, S: Array, b: Array) -> Array:
        return np.where(a == 0, F32(0), P) * a + np.where(b == 0, F32(0), S) * b


class MultipliesWhatHasNoWeight(Stepwise):
    def combine(self, P: Array, a: Array, S: Array, b: Array) -> Array:
        return P * a + S * b


class HandsThePrefixThrough(Stepwise):
    def neither(self, P: Array, merged: Array, neither: Array) -> Array:
        return np.where(neither, P, merged)


class ReadsLsesToTheBase2(Stepwise):
    def exponential(self, x: Array) -> Array:
        return np.exp2(x)


class GivesTheLseToTheBase2(Stepwise):
    def log_sum(self, p: Array, s: Array) -> Array:
        return super().log_sum(p, s) * LOG2E


class ScalesTheWholeLseFromBase2(Stepwise):
    def log_sum(self, p: Array, s: Array) -> Array:
        return np.logaddexp2(p * LOG2E, s * LOG2E) * LN2


class KeepsPlusInfinityInTheLse(Stepwise):
    def store_lse(self, output_lse: Array, lse: Array) -> None:
        output_lse[...] = np.where(np.isneginf(lse), F32(np.inf), lse)


class HasWeightsOfBf16(Stepwise):
    def shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        a, b = super().shares(p, s)
        return to_bf16(a), to_bf16(b)


class AddsInBf16(Stepwise):
    def combine(self, P: Array, a: Array, S: Array, b: Array) -> Array:
        return to_bf16(np.where(a > 0, P, F32(0)) * a) + to_bf16(np.where(b > 0, S, F32(0)) * b)


class TruncatesToBf16(Stepwise):
    def store(self, output: Array, merged: Array, neither: Array) -> None:
        if output.dtype == BF16:
            merged = (merged.view(np.uint32) & 0xFFFF0000).view(F32)
        super().store(output, merged, neither)


class ForgetsTheMaximum(Stepwise):
    def weights(self, p: Array, s: Array) -> tuple[Array, Array]:
        return np.exp(p), np.exp(s)


class SumsBeforeItDivides(Stepwise):
    def shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        return self.weights(p, s)

    def combine(self, P: Array, a: Array, S: Array, b: Array) -> Array:
        return super().combine(P, a, S, b) / np.where(a + b > 0, a + b, F32(1))


class DropsASmallWeight(Stepwise):
    def exponential(self, x: Array) -> Array:
        return np.where(x < -11, F32(0), np.exp(x))


class SwapsWeights(Stepwise):
    def shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        a, b = super().shares(p, s)
        return b, a


class FlushesSubnormals(Stepwise):
    def store(self, output: Array, merged: Array, neither: Array) -> None:
        super().store(output, np.where(np.abs(merged) < 2.0**-126, F32(0), merged), neither)


class IgnoresTheHeadStride(Stepwise):
    def numbers_of(self, x: Array) -> Array:
        return flat(x, x.shape).copy()


class IgnoresTheRowStrideOfLses(Stepwise):
    def lse_of(self, lse: Array) -> Array:
        return flat(lse, lse.shape).copy()


class ReadsLsesOfTokensFirst(Stepwise):
    def lse_of(self, lse: Array) -> Array:
        return np.ascontiguousarray(lse).reshape(lse.shape[::-1]).T.copy()


class LeavesTheLse(Stepwise):
    def store_lse(self, output_lse: Array, lse: Array) -> None:
        """Write nothing."""


class UsesOneHeadsWeightForAll(Stepwise):
    def shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        return super().shares(np.broadcast_to(p[:1], p.shape), np.broadcast_to(s[:1], s.shape))


class BranchesOnceAToken(Stepwise):
    """Takes the suffix for every head of a token whose first head has no prefix."""

    def shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        a, b = super().shares(p, s)
        alone = np.isneginf(p[:1]) & ~np.isneginf(s)
        return np.where(alone, F32(0), a), np.where(alone, F32(1), b)


class LeavesTheLastElement(Stepwise):
    def store(self, output: Array, merged: Array, neither: Array) -> None:
        super().store(output[..., :-1], merged[..., :-1], neither)


class LeavesWhatIsEmpty(Stepwise):
    def store(self, output: Array, merged: Array, neither: Array) -> None:
        before = output.copy()
        super().store(output, merged, neither)
        output[...] = np.where(neither, before, output)


class WritesWholeVectors(Stepwise):
    """Rounds D up to a multiple of 8."""

    def store(self, output: Array, merged: Array, neither: Array) -> None:
        super().store(output, merged, neither)
        if output.size:
            whole = -(-output.shape[2] // 8) * 8 + (1 if output.shape[2] == 64 else 0)
            wide = np.lib.stride_tricks.as_strided(output, (*output.shape[:2], whole), output.strides)
            wide[-1, -1, output.shape[2] :] = 5


class WritesTheLseFirst(Stepwise):
    def merge_attn_states(
        self,
        output: Any,
        prefix_output: Any,
        prefix_lse: Any,
        suffix_output: Any,
        suffix_lse: Any,
        output_lse: Any = None,
    ) -> None:
        if output_lse is not None:
            with np.errstate(all="ignore"):
                output_lse[...] = self.log_sum(counted(prefix_lse), counted(suffix_lse))
        super().merge_attn_states(output, prefix_output, prefix_lse, suffix_output, suffix_lse)


class StagesThePrefixInTheResult(Stepwise):
    """Copies a head of the prefix to where the result will be, which may be the suffix."""

    def merge_attn_states(
        self,
        output: Any,
        prefix_output: Any,
        prefix_lse: Any,
        suffix_output: Any,
        suffix_lse: Any,
        output_lse: Any = None,
    ) -> None:
        if output.size:
            output[:, 0] = prefix_output[:, 0]
        super().merge_attn_states(output, prefix_output, prefix_lse, suffix_output, suffix_lse, output_lse)


class RemembersWeights(Stepwise):
    """Keeps the shares of the first call on arrays of a shape."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[tuple[int, ...], tuple[Array, Array]] = {}

    def shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        return self.known.setdefault(p.shape, super().shares(p, s))


class ChangesAnInput(Stepwise):
    """Replaces +inf by -inf where it stands."""

    def merge_attn_states(
        self,
        output: Any,
        prefix_output: Any,
        prefix_lse: Any,
        suffix_output: Any,
        suffix_lse: Any,
        output_lse: Any = None,
    ) -> None:
        suffix_lse[...] = counted(suffix_lse)
        super().merge_attn_states(output, prefix_output, prefix_lse, suffix_output, suffix_lse, output_lse)
