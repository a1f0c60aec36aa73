"""Partials to merge: LSEs of every kind, numbers that a shortcut gets wrong, and garbage where nothing has weight."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.roundings import BINARIES
from fixtures.merge_cases import Arrangement, MergeCase
from reference.merging import BF16, with_weight
from reference.scalars import bf16_from_f32

Array = npt.NDArray[Any]
Pair = tuple[float, float]

KINDS: dict[str, np.dtype[Any]] = {"bf16": BF16, "binary16": np.dtype(np.float16), "binary32": np.dtype(np.float32)}

INF, NAN = float("inf"), float("nan")
LARGEST_F32 = BINARIES[KINDS["binary32"]].largest

DIFFERENCES = (
    0.0,
    2.0**-20,  # tiny
    0.5,
    1.0,
    4.0,
    8.0,
    12.0,  # a weight of some 100 units of binary32
    13.0,  # about the least that the bound of an LSE can see
    13.5,  # and that of an output
    16.7,  # a weight below half a unit of binary32
    20.0,
    87.0,
    87.4,  # e^-87.4 is below the least normal binary32
    88.0,
    88.8,  # e^88.8 is beyond the largest
    103.0,
    104.0,  # e^-104 is 0
    150.0,
    1e4,
    1e30,
)
BASES = (0.0, -0.75, 3.25, -7.5, 90.0, -110.0, 1000.0, -1e4, 1e4)

FINITE: tuple[Pair, ...] = tuple(
    (p, s) for base in BASES for d in DIFFERENCES for p, s in ((base, base - d), (base - d, base))
)
"""LSEs of two partials with weight: (p, s)."""

STATES = (1.5, -INF, INF)
ALL_STATES: tuple[Pair, ...] = tuple((p, s) for p in STATES for s in STATES)
WEIGHTLESS = tuple(pair for pair in ALL_STATES if pair != (1.5, 1.5))
EVERY: tuple[Pair, ...] = (*FINITE, *WEIGHTLESS * 8)
ORDINARY: tuple[Pair, ...] = (*FINITE, (1.5, -INF), (-INF, 1.5))
"""Those in which a merge that knows nothing of NaN and +inf is right."""
FEW_ORDINARY: tuple[Pair, ...] = (*FINITE[::20], *ORDINARY[-2:])
FEW: tuple[Pair, ...] = (*FINITE[::40], *WEIGHTLESS)
"""Of every kind some, so that a call of some twenty tokens and heads has them all."""

ENDS: tuple[Pair, ...] = (
    (LARGEST_F32, LARGEST_F32),
    (-LARGEST_F32, -LARGEST_F32),
    (LARGEST_F32, -LARGEST_F32),
    (-LARGEST_F32, 2.0),
    (2.0**-149, -(2.0**-149)),
    (0.0, -0.0),
    (-0.6931472, -0.6931472),  # the merged LSE is nearly 0
    (-LARGEST_F32, -INF),
    (INF, LARGEST_F32),
    (-0.0, -INF),
)
"""LSEs at the ends of binary32, and sums that cancel."""


def encode(x: npt.ArrayLike, kind: str) -> Array:
    """Numbers in an array of a type, rounded to nearest; a NaN has the quiet bit alone."""
    numbers = np.asarray(x, np.float64)
    with np.errstate(over="ignore"):
        if kind == "bf16":
            return bf16_from_f32(numbers.astype(np.float32))
        encoded: Array = numbers.astype(KINDS[kind])
    return encoded


def specials(kind: str) -> tuple[float, ...]:
    """Zeros, subnormals, the least normal number, ones, the largest, of both signs."""
    form = BINARIES[KINDS[kind]]
    least = 2.0**form.least
    normal = least * 2.0 ** (form.digits - 1)
    magnitudes = (0.0, least, 3 * least, normal - least, normal, 1.0, 1 + 2.0 ** (1 - form.digits), 3.14, form.largest)
    return tuple(x for magnitude in magnitudes for x in (magnitude, -magnitude))


def garbage(shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """What stale memory holds: mostly NaN and infinities, and large numbers."""
    stale = np.array([NAN, NAN, NAN, INF, -INF, BINARIES[KINDS[kind]].largest, -0.0, 1.0])
    return rng.choice(stale, shape)


def lses_of(
    pairs: Sequence[Pair], tokens: int, heads: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """LSEs [H, T] that hold the pairs in a random order, each before any comes again."""
    rounds = [rng.permutation(len(pairs)) for _ in range(-(-tokens * heads // len(pairs)))]
    order = np.concatenate([np.empty(0, np.int64), *rounds])[: tokens * heads]
    p, s = np.array(pairs, np.float64)[order].T.reshape(2, heads, tokens).astype(np.float32)
    return p, s


def case_of(outputs: Iterable[npt.ArrayLike], lses: Iterable[npt.ArrayLike], kind: str, origin: str) -> MergeCase:
    """A case of two outputs [T, H, D] and two LSEs [H, T], given as numbers."""
    prefix, suffix = (encode(output, kind) for output in outputs)
    p, s = (np.array(lse, np.float32) for lse in lses)
    return MergeCase(prefix, p, suffix, s, origin=origin)


def mixed(
    tokens: int,
    heads: int,
    size: int,
    kind: str = "bf16",
    seed: int = 0,
    pairs: Sequence[Pair] = ORDINARY,
    stale: bool = False,
    arrangement: Arrangement | None = None,
    **how: Any,
) -> MergeCase:
    """Tokens and heads in many states, specials among the numbers, and garbage where there is no weight if `stale`.

    Without it a merge that only fails there shows what else it can do.
    """
    rng = np.random.default_rng([seed, tokens, heads, size])
    p, s = lses_of(pairs, tokens, heads, rng)
    shape = (tokens, heads, size)
    scales = np.exp2(rng.integers(-6, 7, shape))
    outputs = [rng.standard_normal(shape) * scales for _ in range(2)]
    for output, lse in zip(outputs, (p, s), strict=True):
        place = rng.random(shape) < 0.02
        output[place] = rng.choice(specials(kind), int(place.sum()))
        if stale:
            weightless = np.broadcast_to(~with_weight(lse).T[..., None], shape)
            output[weightless] = garbage(shape, kind, rng)[weightless]
    case = case_of(outputs, (p, s), kind, f"seed {seed}")
    return replace(case, arrangement=arrangement or {}, **how)


def permuted(case: MergeCase, tokens: Array, heads: Array) -> MergeCase:
    """The case with its tokens and heads in another order."""
    return replace(
        case,
        prefix_output=case.prefix_output[tokens][:, heads],
        suffix_output=case.suffix_output[tokens][:, heads],
        prefix_lse=case.prefix_lse[heads][:, tokens],
        suffix_lse=case.suffix_lse[heads][:, tokens],
    )
