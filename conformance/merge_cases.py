"""The inputs that broke real merges, each with the report it comes from, and those that a shortcut does not expect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from conformance.merge_generation import (
    DIFFERENCES,
    ENDS,
    EVERY,
    FEW,
    FEW_ORDINARY,
    FINITE,
    INF,
    KINDS,
    NAN,
    WEIGHTLESS,
    case_of,
    encode,
    mixed,
    specials,
)
from conformance.roundings import BINARIES
from fixtures.merge_cases import NARROW, WIDE, MergeCase, Slack

Named = Callable[[str], "MergeCase | list[MergeCase]"]
"""By the type of the outputs: "bf16", "binary16" or "binary32"."""

INPUTS = ("prefix_output", "suffix_output")
LSES = ("prefix_lse", "suffix_lse")


def _alike(names: tuple[str, ...], slack: Slack) -> dict[str, Slack]:
    return dict.fromkeys(names, slack)


STRIDED: dict[str, dict[str, Slack]] = {
    "padded heads": _alike(WIDE, Slack(inner=64)),
    **{f"padded heads of {name}": {name: Slack(inner=64)} for name in WIDE},
    "padded heads of both inputs": _alike(INPUTS, Slack(inner=128)),
    "tokens apart": _alike(WIDE, Slack(outer=256)),
    **{f"tokens of {name} apart": {name: Slack(outer=64)} for name in WIDE},
    "heads outermost": _alike(WIDE, Slack(turned=True)),
    **{f"heads of {name} outermost": {name: Slack(turned=True)} for name in WIDE},
    "heads outermost and apart": _alike(WIDE, Slack(turned=True, outer=64, inner=32)),
    "LSE rows apart": _alike(NARROW, Slack(outer=5)),
    **{f"{name} rows apart": {name: Slack(outer=7)} for name in NARROW},
    "LSE tokens outermost": _alike(NARROW, Slack(turned=True)),
    **{f"{name} tokens outermost": {name: Slack(turned=True)} for name in NARROW},
    "LSE elements apart": _alike(NARROW, Slack(inner=2)),
    "slices with an offset": _alike(WIDE, Slack(shift=16)) | _alike(NARROW, Slack(shift=4, outer=1)),
    "off the boundary of 16 bytes": _alike(WIDE, Slack(shift=4)) | _alike(NARROW, Slack(shift=8)),
    "a few elements apart": _alike(WIDE, Slack(outer=2, inner=1)),
    "every array its own": {
        "output": Slack(inner=8, outer=16),
        "prefix_output": Slack(turned=True, inner=16),
        "suffix_output": Slack(inner=64, outer=8),
        "prefix_lse": Slack(outer=3),
        "suffix_lse": Slack(turned=True, outer=2),
        "output_lse": Slack(outer=9),
    },
}


def both_without_keys(kind: str) -> list[MergeCase]:
    """vllm 27491: both LSEs -inf for one token among others: NaN, or the prefix output handed through."""
    cases = []
    for token in range(3):
        p, s = np.zeros((2, 3)), np.ones((2, 3))
        p[:, token] = s[:, token] = -INF
        for held in (NAN, 7.0, INF):
            prefix, suffix = np.full((3, 2, 64), 0.5), np.full((3, 2, 64), 0.25)
            prefix[token], suffix[token] = held, -held
            cases.append(case_of((prefix, suffix), (p, s), kind, "vllm 27491"))
    return cases


def plus_infinity_beside_garbage(kind: str) -> list[MergeCase]:
    """vllm 15492: LSE +inf on one side, for one head of one token, with garbage in its output."""
    cases = []
    for held in (NAN, INF, -INF, 3.0):
        good, stale = np.full((3, 2, 64), 0.5), np.full((3, 2, 64), 0.25)
        stale[1, 1] = held
        usual, odd = np.zeros((2, 3)), np.ones((2, 3))
        odd[1, 1] = INF
        cases.append(case_of((good, stale), (usual, odd), kind, "vllm 15492"))
        cases.append(case_of((stale, good), (odd, usual), kind, "vllm 15492"))
    return cases


def every_pair_of_states(kind: str) -> list[MergeCase]:
    """Finite, -inf and +inf on either side; what has no weight holds NaN, infinities, numbers, zeros."""
    cases = []
    for p, s in WEIGHTLESS:
        held = np.resize([NAN, INF, -INF, BINARIES[encode(0, kind).dtype].largest, 1.0, -0.0], 96)
        numbers = np.resize(specials(kind), 96)
        prefix, suffix = (numbers if np.isfinite(lse) else held for lse in (p, s))
        cases.append(case_of((prefix.reshape(1, 1, -1), suffix.reshape(1, 1, -1)), ([[p]], [[s]]), kind, f"{p}, {s}"))
    return cases


def every_difference_of_lses(kind: str) -> MergeCase:
    """From equal LSEs to those at which a weight is lost or subnormal, or an exponential overflows; to 1e30."""
    heads = len(FINITE)
    p, s = np.array(FINITE).T.reshape(2, heads, 1)
    rng = np.random.default_rng(2)
    return case_of(rng.standard_normal((2, 1, heads, 64)), (p, s), kind, "differences")


def lses_at_the_ends(kind: str) -> MergeCase:
    """The largest of binary32 on one side or both, the least, zeros, and LSEs whose merged one is nearly 0."""
    return mixed(1, len(ENDS), 64, kind, 3, ENDS, stale=True)


def numbers_that_cancel(kind: str) -> MergeCase:
    """P e^p and S e^s are nearly opposite: what is left is small, and its error is not."""
    p = np.array([[0.0], [0.5], [3.0], [-2.0]])
    x = np.linspace(0.5, 2, 128)
    prefix = np.stack([x, x, x, x])[None]
    return case_of((prefix, -prefix * np.exp(p[None])), (p, np.zeros((4, 1))), kind, "cancelling")


def zeros_subnormals_and_the_largest(kind: str) -> MergeCase:
    """Every pair of them, for some differences of LSEs."""
    numbers = np.array([*specials(kind), *([1.0] * 14)])  # 32
    d = np.array(DIFFERENCES[:8])[:, None]
    prefix = np.broadcast_to(np.repeat(numbers, 32), (1, len(d), 1024))
    suffix = np.broadcast_to(np.tile(numbers, 32), prefix.shape)
    return case_of((prefix, suffix), (np.zeros_like(d), -d), kind, "specials")


def states_mixed_in_one_call(kind: str) -> list[MergeCase]:
    """Neighbouring heads and tokens in different states, so that a branch that is taken for them all is seen."""
    shapes = ((33, 16, 64), (17, 5, 128), (64, 2, 512), (131, 2, 64), (7, 3, 20), (9, 3, 576), (3, 7, 1032))
    return [mixed(*shape, kind, seed, EVERY, stale=True) for seed, shape in enumerate(shapes, 4)]


def states_mixed_in_place(kind: str) -> list[MergeCase]:
    """The same where the results lie in an input's memory, which a merge that has nothing to add may leave as it is."""
    outputs, lses = ("output", *INPUTS), ("output_lse", *LSES, None)
    return [
        mixed(7, 3, 64, kind, 26, FEW, stale=True, output_in=output, lse_in=lse) for output in outputs for lse in lses
    ]


