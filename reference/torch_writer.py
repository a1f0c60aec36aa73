"""Write records in torch: the second golden model of SPEC.md's WRITE clauses.

It is written from SPEC.md and shares neither code nor method with the NumPy model. The largest magnitude is the largest
of the bit patterns. A scale that must not be too small is the nearest one, corrected. A power of two comes from the
exponent field. Scales are put in order by a transposition. Where the models agree, they agree for different reasons.
"""

import torch
from torch import Tensor

from reference.profiles import Profile
from reference.torch_model import (
    BLOCK,
    LATENT,
    RECORD,
    ROPE,
    ROW,
    SCALES,
    _check_array,
    _require,
    decode_e4m3,
    encode_e2m1,
    encode_e4m3,
)

TILE = 128
TILES = LATENT // TILE
FP8_DS_MLA = LATENT + 4 * TILES + 2 * ROPE

# Bounds the binary64 intermediates of a long call to some tens of megabytes.
_CHUNK_ROWS = 4096
_BF16_INFINITY = 0x7F80
_LARGEST_BYTE = 0x7E


_CACHES = {
    "nvfp4_ds_mla": (torch.uint8, RECORD),
    "fp8_ds_mla": (torch.uint8, FP8_DS_MLA),
    "auto": (torch.bfloat16, ROW),
    "fp8": (torch.uint8, ROW),
}


def _refuse_any(bad: Tensor, name: str, values: Tensor, allowed: str) -> None:
    if bad.any():
        at = tuple(bad.nonzero()[0].tolist())
        _require(False, f"{name}[{', '.join(map(str, at))}]", values[at].item(), allowed)


def _check_rows(kv_c: Tensor, k_pe: Tensor, at_least: int = 0) -> None:
    for name, rows, width in (("kv_c", kv_c, LATENT), ("k_pe", k_pe, ROPE)):
        _check_array(name, rows, torch.bfloat16, (None, width))
        _require(rows.shape[0] >= at_least, f"{name}.shape[0]", rows.shape[0], f"at least {at_least} tokens")


def _count_rows(kv_c: Tensor, k_pe: Tensor) -> int:
    _check_rows(kv_c, k_pe)
    n = kv_c.shape[0]
    _require(k_pe.shape[0] == n, "k_pe.shape[0]", k_pe.shape[0], f"{n}, as many as kv_c has")
    return n


def _check_divisor(scale: Tensor) -> None:
    _refuse_any(~(scale.isfinite() & (scale > 0)), "scale", scale, "a finite number above 0")


def _largest_magnitude(groups: Tensor, nan: str) -> Tensor:
    """Return the amax over the last dimension of bfloat16 groups [..., n], float32 [...] (WRITE-10)."""
    # Magnitudes are in the order of their bit patterns, and every NaN lies above the infinity.
    magnitudes = groups.view(torch.int16).int() & 0x7FFF
    if nan == "ignored":
        magnitudes = magnitudes.masked_fill(magnitudes > _BF16_INFINITY, 0)
    return (magnitudes.amax(dim=-1) << 16).view(torch.float32)


def _divide(x: Tensor, divisor: float | Tensor) -> Tensor:
    # Some devices multiply by the reciprocal of a divisor that is a number.
    return x / torch.as_tensor(divisor, dtype=torch.float32, device=x.device).expand_as(x)


def _scale_bytes(amax: Tensor, profile: Profile) -> Tensor:
    """Return the scale bytes, uint8, of float32 amaxes of any shape (WRITE-11, WRITE-12)."""
    sixth = amax * torch.full_like(amax, 1 / 6) if profile.sixth == "multiplied" else _divide(amax, 6.0)
    sf = sixth.maximum(torch.full_like(amax, 2.0**-9))
    nearest = encode_e4m3(sf)
    if profile.scale == "nearest":
        return nearest
    return nearest + ((decode_e4m3(nearest) < sf) & (nearest < _LARGEST_BYTE)).to(torch.uint8)


def _little_endian(words: Tensor, size: int) -> Tensor:
    """Return uint8 [N, M * size] with the low `size` bytes of each number of int32 [N, M]."""
    bits = torch.stack([(words >> (8 * i)) & 0xFF for i in range(size)], dim=2)
    return bits.to(torch.uint8).reshape(words.shape[0], words.shape[1] * size)


