"""Define vectors of merge_attn_states: exact if a partial has no weight, within MERGE's bounds if both have one."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.merge_generation import INF, KINDS, LARGEST_F32, NAN, encode, specials
from conformance.vectors import golden
from conformance.vectors.vector import Json, Operator, Vector, rows_of

NAME = "merge_attn_states"
X = np.array([1.0, -2.0, 0.5, 3.0, -0.0, 100.0, 0.015625, -7.0])
Y = np.array([0.25, -2.0, -0.5, 1e-3, 0.0, -99.0, 5.0, 6.0])
STALE = np.array([NAN, INF, -INF, NAN, -0.0, 1.0, 3e38, NAN])
"""8 elements, which are 16 bytes of bf16."""
SPECIAL = np.array(specials("binary32"))


def call(
    prefix: npt.ArrayLike,
    suffix: npt.ArrayLike,
    p: npt.ArrayLike,
    s: npt.ArrayLike,
    kind: str = "bf16",
    output_in: str = "output",
    output_lse_in: str | None = "output_lse",
) -> Json:
    """Return the input of a merge of LSEs [H, T]. Outputs are cut or repeated to [T, H, D], D of 16 bytes."""
    lses = {"prefix_lse": np.atleast_2d(p), "suffix_lse": np.atleast_2d(s)}
    heads, tokens = lses["prefix_lse"].shape
    outputs = {"prefix_output": np.atleast_1d(prefix), "suffix_output": np.atleast_1d(suffix)}
    shape = (tokens, heads, 16 // KINDS[kind].itemsize)
    told: dict[str, Any] = {name: rows_of(encode(np.resize(x, shape), kind), kind) for name, x in outputs.items()}
    told |= {name: rows_of(lse, "binary32") for name, lse in lses.items()}
    return {"type": kind, **told, "output_in": output_in, "output_lse_in": output_lse_in}


_VECTORS = [
    *(
        Vector(
            "MERGE-1", ("EqualWeights",), f"equal LSEs, {kind}: the mean, and LSE + log 2", call(X, Y, 0.5, 0.5, kind)
        )
        for kind in KINDS
    ),
    Vector(
        "MERGE-1",
        ("Basic", "Overflow"),
        "one token for each difference of LSEs from 2^-20 to 150, where a weight is lost",
        call(X, Y, np.zeros(10), [2.0**-20, 0.5, -1, 4, -8, 13.5, -16.7, 20, -88, 150], "binary32"),
    ),
    Vector(
        "MERGE-5",
        ("NoWeight",),
        "one token of three has -inf in both LSEs, and stale outputs: output 0 and LSE -inf, not the prefix",
        call([*X, *STALE, *X], [*Y, *STALE, *Y], [0.0, -INF, 1.0], [1.0, -INF, 0.0]),
        "vllm 27491",
    ),
    *(
        Vector(
            "MERGE-3",
            ("NoWeight",),
            f"LSE +inf in the {side} counts as -inf, and its garbage as nothing: the other's bits",
            told,
            "vllm 15492",
        )
        for side, told in (("suffix", call(X, STALE, 0.5, INF)), ("prefix", call(STALE, Y, INF, -3.25)))
    ),
    *(
        Vector(
            "MERGE-4",
            ("NoWeight",),
            f"the {side} alone has weight: its bits, whatever the other holds, {what}",
            told,
        )
        for side, what, told in (
            ("prefix", "zeros and subnormals too", call(SPECIAL[:4], STALE, -0.75, -INF, "binary32")),
            ("suffix", "the largest too", call(STALE, SPECIAL[-4:], -INF, 1e4, "binary32")),
        )
    ),
    Vector(
        "MERGE-5",
        ("NoWeight",),
        "+inf beside -inf, and +inf on both sides: nothing has weight",
        call(STALE, STALE, [INF, INF, -INF], [-INF, INF, INF]),
    ),
    Vector(
        "MERGE-11",
        ("NoWeight",),
        "heads of one token in different states",
        call(
            [*X, *STALE, *X, *STALE],
            [*Y, *Y, *STALE, *STALE],
            [[0.0], [-INF], [0.0], [INF]],
            [[1.0], [0.0], [-INF], [-INF]],
        ),
    ),
    Vector(
        "MERGE-11",
        ("NoWeight",),
        "three tokens of two heads in different states: LSEs are [H, T], and no branch is taken for a whole token",
        call(
            [*X, *STALE, *X, *X, *STALE, *Y],
            [*Y, *Y, *STALE, *Y, *STALE, *X],
            [[0.0, 0.5, -INF], [-INF, 2.0, 1.5]],
            [[1.0, -INF, INF], [0.25, -1.0, -2.0]],
        ),
    ),
    Vector("MERGE-9", ("NothingToDo",), "T = 0", call(X, Y, np.zeros((2, 0)), np.zeros((2, 0)))),
    Vector(
        "MERGE-1",
        ("Overflow",),
        "LSEs of 1,000, -10,000 and the largest binary32: only their difference may be raised to e",
        call(X, Y, [1000.0, -1e4, LARGEST_F32, -LARGEST_F32], [1000.5, -1e4, LARGEST_F32, 2.0]),
    ),
    Vector(
        "MERGE-1",
        ("Overflow",),
        "the largest numbers of bf16 on both sides: their weighted sum must not overflow before it is divided",
        call([3.3895e38, -3.3895e38], [3.3895e38, -3.3895e38], 0.0, [0.0]),
    ),
    Vector(
        "MERGE-1",
        ("Cancellation",),
        "P e^p and S e^s are opposite but for their rounding: the bound is on the terms",
        call([1.0, 0.5, 3.0, 2.0], [-np.exp(0.5), -np.exp(0.5) / 2, -3 * np.exp(0.5), 0.0], 0.5, 0.0, "binary32"),
    ),
    Vector(
        "MERGE-1",
        ("Subnormal",),
        "subnormal numbers of binary32 are no zeros",
        call([2.0**-149, 2.0**-140, -(2.0**-127), 2.0**-126], [2.0**-140, 0.0, 2.0**-130, 0.0], 0.0, 1.0, "binary32"),
    ),
    Vector(
        "MERGE-2",
        ("SumToZero",),
        "both LSEs -log 2: the merged one is next to 0",
        call(X, Y, -0.6931472, -0.6931472, "binary32"),
    ),
    *(
        Vector(
            "MERGE-6",
            ("InPlace",),
            f"output in {output}, output_lse in {lse}",
            call(X, Y, [0, 2], [1, -INF], "bf16", output, lse),
        )
        for output, lse in (
            ("prefix_output", "prefix_lse"),
            ("suffix_output", "suffix_lse"),
            ("prefix_output", "suffix_lse"),
        )
    ),
    Vector(
        "MERGE-5",
        ("InPlace", "NoWeight"),
        "in place, and neither partial has weight: what is there is not left there",
        call(STALE, STALE, [-INF, INF], [-INF, -INF], "bf16", "prefix_output", "prefix_lse"),
    ),
    Vector(
        "MERGE-7",
        ("InPlace",),
        "no output_lse",
        call(X, Y, [0.0, -INF], [1.0, 0.5], output_lse_in=None),
    ),
]

NOTES = (
    "The call is merge_attn_states(output, prefix_output, prefix_lse, suffix_output, suffix_lse, output_lse). type "
    "is that of outputs; output_in and output_lse_in name the argument in whose memory the result is to be, and "
    "null leaves output_lse out. expected gives for each element the least (low) and the largest (high) number that"
    " is right, both included and both of the type that is written; where they are equal the result is exact. "
    "Compare as numbers: low <= found <= high, a zero of either sign being zero, and a NaN never right."
)

OPERATORS = [
    Operator(
        NAME,
        NOTES,
        golden.merged,
        partial(golden.of_the_second_model, NAME, None),
        _VECTORS,
        arrays={
            **{name: ("type", ["T", "H", "D"]) for name in ("output", "prefix_output", "suffix_output")},
            **{name: ("binary32", ["H", "T"]) for name in ("output_lse", "prefix_lse", "suffix_lse")},
        },
    )
]