def states_mixed_in_strided_arrays(kind: str) -> list[MergeCase]:
    """The same where arrays are not contiguous, which may be somebody's other path."""
    hows = ("padded heads", "tokens apart", "heads outermost", "LSE tokens outermost", "every array its own")
    return [mixed(7, 3, 64, kind, 27, FEW, stale=True, arrangement=STRIDED[how]) for how in hows]


def every_state_alone(kind: str) -> list[MergeCase]:
    """A call in which all tokens and heads have the same state."""
    return [mixed(4, 2, 64, kind, 7, [pair], stale=True) for pair in (*WEIGHTLESS, (0.25, 0.5))]


def cases_of(named: Named, kind: str) -> list[MergeCase]:
    """The one case or the several of an entry of NAMED."""
    cases = named(kind)
    return cases if isinstance(cases, list) else [cases]


NAMED: tuple[Named, ...] = (
    both_without_keys,
    plus_infinity_beside_garbage,
    every_pair_of_states,
    every_difference_of_lses,
    lses_at_the_ends,
    numbers_that_cancel,
    zeros_subnormals_and_the_largest,
    states_mixed_in_one_call,
    states_mixed_in_place,
    states_mixed_in_strided_arrays,
    every_state_alone,
)

TOKENS, HEADS = (1, 2, 3, 17, 129), (1, 2, 3, 16, 128)
SIZES = (1, 3, 4, 7, 8, 20, 24, 40, 63, 64, 65, 96, 128, 192, 256, 512, 576)


