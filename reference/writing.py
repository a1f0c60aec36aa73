"""Write tokens into a cache: concat_and_cache_mla (SPEC.md WRITE-1 to WRITE-9, WRITE-19, and its contract)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reference.contract import check_array, check_each, rows_overlap
from reference.profiles import DEFAULT, Profile
from reference.quantize import quantize_fp8, quantize_fp8_ds_mla, quantize_nvfp4
from reference.records import NVFP4_DS_MLA
from reference.scalars import Bf16Bits

Array = npt.NDArray[np.generic]

LATENT, ROPE = NVFP4_DS_MLA.latent.count, NVFP4_DS_MLA.rope.count


@dataclass(frozen=True)
class CacheFormat:
    """Describe the elements of a cache of one kv_cache_dtype: `width` elements of `dtype` for each record."""

    dtype: type[np.generic]
    width: int


FORMATS = {
    "nvfp4_ds_mla": CacheFormat(np.uint8, NVFP4_DS_MLA.nbytes),
    "fp8_ds_mla": CacheFormat(np.uint8, 656),
    "auto": CacheFormat(np.uint16, LATENT + ROPE),
    "fp8": CacheFormat(np.uint8, LATENT + ROPE),
}


def records_of(
    kv_c: Bf16Bits, k_pe: Bf16Bits, kv_cache_dtype: str, scale: npt.NDArray[np.float32], profile: Profile = DEFAULT
) -> Array:
    """Return the records of N tokens.

    kv_c: uint16 bf16 encodings [N, 512]; k_pe: uint16 bf16 encodings [N, 64]; scale: float32 of one element, which only
    "fp8" uses. `profile` decides how nvfp4_ds_mla and fp8_ds_mla round.

    Returns:
        FORMATS[kv_cache_dtype].dtype [N, FORMATS[kv_cache_dtype].width].

    """
    if kv_cache_dtype == "nvfp4_ds_mla":
        return quantize_nvfp4(kv_c, k_pe, profile)
    if kv_cache_dtype == "fp8_ds_mla":
        return quantize_fp8_ds_mla(kv_c, k_pe, profile)
    if kv_cache_dtype == "fp8":
        return quantize_fp8(kv_c, k_pe, np.float32(scale.ravel()[0]))
    return np.concatenate([kv_c, k_pe], axis=1)  # WRITE-19


def concat_and_cache_mla(
    kv_c: Bf16Bits,
    k_pe: Bf16Bits,
    kv_cache: Array,
    slot_mapping: npt.NDArray[np.int64],
    kv_cache_dtype: str,
    scale: npt.NDArray[np.float32],
    profile: Profile = DEFAULT,
) -> None:
    """Write the records of T = len(slot_mapping) tokens into a cache.

    kv_c: uint16 bf16 encodings [>= T, 512]; k_pe: the same [>= T, 64]; kv_cache: uint8 [num_blocks, block_size, n], or
    uint16 bf16 encodings for "auto"; slot_mapping: int64 [T]; scale: float32 of one element. Any strides.

    Raises:
        ValueError: If the call is not legal. Names argument, place, value and range; the cache is untouched.

    """
    check_well_formed(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale)
    tokens = np.flatnonzero(slot_mapping >= 0)  # WRITE-2
    slots = slot_mapping[tokens]
    check_legal(kv_c, kv_cache, slot_mapping, kv_cache_dtype, scale)
    block, record = np.divmod(slots, kv_cache.shape[1])  # WRITE-1
    kv_cache[block, record] = records_of(kv_c[tokens], k_pe[tokens], kv_cache_dtype, scale, profile)


def check_well_formed(
    kv_c: Array, k_pe: Array, kv_cache: Array, slot_mapping: Array, kv_cache_dtype: str, scale: Array
) -> None:
    """Raise ValueError, naming the argument, for a malformed call (WRITE-9, and the contract).

    Types, shapes and strides are checked. The values in the arrays are not read.

    Raises:
        ValueError: If an argument has a dtype, shape, stride or kv_cache_dtype that the contract does not allow.

    """
    if not isinstance(kv_cache_dtype, str) or kv_cache_dtype not in FORMATS:
        raise ValueError(f"kv_cache_dtype is {kv_cache_dtype!r}; allowed are {', '.join(FORMATS)}")
    form = FORMATS[kv_cache_dtype]
    check_array("slot_mapping", slot_mapping, np.int64, 1)
    for name, array, width in (("kv_c", kv_c, LATENT), ("k_pe", k_pe, ROPE)):
        check_array(name, array, np.uint16, 2)
        if array.shape[1] != width or len(array) < len(slot_mapping):
            raise ValueError(f"{name} has shape {array.shape}; allowed is [>= {len(slot_mapping)}, {width}]")
    check_array("kv_cache", kv_cache, form.dtype, 3)
    if kv_cache.shape[1] < 1 or kv_cache.shape[2] != form.width:
        raise ValueError(f"kv_cache has shape {kv_cache.shape}; allowed is [num_blocks, >= 1, {form.width}]")
    if kv_cache.size and rows_overlap(kv_cache):
        raise ValueError(
            f"kv_cache has strides of {kv_cache.strides} bytes; allowed are none that make records overlap"
        )
    if not kv_cache.flags.writeable:
        raise ValueError("kv_cache is read-only; allowed is a writable array")
    if not isinstance(scale, np.ndarray) or scale.dtype != np.float32 or scale.shape not in ((), (1,)):
        found = f"{scale.dtype} of shape {scale.shape}" if isinstance(scale, np.ndarray) else type(scale).__name__
        raise ValueError(f"scale is {found}; allowed is float32 of shape [1] or []")


def check_legal(
    kv_c: Bf16Bits, kv_cache: Array, slot_mapping: npt.NDArray[np.int64], kv_cache_dtype: str, scale: Array
) -> None:
    """Raise ValueError for the first value that makes a well-formed call illegal.

    Of kv_cache only the shape is used. slot_mapping is int64 [T]; kv_c is uint16 bf16 encodings [>= T, 512].

    Raises:
        ValueError: If a slot is outside the cache or used twice, if kv_c is not finite for "fp8_ds_mla", or if the
            scale is not finite and above 0 for "fp8".

    """
    slots = kv_cache.shape[0] * kv_cache.shape[1]
    check_each("slot_mapping", slot_mapping, slot_mapping >= slots, f"below {slots}")
    ordered = np.argsort(slot_mapping, kind="stable")
    same = np.diff(slot_mapping[ordered]) == 0
    again = np.zeros(len(slot_mapping), np.bool_)
    again[ordered[1:]] = same
    check_each("slot_mapping", slot_mapping, again & (slot_mapping >= 0), "each slot once")
    written = np.flatnonzero(slot_mapping >= 0)
    infinite = (kv_c[written] & 0x7F80) == 0x7F80
    if kv_cache_dtype == "fp8_ds_mla" and infinite.any():
        row, element = (int(i) for i in np.argwhere(infinite)[0])
        token = int(written[row])
        raise ValueError(f"kv_c[{token}, {element}] is {int(kv_c[token, element]):#06x}; allowed are finite numbers")
    if kv_cache_dtype == "fp8" and not 0 < float(scale.ravel()[0]) < np.inf:
        raise ValueError(f"scale is {scale.ravel()[0]}; allowed is a finite number above 0")
