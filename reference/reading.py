"""Read packed records into bf16 rows (SPEC.md READ-1 to READ-6, TWIN-2 to TWIN-4, TWIN-8, TWIN-9)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from reference.records import Field, RecordLayout
from reference.scalars import Bf16Bits, Floats, MiniFloat, WideFloat, bf16_from_f32

Records = npt.NDArray[np.uint8]

_ALL_BYTES = np.arange(256, dtype=np.uint8)


def read_records(layout: RecordLayout, records: Records, scale: npt.ArrayLike = 1.0) -> Bf16Bits:
    """Return the rows of uint8 records [N, layout.nbytes]: latent, then RoPE key.

    `scale` is one binary32 scale for the tensor, a number, [] or [1]. Only e4m3 numbers in records without scales use
    it (TWIN-9).

    Returns:
        uint16 bf16 encodings [N, layout.row].

    """
    if not layout.scales.count:
        return _read_alike(layout.latent, records, np.asarray(scale, np.float32).reshape(1))
    return np.concatenate([read_latent(layout, records), read_rope(layout, records)], axis=1)


def _read_alike(numbers: Field, records: Records, scale: Floats) -> Bf16Bits:
    """Return uint16 [N, n] for records of n equal numbers: copied (TWIN-8), or multiplied by one scale (TWIN-9)."""
    if isinstance(numbers.scalar, WideFloat):
        return _wide(numbers, records)
    return _scaled(numbers.scalar.values, scale)[_bytes_of(numbers, records)]  # 256 products, of which all are made


def read_latent(layout: RecordLayout, records: Records) -> Bf16Bits:
    """Return the latent of uint8 records [N, layout.nbytes], each code times its scale (READ-1, 3, 4, 6; TWIN-2, 4).

    Returns:
        uint16 bf16 encodings [N, layout.latent.count].

    """
    latent, scales = layout.latent, layout.scales
    assert isinstance(latent.scalar, MiniFloat)
    if isinstance(scales.scalar, WideFloat):
        return _scaled(latent.scalar.decode(_bytes_of(latent, records)), _wide(scales, records))
    scale_bytes = scales.in_order(_bytes_of(scales, records)).astype(np.intp)
    latent_bytes = _bytes_of(latent, records).reshape(len(records), scales.count, layout.block // latent.per_byte)
    pairs = _products(latent.scalar, scales.scalar, latent.per_byte)[scale_bytes[..., None] << 8 | latent_bytes]
    return latent.in_order(pairs.view(np.uint16).reshape(len(records), latent.count))


def read_rope(layout: RecordLayout, records: Records) -> Bf16Bits:
    """Return the unscaled RoPE key of uint8 records [N, layout.nbytes] (READ-2, 3, 5, 6; TWIN-3).

    Returns:
        uint16 bf16 encodings [N, layout.rope.count].

    """
    if isinstance(layout.rope.scalar, WideFloat):
        return _wide(layout.rope, records)
    stored = bf16_from_f32(layout.rope.scalar.values)[_bytes_of(layout.rope, records)]
    return layout.rope.in_order(stored)


def _scaled(elements: Floats, scales: Floats) -> Bf16Bits:
    blocks = elements.reshape(*scales.shape, elements.shape[-1] // scales.shape[-1])
    with np.errstate(over="ignore", invalid="ignore"):  # a scale of random bytes may be anything
        return bf16_from_f32(blocks * scales[..., None]).reshape(elements.shape)


def _wide(field: Field, records: Records) -> npt.NDArray[Any]:
    """Return the numbers of a WideFloat field of N records, [N, count] of the field's dtype."""
    assert isinstance(field.scalar, WideFloat)
    return np.ascontiguousarray(_bytes_of(field, records)).view(np.dtype(field.scalar.dtype))


def _bytes_of(field: Field, records: Records) -> Records:
    return records[:, field.offset : field.end]


@lru_cache
def _products(code: MiniFloat, scale: MiniFloat, per_byte: int) -> npt.NDArray[np.uint16 | np.uint32]:
    """Return the bf16 products of each scale byte and the codes of each latent byte.

    Returns:
        uint16 or uint32 [65,536]: at scale byte * 256 + latent byte, the products of that byte's codes side by side.

    """
    width = 8 // per_byte
    codes = np.stack([_ALL_BYTES >> width * i & (1 << width) - 1 for i in range(per_byte)], axis=-1)
    products = scale.values[:, None, None] * code.decode(codes)  # exact in float32
    return bf16_from_f32(products).reshape(-1, per_byte).view(np.dtype(f"u{2 * per_byte}")).ravel()