def quantize_nvfp4(kv_c: Tensor, k_pe: Tensor, profile: Profile) -> Tensor:
    """Quantize rows into records of nvfp4_ds_mla: WRITE-10 to WRITE-15, RECORD-1 to RECORD-4.

    kv_c is torch.bfloat16 [N, 512], k_pe torch.bfloat16 [N, 64], of any bits and any row strides. Another dtype or
    shape raises ValueError.

    Returns:
        A new uint8 [N, 352], one record a row.

    """
    n = _count_rows(kv_c, k_pe)
    blocks = kv_c.reshape(n, SCALES, BLOCK)
    scales = _scale_bytes(_largest_magnitude(blocks, profile.nan), profile)
    q = decode_e4m3(scales).reshape(n, SCALES, 1)
    x = blocks.float()
    scaled = _divide(x, q) if profile.normalisation == "division" else x * (torch.ones_like(q) / q)
    even, odd = encode_e2m1(scaled).reshape(n, LATENT // 2, 2).unbind(dim=2)
    in_order = scales.reshape(n, SCALES // 4, 4).transpose(1, 2).reshape(n, SCALES)
    return torch.cat((even | (odd << 4), encode_e4m3(k_pe.float()), in_order), dim=1)


def _tile_scales(amax: Tensor, tile: str) -> Tensor:
    """Return the float32 scales of float32 amaxes of any shape, all finite (WRITE-17)."""
    least = 1e-4 if tile == "power of two" else 2.0**-126
    scales = _divide(amax, 448.0).maximum(torch.full_like(amax, least))
    if tile == "arbitrary":
        return scales
    mantissa = (1 << 23) - 1
    # A mantissa that is not 0 carries into the exponent.
    return ((scales.view(torch.int32) + mantissa) & ~mantissa).view(torch.float32)


def quantize_fp8_ds_mla(kv_c: Tensor, k_pe: Tensor, profile: Profile) -> Tensor:
    """Quantize rows into records of fp8_ds_mla: WRITE-10, WRITE-16 to WRITE-18.

    kv_c is torch.bfloat16 [N, 512] of finite numbers, k_pe torch.bfloat16 [N, 64] of any bits, with any row strides.
    Another dtype or shape raises ValueError, and so does an infinity or a NaN in kv_c.

    Returns:
        A new uint8 [N, 656], one record a row.

    """
    n = _count_rows(kv_c, k_pe)
    _refuse_any(~kv_c.isfinite(), "kv_c", kv_c, "a finite number")
    tiles = kv_c.reshape(n, TILES, TILE)
    scales = _tile_scales(_largest_magnitude(tiles, profile.nan), profile.tile)
    latent = encode_e4m3(_divide(tiles.float(), scales.reshape(n, TILES, 1))).reshape(n, LATENT)
    rope = _little_endian(k_pe.view(torch.int16).int(), 2)
    return torch.cat((latent, _little_endian(scales.view(torch.int32), 4), rope), dim=1)


def quantize_fp8(kv_c: Tensor, k_pe: Tensor, scale: Tensor) -> Tensor:
    """Quantize rows into records of "fp8": WRITE-20.

    kv_c is torch.bfloat16 [N, 512], k_pe torch.bfloat16 [N, 64], of any bits and any row strides. `scale` is one
    float32 number, finite and above 0. Any other argument raises ValueError.

    Returns:
        A new uint8 [N, 576], one record a row.

    """
    _count_rows(kv_c, k_pe)
    divisor = scale.reshape(-1)
    _check_array("scale", divisor, torch.float32, (1,))
    _check_divisor(divisor)
    return encode_e4m3(_divide(torch.cat((kv_c.float(), k_pe.float()), dim=1), divisor))


def _overlap(kv_cache: Tensor) -> bool:
    (num_blocks, block_size, width), (far, near, _) = kv_cache.shape, kv_cache.stride()
    if block_size == 1:
        near = width
    if near < width:
        return True
    # Records are `near` apart, so that a record at the start of another block can only meet one of its two neighbours.
    starts = torch.arange(1, num_blocks) * far
    below = (starts // near).clamp(max=block_size - 1)
    above = (below + 1).clamp(max=block_size - 1)
    return any(bool(((starts - i * near).abs() < width).any()) for i in (below, above))


def _check_call(
    kv_c: Tensor, k_pe: Tensor, kv_cache: Tensor, slot_mapping: Tensor, kv_cache_dtype: str, scale: Tensor
) -> None:
    known = isinstance(kv_cache_dtype, str) and kv_cache_dtype in _CACHES
    _require(known, "kv_cache_dtype", repr(kv_cache_dtype), f"one of {', '.join(_CACHES)}")
    dtype, width = _CACHES[kv_cache_dtype]
    _check_array("kv_cache", kv_cache, dtype, (None, None, width))
    _require(kv_cache.shape[1] >= 1, "kv_cache.shape[1]", kv_cache.shape[1], "a block_size of at least 1")
    overlaps = kv_cache.numel() > 0 and _overlap(kv_cache)
    _require(not overlaps, "kv_cache.stride()", list(kv_cache.stride()), "records that do not overlap")
    _check_array("slot_mapping", slot_mapping, torch.int64, (None,))
    scalar = isinstance(scale, Tensor) and scale.ndim == 0
    _check_array("scale", scale.reshape(1) if scalar else scale, torch.float32, (1,))
    _check_rows(kv_c, k_pe, slot_mapping.shape[0])
    for name, array in (("kv_c", kv_c), ("k_pe", k_pe), ("slot_mapping", slot_mapping), ("scale", scale)):
        _require(array.device == kv_cache.device, f"{name}.device", array.device, f"{kv_cache.device} of kv_cache")


def _check_slots(slots: Tensor, capacity: int) -> None:
    _refuse_any(slots >= capacity, "slot_mapping", slots, f"a slot below {capacity}, or a negative one")
    ordered, order = slots.sort(stable=True)
    again = torch.zeros_like(slots, dtype=torch.bool)
    again[order[1:]] = (ordered[1:] == ordered[:-1]) & (ordered[1:] >= 0)
    _refuse_any(again, "slot_mapping", slots, "a slot that no token before has")


def _records(
    kv_c: Tensor, k_pe: Tensor, tokens: Tensor, kv_cache_dtype: str, scale: Tensor, profile: Profile
) -> Tensor:
    # Copied as integers, a NaN keeps its payload.
    latent, rope = kv_c.view(torch.int16)[tokens], k_pe.view(torch.int16)[tokens]
    if kv_cache_dtype == "auto":
        return torch.cat((latent, rope), dim=1)
    x = latent.view(torch.bfloat16), rope.view(torch.bfloat16)
    if kv_cache_dtype == "fp8":
        return quantize_fp8(*x, scale)
    return (quantize_nvfp4 if kv_cache_dtype == "nvfp4_ds_mla" else quantize_fp8_ds_mla)(*x, profile)


def concat_and_cache_mla(
    kv_c: Tensor,
    k_pe: Tensor,
    kv_cache: Tensor,
    slot_mapping: Tensor,
    kv_cache_dtype: str,
    scale: Tensor,
    profile: Profile,
) -> None:
    """Write T tokens into the records of a cache: all of WRITE.

    kv_c is torch.bfloat16 [>= T, 512], k_pe torch.bfloat16 [>= T, 64], slot_mapping int64 [T] of slots, scale float32
    [1] or []. kv_cache is uint8 [num_blocks, block_size, n] with n = 352 for "nvfp4_ds_mla", 656 for "fp8_ds_mla" and
    576 for "fp8", and torch.bfloat16 [num_blocks, block_size, 576] for "auto". Its strides must keep records apart.
    Only kv_cache is written. T = 0 writes nothing (WRITE-8). Every alignment is served. Rows of a skipped token
    (WRITE-2) and rows from T on (WRITE-3) are not checked. A malformed call (WRITE-9) raises ValueError that names the
    argument, its value and what is allowed. An illegal call also names the index. Nothing is written in either case.
    """
    _check_call(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale)
    (num_blocks, block_size), num_tokens = kv_cache.shape[:2], slot_mapping.shape[0]
    if num_tokens == 0:
        return
    _check_slots(slot_mapping, num_blocks * block_size)
    is_written = slot_mapping >= 0
    if kv_cache_dtype == "fp8":
        _check_divisor(scale)
    if kv_cache_dtype == "fp8_ds_mla":
        _refuse_any(~kv_c[:num_tokens].isfinite() & is_written[:, None], "kv_c", kv_c, "a finite number")
    written = is_written.nonzero().flatten()
    for i in range(0, written.shape[0], _CHUNK_ROWS):
        tokens = written[i : i + _CHUNK_ROWS]
        records = _records(kv_c, k_pe, tokens, kv_cache_dtype, scale, profile)
        slots = slot_mapping[tokens]
        kv_cache.view(records.dtype)[slots // block_size, slots % block_size] = records
