"""SCALAR: both models against NVIDIA's headers (everywhere), ml_dtypes and torch's dtypes (in range)."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
import torch

from kernels import scalars as headers
from reference import torch_model
from reference.scalars import E2M1, E4M3, MiniFloat, bf16_from_f32, f32_from_bf16

EVERY_BF16 = f32_from_bf16(np.arange(65_536, dtype=np.uint16))
CODES = np.arange(16, dtype=np.uint8)
BYTES = np.arange(256, dtype=np.uint8)
# Every upper half of a float32, with lower halves on both sides of every rounding decision.
LOWER = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
EVERY_ROUNDING = (np.arange(65_536, dtype=np.uint32)[:, None] << 16 | LOWER).view(np.float32).ravel()


def bits(values: np.ndarray) -> np.ndarray:
    """float32 encodings, with one encoding for every NaN, whose sign and payload no clause fixes."""
    return np.where(np.isnan(values), np.float32(np.nan), values).view(np.uint32)


def by_torch(function: Callable[[torch.Tensor], torch.Tensor], values: np.ndarray) -> np.ndarray:
    return np.asarray(function(torch.from_numpy(values.copy())))


@pytest.mark.clause("SCALAR-1")
def test_every_e2m1_code_has_the_value_of_the_headers_and_of_ml_dtypes() -> None:
    mine = bits(E2M1.decode(CODES))
    assert (mine == bits(headers.e2m1_to_f32(CODES))).all()
    assert (mine == bits(CODES.view(ml_dtypes.float4_e2m1fn).astype(np.float32))).all()
    assert (mine == bits(by_torch(torch_model.decode_e2m1, CODES))).all()


@pytest.mark.clause("SCALAR-4")
def test_every_e4m3_byte_has_the_value_of_the_headers_ml_dtypes_and_torch() -> None:
    mine = bits(E4M3.decode(BYTES))
    assert (mine == bits(headers.e4m3_to_f32(BYTES))).all()
    assert (mine == bits(BYTES.view(ml_dtypes.float8_e4m3fn).astype(np.float32))).all()
    assert (mine == bits(torch.from_numpy(BYTES).view(torch.float8_e4m3fn).float().numpy())).all()
    assert (mine == bits(by_torch(torch_model.decode_e4m3, BYTES))).all()


@pytest.mark.clause("SCALAR-2", "SCALAR-3")
@pytest.mark.parametrize("values", [EVERY_BF16, EVERY_ROUNDING], ids=["every bf16", "every rounding of a float32"])
def test_encoding_into_e2m1_is_that_of_the_headers(values: np.ndarray) -> None:
    mine = E2M1.encode(values)
    assert (mine == headers.f32_to_e2m1(values)).all()
    assert (mine == by_torch(torch_model.encode_e2m1, values)).all()


@pytest.mark.clause("SCALAR-5", "SCALAR-6")
@pytest.mark.parametrize("values", [EVERY_BF16, EVERY_ROUNDING], ids=["every bf16", "every rounding of a float32"])
def test_encoding_into_e4m3_is_that_of_the_headers(values: np.ndarray) -> None:
    mine = E4M3.encode(values)
    assert (mine == headers.f32_to_e4m3(values)).all()
    assert (mine == by_torch(torch_model.encode_e4m3, values)).all()


@pytest.mark.clause("SCALAR-2", "SCALAR-5")
@pytest.mark.parametrize(
    ("form", "dtype"), [(E2M1, ml_dtypes.float4_e2m1fn), (E4M3, ml_dtypes.float8_e4m3fn)], ids=["e2m1", "e4m3"]
)
def test_encoding_in_range_is_that_of_ml_dtypes(form: MiniFloat, dtype: type) -> None:
    inside = EVERY_ROUNDING[np.abs(EVERY_ROUNDING) <= form.magnitudes[-1]]
    assert len(inside) > 190_000
    assert (form.encode(inside) == inside.astype(dtype).view(np.uint8)).all()


@pytest.mark.clause("SCALAR-5")
def test_encoding_into_e4m3_in_range_is_that_of_torch() -> None:
    inside = EVERY_ROUNDING[np.abs(EVERY_ROUNDING) <= 448]
    by_dtype = torch.from_numpy(inside).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    assert (E4M3.encode(inside) == by_dtype).all()


@pytest.mark.clause("SCALAR-2", "SCALAR-5")
@pytest.mark.parametrize(("form", "most"), [(E2M1, 0x7), (E4M3, 0x7E)], ids=["e2m1", "e4m3"])
def test_infinities_and_all_beyond_the_range_saturate(form: MiniFloat, most: int) -> None:
    beyond = EVERY_ROUNDING[np.abs(EVERY_ROUNDING) > form.magnitudes[-1]]
    assert np.isinf(beyond).any()
    assert (form.encode(beyond) == np.where(np.signbit(beyond), most | form.sign_bit, most)).all()


@pytest.mark.clause("SCALAR-3", "SCALAR-6", "SCALAR-8")
def test_every_nan_encodes_alike() -> None:
    nans = EVERY_ROUNDING[np.isnan(EVERY_ROUNDING)]
    assert np.signbit(nans).any() and not np.signbit(nans).all()
    assert set(E2M1.encode(nans)) == {0x7}
    assert set(E4M3.encode(nans)) == {0x7F}
    assert set(bf16_from_f32(nans)) == {0x7FFF}


@pytest.mark.clause("SCALAR-7", "SCALAR-8")
def test_rounding_to_bf16_is_that_of_the_headers() -> None:
    mine = bf16_from_f32(EVERY_ROUNDING)
    assert (mine == headers.f32_to_bf16(EVERY_ROUNDING)).all()
    assert (mine == by_torch(torch_model.bf16_bits, EVERY_ROUNDING)).all()


@pytest.mark.clause("SCALAR-7")
def test_rounding_to_bf16_is_that_of_ml_dtypes_but_for_nan() -> None:
    numbers = EVERY_ROUNDING[~np.isnan(EVERY_ROUNDING)]
    assert (bf16_from_f32(numbers) == numbers.astype(ml_dtypes.bfloat16).view(np.uint16)).all()


@pytest.mark.clause("READ-1")
def test_every_finite_product_of_code_and_scale_is_exact_in_bf16_and_in_f16() -> None:
    finite = BYTES[~np.isnan(E4M3.decode(BYTES))]
    products = E2M1.decode(CODES).astype(np.float64)[:, None] * E4M3.decode(finite)
    assert products.shape == (16, 254)
    assert (f32_from_bf16(bf16_from_f32(products)) == products).all()
    assert (products.astype(np.float16) == products).all()
    magnitudes = np.unique(np.abs(products))
    # 475 distinct values of either sign, magnitudes 2^-10 to 2,688.
    assert len(np.unique(products)) == 475
    assert (magnitudes[1], magnitudes[-1]) == (2.0**-10, 2688)