def shapes(kind: str) -> list[MergeCase]:
    """Every T, every H and every D of the tables, and tails of either."""
    sizes = [(tokens, heads, 64) for tokens in TOKENS for heads in (1, 3)]
    sizes += [(3, heads, size) for heads in HEADS for size in (64, 128)]
    sizes += [(tokens, 2, size) for tokens in (1, 5) for size in SIZES]
    sizes += [(5, 3, 1), (258, 3, 64), (259, 1, 64)]
    return [mixed(*shape, kind, 8) for shape in sizes]


def large(kind: str) -> list[MergeCase]:
    """T, H and their product beyond a grid's dimensions, D beyond a block's."""
    sizes = ((129, 16, 64), (17, 128, 96), (70_003, 4, 8), (1, 70_001, 8), (2, 2, 16_384), (1, 3, 8_200))
    return [mixed(*shape, kind, 8) for shape in sizes]


def in_place(kind: str) -> list[MergeCase]:
    """The results in memory of their own or in either input's, in every combination, and without output_lse."""
    outputs, lses = ("output", *INPUTS), ("output_lse", *LSES, None)
    hows: tuple[dict[str, Slack], ...] = ({}, STRIDED["padded heads"] | STRIDED["LSE rows apart"])
    return [
        mixed(7, 3, 64, kind, 9, FEW_ORDINARY, arrangement=how, output_in=output, lse_in=lse)
        for output in outputs
        for lse in lses
        for how in hows
    ]


def one_for_all(kind: str) -> list[MergeCase]:
    """Inputs with a stride of 0: one partial for all tokens, or one for all heads."""
    cases = []
    for axis in (0, 1):
        rng = np.random.default_rng(10)
        outputs = [np.repeat(rng.standard_normal((3, 3, 64)).take([0], axis), 3, axis) for _ in range(2)]
        lses = [np.repeat(rng.standard_normal((3, 3)).take([0], 1 - axis), 3, 1 - axis) for _ in range(2)]
        case = case_of(outputs, lses, kind, "one for all")
        wide, narrow = ((0, 64), (1, 0)) if axis == 0 else ((64, 0), (0, 1))
        how = _alike(INPUTS, Slack(strides=wide)) | _alike(LSES, Slack(strides=narrow))
        cases.append(replace(case, arrangement=how))
    return cases


def strides_that_mean_nothing(kind: str) -> MergeCase:
    """One token of one head, for which no stride is used."""
    how = _alike(WIDE, Slack(strides=(3, 5))) | _alike(NARROW, Slack(strides=(7, 2)))
    return mixed(1, 1, 64, kind, 11, [(0.5, 1.5)], arrangement=how)


FAR = (
    ("output", "tokens", "bf16"),
    ("output", "heads", "binary32"),
    ("prefix_output", "tokens", "binary32"),
    ("suffix_output", "heads", "bf16"),
    ("prefix_lse", "heads", "bf16"),
    ("suffix_lse", "tokens", "binary32"),
    ("output_lse", "heads", "binary16"),
    ("output_lse", "tokens", "bf16"),
)
"""Of each argument what lies far apart, in a call of that type."""


def far(name: str, along: str, kind: str) -> MergeCase:
    """An argument whose second head or token lies 8 GiB behind the first: beyond 2^31 elements, of 16 bits 2^32."""
    far = (1 << 33) // (KINDS[kind].itemsize if name in WIDE else 4) + 64
    near = 64 if name in WIDE else 1
    first_is_far = (along == "tokens") == (name in WIDE)  # [T, H, D], [H, T]
    how = {name: Slack(strides=(far, near) if first_is_far else (near, far))}
    return mixed(2, 2, 64, kind, 12, ((0.5, 1.5), (2.0, -INF)), arrangement=how)


def every_pair_of_bf16() -> MergeCase:
    """256 numbers of bf16 by 256, for every difference of LSEs on the way from equal weights to none."""
    encodings = np.arange(0, 65_536, 251, dtype=np.uint16)
    finite = encodings[(encodings & 0x7F80) != 0x7F80][:256]
    count, d = len(finite), np.array([*DIFFERENCES[:8], *(-x for x in DIFFERENCES[1:8])])
    shape = (count, len(d), count)
    p = np.broadcast_to(d[:, None], (len(d), count)).astype(np.float32)
    prefix = np.broadcast_to(finite[:, None, None], shape).copy()
    suffix = np.broadcast_to(finite, shape).copy()
    return MergeCase(prefix, p, suffix, np.zeros_like(p), origin="every pair")
