"""WRITE: from bf16 numbers to the bytes of records (SPEC.md WRITE-10 to WRITE-20)."""

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
    """uint16 bf16 encodings [N, 512] and [N, 64] -> uint8 records [N, layout.nbytes] (WRITE-10 to WRITE-15)."""
    blocks = f32_from_bf16(kv_c).reshape(len(kv_c), layout.scales.count, layout.block)
    scales = scale_bytes(scale_factors(amax(blocks, profile.nan), profile.sixth), profile.scale)
    codes = latent_codes(blocks, E4M3.decode(scales)[..., None], profile.normalisation)
    records = np.empty((len(kv_c), layout.nbytes), np.uint8)
    store(records, layout.latent, codes.reshape(kv_c.shape))
    store(records, layout.rope, E4M3.encode(f32_from_bf16(k_pe)))
    store(records, layout.scales, scales)
    return records


def amax(blocks: Floats, nan: str) -> Floats:
    """float32 [..., n] -> [...]: the largest magnitude (WRITE-10)."""
    magnitudes = np.abs(blocks)
    if nan == "ignored":
        magnitudes = np.where(np.isnan(magnitudes), np.float32(0), magnitudes)
    largest: Floats = magnitudes.max(axis=-1)  # NaN if there is one
    return largest


def scale_factors(largest: Floats, sixth: str) -> Floats:
    """float32 amax -> float32 sf of the same shape (WRITE-11)."""
    with np.errstate(invalid="ignore"):
        scaled = largest * SIXTH if sixth == "multiplied" else largest / np.float32(6)
    factors: Floats = np.maximum(scaled, LEAST_SCALE)  # NaN stays NaN
    return factors


def scale_bytes(factors: Floats, rule: str) -> Codes:
    """float32 sf -> uint8 scale bytes of the same shape (WRITE-12)."""
    if rule == "nearest":
        return E4M3.encode(factors)
    not_below = np.searchsorted(np.array(E4M3.magnitudes, np.float32), factors)
    return np.where(np.isnan(factors), E4M3.nan_code, not_below.clip(max=E4M3.first_nan - 1)).astype(np.uint8)


def latent_codes(x: Floats, scale: Floats, normalisation: str) -> Codes:
    """float32 elements and the numbers of their scale bytes -> uint8 e2m1 codes (WRITE-13)."""
    with np.errstate(over="ignore", invalid="ignore"):
        return E2M1.encode(x / scale if normalisation == "division" else x * (np.float32(1) / scale))


def quantize_fp8_ds_mla(kv_c: Bf16Bits, k_pe: Bf16Bits, profile: Profile) -> Records:
    """uint16 bf16 encodings [N, 512] of finite numbers and [N, 64] -> uint8 records [N, 656] (WRITE-16 to 18)."""
    tiles = f32_from_bf16(kv_c).reshape(len(kv_c), kv_c.shape[1] // TILE, TILE)
    scales = tile_scales(amax(tiles, profile.nan), profile.tile)
    latent = E4M3.encode(tiles / scales[..., None]).reshape(kv_c.shape)
    return np.concatenate([latent, _bytes(scales, "<f4"), _bytes(k_pe, "<u2")], axis=1)


def tile_scales(largest: Floats, rule: str) -> Floats:
    """float32 amax -> float32 scales of the same shape (WRITE-17)."""
    scaled = largest / np.float32(448)
    if rule == "arbitrary":
        scales: Floats = np.maximum(scaled, LEAST_TILE_SCALE)
        return scales
    fraction, exponent = np.frexp(np.maximum(scaled, LEAST_POWER))  # a fraction in [0.5, 1)
    powers: Floats = np.ldexp(np.float32(1), np.where(fraction == 0.5, exponent - 1, exponent)).astype(np.float32)
    return powers


def quantize_fp8(kv_c: Bf16Bits, k_pe: Bf16Bits, scale: np.float32) -> Records:
    """uint16 bf16 encodings [N, 512] and [N, 64] -> uint8 records [N, 576] (WRITE-20)."""
    with np.errstate(over="ignore", invalid="ignore"):
        return E4M3.encode(f32_from_bf16(np.concatenate([kv_c, k_pe], axis=1)) / np.float32(scale))


def store(records: Records, field: Field, codes: Codes) -> None:
    """Put uint8 codes [N, field.count] where a field of uint8 records [N, bytes] has them (RECORD-1 to RECORD-4)."""
    stored = np.empty_like(codes)
    stored[:, list(field.order) or slice(None)] = codes
    width = 8 // field.per_byte
    by_byte = stored.reshape(len(codes), field.nbytes, field.per_byte)
    shifted = by_byte << (width * np.arange(field.per_byte, dtype=np.uint8))
    records[:, field.offset : field.end] = np.bitwise_or.reduce(shifted, axis=2)


def _bytes(numbers: npt.NDArray[np.generic], stored: str) -> Records:
    contiguous = np.ascontiguousarray(numbers, stored)
    return contiguous.view(np.uint8).reshape(len(numbers), numbers.shape[1] * contiguous.itemsize)
