"""Define merges, as targets, that use memory wrongly or branch wrongly, in one way each."""

from typing import Any

import numpy as np

from conformance.faults.steps import strip_of
from conformance.faults.stepwise import F32, Array, Stepwise, flat
from reference.merging import counted


class OfWideHeads(Stepwise):
    """Take an LSE of +inf for a weight in heads of more than 512 elements."""

    def _counted(self, lse: Array) -> Array:
        return lse if self.wide else counted(lse)

    def _run(self, output: Any, *others: Any, **named: Any) -> None:
        self.wide = output.shape[2] > 512
        super()._run(output, *others, **named)


class OfStridedArrays(Stepwise):
    """Multiply a partial without weight by 0 if prefix_output is not contiguous."""

    def _combine(self, P: Array, a: Array, S: Array, b: Array) -> Array:
        return P * a + S * b if self.strided else super()._combine(P, a, S, b)

    def _run(self, output: Any, prefix_output: Any, *others: Any, **named: Any) -> None:
        self.strided = not prefix_output.flags.c_contiguous
        super()._run(output, prefix_output, *others, **named)


class LeavesWhatIsInPlace(Stepwise):
    """Leave output unwritten where the suffix has no weight and output lies in the prefix."""

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
    """Read prefix_output and suffix_output as if they were contiguous."""

    def _numbers_of(self, x: Array) -> Array:
        return flat(x, x.shape).copy()


class IgnoresTheRowStrideOfLses(Stepwise):
    """Read prefix_lse and suffix_lse as if they were contiguous."""

    def _lse_of(self, lse: Array) -> Array:
        return flat(lse, lse.shape).copy()


class ReadsLsesOfTokensFirst(Stepwise):
    """Read the LSEs as [T, H]."""

    def _lse_of(self, lse: Array) -> Array:
        return np.ascontiguousarray(lse).reshape(lse.shape[::-1]).T.copy()


class LeavesTheLse(Stepwise):
    """Leave output_lse unwritten."""

    def _store_lse(self, output_lse: Array, lse: Array) -> None:
        """Write nothing."""


class UsesOneHeadsWeightForAll(Stepwise):
    """Merge all heads of a token by the LSEs of head 0."""

    def _shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        return super()._shares(np.broadcast_to(p[:1], p.shape), np.broadcast_to(s[:1], s.shape))


class BranchesOnceAToken(Stepwise):
    """Take the suffix for every head of a token whose first head has no prefix."""

    def _shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        a, b = super()._shares(p, s)
        alone = np.isneginf(p[:1]) & ~np.isneginf(s)
        return np.where(alone, F32(0), a), np.where(alone, F32(1), b)


class LeavesTheLastElement(Stepwise):
    """Leave the last element of each head unwritten."""

    def _store(self, output: Array, merged: Array, neither: Array) -> None:
        super()._store(output[..., :-1], merged[..., :-1], neither)


class LeavesWhatIsEmpty(Stepwise):
    """Leave output unwritten where neither partial has weight."""

    def _store(self, output: Array, merged: Array, neither: Array) -> None:
        before = output.copy()
        super()._store(output, merged, neither)
        output[...] = np.where(neither, before, output)


class WritesWholeVectors(Stepwise):
    """Write beyond the last head's end, up to a multiple of 8 elements.

    With 64 elements, already a multiple of 8, it writes one element more.
    """

    def _store(self, output: Array, merged: Array, neither: Array) -> None:
        super()._store(output, merged, neither)
        if output.size:
            whole = -(-output.shape[2] // 8) * 8 + (1 if output.shape[2] == 64 else 0)
            wide = np.lib.stride_tricks.as_strided(output, (*output.shape[:2], whole), output.strides)
            wide[-1, -1, output.shape[2] :] = 5


class RoundsAddressesDown(Stepwise):
    """Read vectors of 16 bytes from the multiple of 16 bytes below the address."""

    def _numbers_of(self, x: Array) -> Array:
        beyond = x.ctypes.data % 16 // x.itemsize
        if not x.size or not beyond:
            return x.copy()
        strip = strip_of(x)
        return np.lib.stride_tricks.as_strided(strip.base[max(strip.first - beyond, 0) :], x.shape, x.strides).copy()


class HasOffsetsOf32Bits(Stepwise):
    """Raise IndexError for an input whose element offsets reach 2^31, as 32-bit offsets fail."""

    def _numbers_of(self, x: Array) -> Array:
        last = sum((size - 1) * stride for size, stride in zip(x.shape, x.strides, strict=True)) // x.itemsize
        if last >= 1 << 31:
            raise IndexError("an output is read before its allocation")
        return x.copy()


class HasOffsetsOfLsesOf32Bits(Stepwise):
    """Raise IndexError for an LSE whose element offsets reach 2^31, as 32-bit offsets fail."""

    def _lse_of(self, lse: Array) -> Array:
        last = sum((size - 1) * stride for size, stride in zip(lse.shape, lse.strides, strict=True)) // lse.itemsize
        if last >= 1 << 31:
            raise IndexError("an LSE is read before its allocation")
        return lse.copy()
