"""Quantize bf16 numbers into the bytes of records (SPEC.md WRITE-10 to WRITE-20)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reference.profiles import Profile
from reference.records import NVFP4_DS_MLA, Field, RecordLayout
from reference.scalars import E2M1, E4M3, Bf16Bits, Codes, Floats, f32_from_bf16

Records = npt.NDArray[np.uint8]

SIXTH = np.float32(1) / np.float32(6)
LEAST_SCALE = np.float32(2.0**-9)
TILE = 128
LEAST_TILE_SCALE = np.float32(2.0**-126)
LEAST_POWER = np.float32(1e-4)


def quantize_nvfp4(kv_c: Bf16Bits, k_pe: Bf16Bits, profile: Profile, layout: RecordLayout = NVFP4_DS_MLA) -> Records:
    """Return the nvfp4_ds_mla records of N tokens (WRITE-10 to WRITE-15).

    kv_c: uint16 bf16 encodings [N, 512]; k_pe: uint16 bf16 encodings [N, 64].

    Returns:
        uint8 [N, layout.nbytes].

    """
    blocks = f32_from_bf16(kv_c).reshape(len(kv_c), layout.scales.count, layout.block)
    scales = scale_bytes(scale_factors(amax(blocks, profile.nan), profile.sixth), profile.scale)
    codes = latent_codes(blocks, E4M3.decode(scales)[..., None], profile.normalisation)
    records = np.empty((len(kv_c), layout.nbytes), np.uint8)
    store(records, layout.latent, codes.reshape(kv_c.shape))
    store(records, layout.rope, E4M3.encode(f32_from_bf16(k_pe)))
    store(records, layout.scales, scales)
    return records


def amax(blocks: Floats, nan: str) -> Floats:
    """Return the largest magnitude of each block of n numbers, float32 [..., n] (WRITE-10).

    If `nan` is "ignored" a NaN counts as 0. Otherwise a NaN makes the result NaN.

    Returns:
        float32 [...].

    """
    magnitudes = np.abs(blocks)
    if nan == "ignored":
        magnitudes = np.where(np.isnan(magnitudes), np.float32(0), magnitudes)
    largest: Floats = magnitudes.max(axis=-1)  # NaN if there is one
    return largest


def scale_factors(largest: Floats, sixth: str) -> Floats:
    """Return float32 scale factors for float32 amax of any shape: one sixth, at least LEAST_SCALE (WRITE-11)."""
    with np.errstate(invalid="ignore"):
        scaled = largest * SIXTH if sixth == "multiplied" else largest / np.float32(6)
    factors: Floats = np.maximum(scaled, LEAST_SCALE)  # NaN stays NaN
    return factors


def scale_bytes(factors: Floats, rule: str) -> Codes:
    """Return e4m3 scale bytes for float32 scale factors of any shape (WRITE-12).

    The `rule` "nearest" rounds to nearest. The other one takes the smallest byte that is not below the factor.

    Returns:
        uint8 of the shape of `factors`.

    """
    if rule == "nearest":
        return E4M3.encode(factors)
    not_below = np.searchsorted(np.array(E4M3.magnitudes, np.float32), factors)
    return np.where(np.isnan(factors), E4M3.nan_code, not_below.clip(max=E4M3.first_nan - 1)).astype(np.uint8)


def latent_codes(x: Floats, scale: Floats, normalisation: str) -> Codes:
    """Return uint8 e2m1 codes of float32 elements [..., n] and their scales' float32 values [..., 1] (WRITE-13)."""
    with np.errstate(over="ignore", invalid="ignore"):
        return E2M1.encode(x / scale if normalisation == "division" else x * (np.float32(1) / scale))


def quantize_fp8_ds_mla(kv_c: Bf16Bits, k_pe: Bf16Bits, profile: Profile) -> Records:
    """Return the fp8_ds_mla records of N tokens (WRITE-16 to WRITE-18).

    kv_c: uint16 bf16 encodings [N, 512] of finite numbers, which is not checked; k_pe: uint16 bf16 encodings [N, 64].

    Returns:
        uint8 [N, 656].

    """
    tiles = f32_from_bf16(kv_c).reshape(len(kv_c), kv_c.shape[1] // TILE, TILE)
    scales = tile_scales(amax(tiles, profile.nan), profile.tile)
    latent = E4M3.encode(tiles / scales[..., None]).reshape(kv_c.shape)
    return np.concatenate([latent, _bytes(scales, "<f4"), _bytes(k_pe, "<u2")], axis=1)


def tile_scales(largest: Floats, rule: str) -> Floats:
    """Return scales for float32 amax of any shape (WRITE-17).

    The `rule` "arbitrary" keeps amax / 448. The other one rounds it up to a power of two.

    Returns:
        float32 of the shape of `largest`.

    """
    scaled = largest / np.float32(448)
    if rule == "arbitrary":
        scales: Floats = np.maximum(scaled, LEAST_TILE_SCALE)
        return scales
    fraction, exponent = np.frexp(np.maximum(scaled, LEAST_POWER))  # a fraction in [0.5, 1)
    powers: Floats = np.ldexp(np.float32(1), np.where(fraction == 0.5, exponent - 1, exponent)).astype(np.float32)
    return powers


def quantize_fp8(kv_c: Bf16Bits, k_pe: Bf16Bits, scale: np.float32) -> Records:
    """Return the "fp8" records of N tokens: e4m3 codes of each number divided by `scale` (WRITE-20).

    kv_c: uint16 bf16 encodings [N, 512]; k_pe: uint16 bf16 encodings [N, 64].

    Returns:
        uint8 [N, 576].

    """
    with np.errstate(over="ignore", invalid="ignore"):
        return E4M3.encode(f32_from_bf16(np.concatenate([kv_c, k_pe], axis=1)) / np.float32(scale))


def store(records: Records, field: Field, codes: Codes) -> None:
    """Store uint8 codes [N, field.count] in a field of uint8 records [N, bytes] (RECORD-1 to RECORD-4)."""
    stored = np.empty_like(codes)
    stored[:, list(field.order) or slice(None)] = codes
    width = 8 // field.per_byte
    by_byte = stored.reshape(len(codes), field.nbytes, field.per_byte)
    shifted = by_byte << (width * np.arange(field.per_byte, dtype=np.uint8))
    records[:, field.offset : field.end] = np.bitwise_or.reduce(shifted, axis=2)


def _bytes(numbers: npt.NDArray[np.generic], stored: str) -> Records:
    contiguous = np.ascontiguousarray(numbers, stored)
    return contiguous.view(np.uint8).reshape(len(numbers), numbers.shape[1] * contiguous.itemsize)
