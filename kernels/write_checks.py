"""Refuse malformed calls of concat_and_cache_mla, and too little alignment (SPEC.md, contract).

The values in the arrays are not read, since the arrays may be on a device.
"""

from dataclasses import dataclass

from kernels.argument_checks import (
    check_alignment,
    check_device,
    check_writable,
    parts_overlap,
    refuse,
    view,
    view_scale,
)
from kernels.arrays import StridedArray
from kernels.layout import BF16, CACHE_FORMATS, NVFP4_DS_MLA

ALIGNMENT = 4
"""In bytes. The kernels load two bf16 at once, and store four bytes or two bf16."""


@dataclass(frozen=True)
class WriteCall:
    """Hold the arguments of a well-formed write as views. Shapes and units are those of SPEC.md's table."""

    kv_c: StridedArray
    k_pe: StridedArray
    kv_cache: StridedArray
    slot_mapping: StridedArray
    kv_cache_dtype: str
    scale: StridedArray

    @property
    def num_tokens(self) -> int:
        """The number of tokens, T."""
        return self.slot_mapping.shape[0]


def check_write(
    kv_c: object, k_pe: object, kv_cache: object, slot_mapping: object, kv_cache_dtype: object, scale: object
) -> WriteCall:
    """Return the arguments of concat_and_cache_mla as views. kernels.writer has their dtypes and shapes.

    Returns:
        The call, whose values in arrays are not checked.

    Raises:
        ValueError: If the call is malformed (WRITE-9), or has T > 0 and less alignment than a write needs. The
            alignment of `scale` counts only if it is used. Names argument, value and expected value.

    """
    if not isinstance(kv_cache_dtype, str) or kv_cache_dtype not in CACHE_FORMATS:
        refuse("kv_cache_dtype", repr(kv_cache_dtype), f"one of {', '.join(CACHE_FORMATS)}")
    cache = CACHE_FORMATS[kv_cache_dtype]
    call = WriteCall(
        kv_c=view("kv_c", kv_c, BF16, (None, NVFP4_DS_MLA.kv_lora_rank)),
        k_pe=view("k_pe", k_pe, BF16, (None, NVFP4_DS_MLA.qk_rope_head_dim)),
        kv_cache=view("kv_cache", kv_cache, cache.dtypes, (None, None, cache.elements)),
        slot_mapping=view("slot_mapping", slot_mapping, ("int64",), (None,)),
        kv_cache_dtype=kv_cache_dtype,
        scale=view_scale(scale),
    )
    rows = {"kv_c": call.kv_c, "k_pe": call.k_pe}
    check_device({"kv_cache": call.kv_cache, **rows, "slot_mapping": call.slot_mapping, "scale": call.scale})
    for argument, array in rows.items():
        if array.shape[0] < call.num_tokens:
            refuse(argument, f"{array.shape[0]} rows", f"at least {call.num_tokens}, one for each slot")
    _check_cache(call.kv_cache)
    if call.num_tokens > 0:
        for argument, array in (*rows.items(), ("kv_cache", call.kv_cache)):
            check_alignment(argument, array, ALIGNMENT)
        check_alignment("slot_mapping", call.slot_mapping, call.slot_mapping.itemsize)
        if kv_cache_dtype == "fp8":
            check_alignment("scale", call.scale, call.scale.itemsize)
    return call


def _check_cache(cache: StridedArray) -> None:
    check_writable("kv_cache", cache)
    if cache.shape[1] < 1:
        refuse("kv_cache", "block_size 0", "at least 1")
    record = cache.shape[2] * cache.itemsize
    if parts_overlap(cache, record):
        found = f"strides of {cache.strides[:2]} bytes for {cache.shape[0]} blocks of {cache.shape[1]} records"
        refuse("kv_cache", found, f"records of {record} bytes that do not overlap")
