"""Define vectors of the number formats: every code, and numbers on and beside the ties of rounding."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from conformance.vectors.vector import Array, Json, Operator, Vector, array_of, hexed
from reference.scalars import E2M1, E4M3, bf16_from_f32

Convert = Callable[[Array], Array]

NAN, INF = float("nan"), float("inf")
NANS = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF, 0x7FFFFFFF], np.uint32).view(np.float32)
"""NaN of either sign, quiet and signalling. A truncation takes the payload of some for an infinity."""


def _both(magnitudes: npt.ArrayLike) -> npt.NDArray[np.float32]:
    numbers = np.asarray(magnitudes, np.float32)
    return np.concatenate([numbers, -numbers])


def _around(numbers: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return numbers of both signs, each with the binary32 before and after it: float32 [6 N] of N numbers."""
    given = np.asarray(numbers, np.float32)
    beside = [np.nextafter(given, np.float32(to)) for to in (0, np.inf)]
    return _both(np.stack([beside[0], given, beside[1]], axis=1).ravel())


def _bits(*encodings: int) -> npt.NDArray[np.float32]:
    return np.array(encodings, np.uint32).view(np.float32)


def _codes(clause: str, flags: tuple[str, ...], comment: str, codes: npt.ArrayLike) -> Vector:
    return Vector(clause, flags, comment, {"codes": hexed(codes)})


def _numbers(clause: str, flags: tuple[str, ...], comment: str, numbers: npt.NDArray[np.float32]) -> Vector:
    return Vector(clause, flags, comment, {"numbers": hexed(numbers, "binary32")})


_TIES = {
    form.name: [(a + b) / 2 for a, b in zip(form.magnitudes, form.magnitudes[1:], strict=False)]
    for form in (E2M1, E4M3)
}
_SOME = (*range(10), 30, 31, 62, 63, 124, 125)
"""Ties of e4m3: among subnormals, at the smallest normal number, at binades, and the last ones."""

_DECODE_E2M1 = [_codes("SCALAR-1", ("EveryCode", "NegativeZero"), "all 16 codes: 8 is -0", np.arange(16))]
_DECODE_E4M3 = [
    _codes(
        "SCALAR-4",
        ("EveryCode", "NegativeZero", "RopeNan"),
        "all 256 bytes: NaN are 0x7F and 0xFF alone",
        np.arange(256),
    ),
]
_ENCODE_E2M1 = [
    _numbers("SCALAR-2", ("TieToEven",), "each tie and its neighbours, of both signs", _around(_TIES["e2m1"])),
    _numbers(
        "SCALAR-2", ("Saturation",), "beyond 6, 7 and 8 too, and infinities: 6", _both([6.0, 6.5, 7, 8, 448, 3e38, INF])
    ),
    _numbers(
        "SCALAR-2",
        ("NegativeZero", "Subnormal"),
        "zeros and subnormals keep their sign",
        _both([0.0, 2.0**-149, 2.0**-126]),
    ),
    _numbers("SCALAR-3", ("NanEncoded",), "NaN of either sign: code 7", NANS),
]
_ENCODE_E4M3 = [
    _numbers(
        "SCALAR-5",
        ("TieToEven", "Subnormal"),
        "ties and their neighbours, of both signs",
        _around(np.take(_TIES["e4m3"], _SOME)),
    ),
    _numbers(
        "SCALAR-5",
        ("Saturation",),
        "448, 464, beyond, infinities: 448",
        _both([448, 463.9, 464, 464.1, 480, 512, 3e38, INF]),
    ),
    _numbers(
        "SCALAR-5", ("NegativeZero", "Subnormal"), "zeros, and what rounds to zero", _both([0.0, 2.0**-149, 2.0**-11])
    ),
    _numbers("SCALAR-6", ("NanEncoded",), "NaN of either sign: 0x7F", NANS),
]
_ENCODE_BF16 = [
    _numbers(
        "SCALAR-7",
        ("TieToEven",),
        "ties between even and odd encodings and their neighbours",
        _bits(0x3F807FFF, 0x3F808000, 0x3F808001, 0x3F817FFF, 0x3F818000, 0x3F818001, 0xBF808000, 0xBF818000),
    ),
    _numbers(
        "SCALAR-7",
        ("InfiniteProduct",),
        "the largest that stays finite, and those that round to an infinity",
        _bits(0x7F7F7FFF, 0x7F7F8000, 0x7F7FFFFF, 0x7F800000, 0xFF7F7FFF, 0xFF7F8000, 0xFF800000),
    ),
    _numbers(
        "SCALAR-7",
        ("Subnormal", "NegativeZero"),
        "subnormals, their ties, and zeros",
        _bits(0, 1, 0x7FFF, 0x8000, 0x8001, 0x18000, 0x007FFFFF, 0x80000000, 0x80008000, 0x80018000),
    ),
    _numbers("SCALAR-8", ("NanEncoded",), "NaN of every sign and payload: 0x7FFF", NANS),
]


def _decoded(decode: Convert, vector: Vector) -> Json:
    return {"numbers": hexed(bf16_from_f32(decode(array_of(vector.input["codes"], "u8"))), "bf16")}


def _encoded(kind: str, encode: Convert, vector: Vector) -> Json:
    return {"codes": hexed(encode(array_of(vector.input["numbers"], "binary32")), kind)}


def _against(answer: Callable[[Convert, Vector], Json], function: str, vector: Vector, expected: Json) -> list[str]:
    """Return what a function of the torch model answers differently, as lines."""
    import torch

    from reference import torch_model

    found = answer(lambda given: getattr(torch_model, function)(torch.from_numpy(given)).numpy(), vector)
    return [] if found == expected else [f"the second model has {found}, not {expected}"]


def _operator(
    name: str, answer: Callable[[Convert, Vector], Json], golden: Convert, second: str, vectors: list[Vector]
) -> Operator:
    arrays = _CODES if name.startswith("decode") else _WIDE if name == "encode_bf16" else _NARROW
    return Operator(name, NOTES, partial(answer, golden), partial(_against, answer, second), vectors, arrays=arrays)


_CODES = {"codes": ("u8", ["n"]), "numbers": ("bf16", ["n"])}
_NARROW = {"numbers": ("binary32", ["n"]), "codes": ("u8", ["n"])}
_WIDE = {"numbers": ("binary32", ["n"]), "codes": ("bf16", ["n"])}

NOTES = (
    "decode: codes to numbers, exactly, as bf16, a NaN as 0x7FFF. encode: numbers to codes, to nearest, ties to "
    "even; e2m1 and e4m3 saturate. One e2m1 code a byte. Compare every bit."
)

OPERATORS = [
    _operator("decode_e2m1", _decoded, E2M1.decode, "decode_e2m1", _DECODE_E2M1),
    _operator("decode_e4m3", _decoded, E4M3.decode, "decode_e4m3", _DECODE_E4M3),
    _operator("encode_e2m1", partial(_encoded, "u8"), E2M1.encode, "encode_e2m1", _ENCODE_E2M1),
    _operator("encode_e4m3", partial(_encoded, "u8"), E4M3.encode, "encode_e4m3", _ENCODE_E4M3),
    _operator("encode_bf16", partial(_encoded, "bf16"), bf16_from_f32, "bf16_bits", _ENCODE_BF16),
]
