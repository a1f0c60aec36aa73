"""Define wrong encodings of a writer: e2m1 (SCALAR-2, SCALAR-3) and e4m3 (SCALAR-5, SCALAR-6)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conformance.faults.write_rules import Encode, Rules
from conformance.faults.write_targets import wrong
from reference.scalars import E2M1, E4M3, Codes, Floats, MiniFloat


def _signed(form: MiniFloat, magnitudes: Codes, x: Floats) -> Codes:
    signed = magnitudes | np.where(np.signbit(x), form.sign_bit, 0)
    return np.where(np.isnan(x), form.nan_code, signed).astype(np.uint8)


def _ties_away(form: MiniFloat) -> Encode:
    exact = np.array(form.magnitudes, np.float32)
    ties = (exact[:-1] + exact[1:]) / 2
    return lambda x: _signed(form, np.searchsorted(ties, np.abs(x), side="right").astype(np.uint8), x)


def _truncated(form: MiniFloat) -> Encode:
    exact = np.array(form.magnitudes, np.float32)
    return lambda x: _signed(form, (np.searchsorted(exact, np.abs(x), side="right") - 1).astype(np.uint8), x)


def _without_negative_zero(form: MiniFloat) -> Encode:
    return lambda x: _where(form, x, form.encode(x) == form.sign_bit, 0)


def _nan_is(form: MiniFloat, positive: int, negative: int) -> Encode:
    return lambda x: _where(form, x, np.isnan(x), np.where(np.signbit(x), negative, positive))


def _beyond(form: MiniFloat, least: float, code: int) -> Encode:
    """Return an encoding in which magnitudes above `least` become `code`, with their sign."""
    return lambda x: _where(form, x, np.abs(x) > least, code | np.where(np.signbit(x), form.sign_bit, 0))


def _where(form: MiniFloat, x: Floats, changed: np.typing.NDArray[np.bool_], code: np.typing.ArrayLike) -> Codes:
    return np.where(changed, code, form.encode(x)).astype(np.uint8)


def _subnormals_flushed(x: Floats) -> Codes:
    return _where(E4M3, x, np.abs(E4M3.values[E4M3.encode(x) & 0x7F]) < 2.0**-6, np.where(np.signbit(x), 0x80, 0))


FNUZ = replace(E4M3, magnitudes=(*(m / 2 for m in E4M3.magnitudes), 240.0), nan_code=0x80)


def _fnuz(x: Floats) -> Codes:
    codes = FNUZ.encode(x)
    return np.where((codes == 0x80) & ~np.isnan(x), 0, codes).astype(np.uint8)


DEFECTS = (
    wrong(
        "e2m1-ties-away",
        "ties of e2m1 rounded away from zero",
        "SCALAR-2",
        rules=Rules(e2m1=_ties_away(E2M1)),
        source="aiter 3992",
    ),
    wrong("e2m1-truncated", "e2m1 rounded toward zero", "SCALAR-2", rules=Rules(e2m1=_truncated(E2M1))),
    wrong(
        "e2m1-wraps",
        "what is nearer to 8 than to 6 written as code 0 instead of 6",
        "SCALAR-2",
        rules=Rules(e2m1=_beyond(E2M1, 7, 0)),
    ),
    wrong(
        "e2m1-negative-zero-lost",
        "code 8 written as code 0",
        "SCALAR-2",
        rules=Rules(e2m1=_without_negative_zero(E2M1)),
    ),
    wrong(
        "e2m1-nan-keeps-its-sign",
        "a negative NaN written as code 15",
        "SCALAR-3",
        rules=Rules(e2m1=_nan_is(E2M1, 0x7, 0xF)),
    ),
    wrong("e2m1-nan-is-zero", "a NaN written as code 0", "SCALAR-3", rules=Rules(e2m1=_nan_is(E2M1, 0, 0))),
    wrong(
        "e4m3-ties-away",
        "ties of e4m3 rounded away from zero",
        "SCALAR-5",
        rules=Rules(e4m3=_ties_away(E4M3)),
    ),
    wrong("e4m3-truncated", "e4m3 rounded toward zero", "SCALAR-5", rules=Rules(e4m3=_truncated(E4M3))),
    wrong(
        "e4m3-nan-beyond-its-range",
        "e4m3 without saturation, NaN above 464, as ml_dtypes and torch have it",
        "SCALAR-5",
        rules=Rules(e4m3=_beyond(E4M3, 464, 0x7F)),
    ),
    wrong(
        "e4m3-infinity-is-nan",
        "an infinity written as the NaN of e4m3",
        "SCALAR-5",
        rules=Rules(e4m3=_beyond(E4M3, 3.4e38, 0x7F)),
    ),
    wrong(
        "e4m3-negative-zero-lost",
        "e4m3 byte 0x80 written as 0x00",
        "SCALAR-5",
        rules=Rules(e4m3=_without_negative_zero(E4M3)),
    ),
    wrong(
        "e4m3-subnormals-flushed",
        "subnormals of e4m3 written as zero",
        "SCALAR-5",
        rules=Rules(e4m3=_subnormals_flushed),
    ),
    wrong("e4m3-is-fnuz", "e4m3 with the bias and the NaN of e4m3fnuz", "SCALAR-5", rules=Rules(e4m3=_fnuz)),
    wrong(
        "e4m3-nan-keeps-its-sign",
        "a negative NaN written as 0xFF",
        "SCALAR-6",
        rules=Rules(e4m3=_nan_is(E4M3, 0x7F, 0xFF)),
    ),
    wrong(
        "e4m3-nan-is-448",
        "a NaN clamped to 448 or -448, as by minimum and maximum",
        "SCALAR-6",
        rules=Rules(e4m3=_nan_is(E4M3, 0x7E, 0xFE)),
    ),
)
