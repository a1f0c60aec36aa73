"""A merge in binary32, step by step, as a target; others that are right in another way, or wrong in one."""

from typing import Any

import numpy as np

from conformance.targets.base import MERGE
from conformance.targets.models import NumpyTarget
from reference.merging import BF16, counted, numbers
from reference.scalars import bf16_from_f32, f32_from_bf16

Array = Any
F32 = np.float32
LOG2E, LN2 = F32(np.log2(np.e)), F32(np.log(2))


def to_bf16(x: Array) -> Array:
    return f32_from_bf16(bf16_from_f32(x))


def flat(array: Array, shape: tuple[int, ...]) -> Array:
    """The memory of an array, from its first element on, as a contiguous array of that shape."""
    return np.lib.stride_tricks.as_strided(
        array, shape, [array.itemsize * int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    )


class Stepwise(NumpyTarget):
    """Right: weights e^(lse - max), shares, the sum of what has a share. P, S are float32 [T, H, D], p, s [H, T]."""

    capabilities = frozenset({MERGE})

    def __init__(self) -> None:
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
        with np.errstate(all="ignore"):
            p, s = (self.counted(self.lse_of(lse)) for lse in (prefix_lse, suffix_lse))
            lse = self.log_sum(p, s)
            a, b = (share.T[..., None].astype(F32) for share in self.shares(p, s))
            P, S = (numbers(self.numbers_of(x)).astype(F32) for x in (prefix_output, suffix_output))
            neither = np.isneginf(counted(np.maximum(counted(p), counted(s)))).T[..., None]
            self.store(output, self.neither(P, self.combine(P, a, S, b), neither), neither)
            if output_lse is not None:
                self.store_lse(output_lse, lse)

    def lse_of(self, lse: Array) -> Array:
        return lse.copy()

    def numbers_of(self, x: Array) -> Array:
        return x.copy()

    def counted(self, lse: Array) -> Array:
        return counted(lse)

    def exponential(self, x: Array) -> Array:
        return np.exp(x)

    def weights(self, p: Array, s: Array) -> tuple[Array, Array]:
        most = np.maximum(p, s)
        most = np.where(np.isneginf(most), F32(0), most)
        return self.exponential(p - most), self.exponential(s - most)

    def shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        a, b = self.weights(p, s)
        total = np.where(a + b > 0, a + b, F32(1))
        return a / total, b / total

    def log_sum(self, p: Array, s: Array) -> Array:
        a, b = self.weights(p, s)
        return np.where(a + b > 0, np.log(a + b) + np.maximum(p, s), F32(-np.inf))

    def combine(self, P: Array, a: Array, S: Array, b: Array) -> Array:
        return np.where(a > 0, P, F32(0)) * a + np.where(b > 0, S, F32(0)) * b

    def neither(self, P: Array, merged: Array, neither: Array) -> Array:
        return merged

    def store(self, output: Array, merged: Array, neither: Array) -> None:
        output[...] = bf16_from_f32(merged) if output.dtype == BF16 else merged

    def store_lse(self, output_lse: Array, lse: Array) -> None:
        output_lse[...] = lse


class OfBase2(Stepwise):
    """Right: exponentials and logarithms to the base 2 of what is left of the maximum."""

    def exponential(self, x: Array) -> Array:
        return np.exp2(x * LOG2E)

    def log_sum(self, p: Array, s: Array) -> Array:
        a, b = self.weights(p, s)
        return np.where(a + b > 0, np.log2(a + b) * LN2 + np.maximum(p, s), F32(-np.inf))


class Online(Stepwise):
    """Right: the prefix is rescaled when the suffix comes, as an online softmax does it."""

    def shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        most = np.where(np.isneginf(np.maximum(p, s)), F32(0), np.maximum(p, s))
        rescaled, new = np.exp(p - most), np.exp(s - most)
        inverse = F32(1) / np.where(rescaled + new > 0, rescaled + new, F32(1))
        return rescaled * inverse, new * inverse


class InBinary64(Stepwise):
    """Right: binary64 throughout."""

    def counted(self, lse: Array) -> Array:
        return counted(lse).astype(np.float64)


class BySigmoid(Stepwise):
    """Right: the logistic function of the difference, and logaddexp."""

    def shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        def sigmoid(mine: Array, other: Array) -> Array:
            return np.where(np.isneginf(mine), F32(0), F32(1) / (F32(1) + np.exp(other - mine)))

        return sigmoid(p, s), sigmoid(s, p)

    def log_sum(self, p: Array, s: Array) -> Array:
        return np.logaddexp(p, s)


class WithTheWorstExponential(Stepwise):
    """Right: every weight and logarithm as far off as SPEC.md's derivation lets it be."""

    up = 1

    def exponential(self, x: Array) -> Array:
        d = np.minimum(np.abs(x), F32(104)).astype(np.float64)
        return (np.exp(x.astype(np.float64)) * (1 + self.up * (4 * d + 4 * (d > 0)) * 2.0**-24)).astype(F32)

    def log_sum(self, p: Array, s: Array) -> Array:
        a, b = self.weights(p, s)
        log = np.log(a + b) + F32(self.up * 7 * 2.0**-24)
        one = np.isneginf(p) | np.isneginf(s)  # then exact
        return np.where(one, np.maximum(p, s), log + np.maximum(p, s))


class WithTheWorstExponentialBelow(WithTheWorstExponential):
    """Right: the same to the other side."""

    up = -1


RIGHT = (Stepwise, OfBase2, Online, InBinary64, BySigmoid, WithTheWorstExponential, WithTheWorstExponentialBelow)
