"""Merges that are wrong about memory or about calls, in one way each, as targets."""

from typing import Any

import numpy as np

from conformance.faults.steps import strip_of
from conformance.faults.stepwise import F32, Array, Stepwise, flat
from reference.merging import counted


class OfWideHeads(Stepwise):
    """Has another path for heads that are wider than a block, which knows nothing of +inf."""

    def _counted(self, lse: Array) -> Array:
        return lse if self.wide else counted(lse)

    def _run(self, output: Any, *others: Any, **named: Any) -> None:
        self.wide = output.shape[2] > 512
        super()._run(output, *others, **named)


class OfStridedArrays(Stepwise):
    """Has another path for an input that is not contiguous, which multiplies what has no weight."""

    def _combine(self, P: Array, a: Array, S: Array, b: Array) -> Array:
        return P * a + S * b if self.strided else super()._combine(P, a, S, b)

    def _run(self, output: Any, prefix_output: Any, *others: Any, **named: Any) -> None:
        self.strided = not prefix_output.flags.c_contiguous
        super()._run(output, prefix_output, *others, **named)


class LeavesWhatIsInPlace(Stepwise):
    """Has nothing to do where the suffix has no weight and the result lies in the prefix."""

    def _run(
        self,
        output: Any,
        prefix_output: Any,
        prefix_lse: Any,
        suffix_output: Any,
        suffix_lse: Any,
        output_lse: Any,
    ) -> None:
        nothing, before = np.isneginf(counted(suffix_lse)).T[..., None], output.copy()
        in_place = output.ctypes.data == prefix_output.ctypes.data
        super()._run(output, prefix_output, prefix_lse, suffix_output, suffix_lse, output_lse)
        output[...] = np.where(nothing & in_place, before, output)


class IgnoresTheHeadStride(Stepwise):
    """The strides of the inputs' outputs are ignored."""

    def _numbers_of(self, x: Array) -> Array:
        return flat(x, x.shape).copy()


class IgnoresTheRowStrideOfLses(Stepwise):
    """The strides of the inputs' LSEs are ignored."""

    def _lse_of(self, lse: Array) -> Array:
        return flat(lse, lse.shape).copy()


class ReadsLsesOfTokensFirst(Stepwise):
    """LSEs are read as [T, H]."""

    def _lse_of(self, lse: Array) -> Array:
        return np.ascontiguousarray(lse).reshape(lse.shape[::-1]).T.copy()


class LeavesTheLse(Stepwise):
    """Output_lse is not written."""

    def _store_lse(self, output_lse: Array, lse: Array) -> None:
        """Write nothing."""


class UsesOneHeadsWeightForAll(Stepwise):
    """All heads of a token are merged by the first one's LSEs."""

    def _shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        return super()._shares(np.broadcast_to(p[:1], p.shape), np.broadcast_to(s[:1], s.shape))


class BranchesOnceAToken(Stepwise):
    """Takes the suffix for every head of a token whose first head has no prefix."""

    def _shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        a, b = super()._shares(p, s)
        alone = np.isneginf(p[:1]) & ~np.isneginf(s)
        return np.where(alone, F32(0), a), np.where(alone, F32(1), b)


class LeavesTheLastElement(Stepwise):
    """The last element of a head is not written."""

    def _store(self, output: Array, merged: Array, neither: Array) -> None:
        super()._store(output[..., :-1], merged[..., :-1], neither)


class LeavesWhatIsEmpty(Stepwise):
    """Output is not written where neither partial has weight."""

    def _store(self, output: Array, merged: Array, neither: Array) -> None:
        before = output.copy()
        super()._store(output, merged, neither)
        output[...] = np.where(neither, before, output)


class WritesWholeVectors(Stepwise):
    """Rounds D up to a multiple of 8."""

    def _store(self, output: Array, merged: Array, neither: Array) -> None:
        super()._store(output, merged, neither)
        if output.size:
            whole = -(-output.shape[2] // 8) * 8 + (1 if output.shape[2] == 64 else 0)
            wide = np.lib.stride_tricks.as_strided(output, (*output.shape[:2], whole), output.strides)
            wide[-1, -1, output.shape[2] :] = 5


class RoundsAddressesDown(Stepwise):
    """Loads vectors of 16 bytes from where the last multiple of 16 is."""

    def _numbers_of(self, x: Array) -> Array:
        beyond = x.ctypes.data % 16 // x.itemsize
        if not x.size or not beyond:
            return x.copy()
        strip = strip_of(x)
        return np.lib.stride_tricks.as_strided(strip.base[max(strip.first - beyond, 0) :], x.shape, x.strides).copy()


class HasOffsetsOf32Bits(Stepwise):
    """Reads outside of an array whose elements reach beyond 2^31."""

    def _numbers_of(self, x: Array) -> Array:
        last = sum((size - 1) * stride for size, stride in zip(x.shape, x.strides, strict=True)) // x.itemsize
        if last >= 1 << 31:
            raise IndexError("an output is read before its allocation")
        return x.copy()


class HasOffsetsOfLsesOf32Bits(Stepwise):
    """The same in an LSE."""

    def _lse_of(self, lse: Array) -> Array:
        last = sum((size - 1) * stride for size, stride in zip(lse.shape, lse.strides, strict=True)) // lse.itemsize
        if last >= 1 << 31:
            raise IndexError("an LSE is read before its allocation")
        return lse.copy()
