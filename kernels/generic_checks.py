"""Refuse malformed calls of gather_and_maybe_dequant_cache, and too little alignment (SPEC.md, contract).

The values in the arrays are not read, since the arrays may be on a device.
"""

from dataclasses import dataclass

from kernels.argument_checks import check_alignment, check_count, check_device, refuse, view, view_scale
from kernels.arrays import StridedArray
from kernels.checks import GatherCall, check_rows, check_something_to_read
from kernels.layout import BF16, CACHE_FORMATS, NVFP4_DS_MLA

KV_CACHE_DTYPES = ("auto", "fp8")
WIDTHS = (NVFP4_DS_MLA.row_elements, NVFP4_DS_MLA.kv_lora_rank)
"""The sizes of a record in numbers: latent and RoPE key, or the latent alone."""

PAIR = 2
"""The kernels load this many elements at once, and store this many bf16 at once."""


@dataclass(frozen=True)
class GenericCall:
    """Hold the arguments of a well-formed call of gather_and_maybe_dequant_cache, as views.

    `gather` holds the arguments that every gather has, with cu_seq_lens as its workspace_starts. dst may have more rows
    than `num_tokens`, the number of rows to gather.
    """

    gather: GatherCall
    token_to_seq: StridedArray
    num_tokens: int
    kv_cache_dtype: str
    scale: StridedArray

    @property
    def is_empty(self) -> bool:
        """Whether the call does nothing, because it has no rows or no requests (GATHER-10)."""
        return self.num_tokens == 0 or self.gather.batch_size == 0


def check_generic_gather(
    src_cache: object,
    dst: object,
    block_table: object,
    cu_seq_lens: object,
    token_to_seq: object,
    num_tokens: object,
    kv_cache_dtype: object,
    scale: object,
    seq_starts: object = None,
) -> GenericCall:
    """Return the arguments of gather_and_maybe_dequant_cache as views. kernels.ops has their dtypes and shapes.

    Returns:
        The call, whose values in arrays are not checked.

    Raises:
        ValueError: If the call is malformed (GATHER-11), or not empty and aligned less than the kernels need
            (GATHER-12). The alignment of `scale` counts only if it is used. Names argument, value and expected value.

    """
    if not isinstance(kv_cache_dtype, str) or kv_cache_dtype not in KV_CACHE_DTYPES:
        refuse("kv_cache_dtype", repr(kv_cache_dtype), f"one of {', '.join(KV_CACHE_DTYPES)}")
    cache = view("src_cache", src_cache, CACHE_FORMATS[kv_cache_dtype].dtypes, (None, None, None))
    if cache.shape[2] not in WIDTHS:
        refuse("src_cache", f"last dimension {cache.shape[2]}", " or ".join(map(str, WIDTHS)))
    starts = view("cu_seq_lens", cu_seq_lens, ("int32",), (None,))
    if starts.shape[0] < 1:
        refuse("cu_seq_lens", "0 entries", "at least 1, one more than there are requests")
    gather = GatherCall(
        src_cache=cache,
        dst=view("dst", dst, BF16, (None, cache.shape[2])),
        block_table=view("block_table", block_table, ("int32",), (None, None)),
        workspace_starts=starts,
        batch_size=starts.shape[0] - 1,
        seq_starts=None if seq_starts is None else view("seq_starts", seq_starts, ("int32",), (None,)),
    )
    call = GenericCall(
        gather=gather,
        token_to_seq=view("token_to_seq", token_to_seq, ("int32",), (None,)),
        num_tokens=check_count("num_tokens", num_tokens),
        kv_cache_dtype=kv_cache_dtype,
        scale=view_scale(scale),
    )
    integers = {"block_table": gather.block_table, "cu_seq_lens": starts, "token_to_seq": call.token_to_seq}
    if gather.seq_starts is not None:
        integers["seq_starts"] = gather.seq_starts
    check_device({"dst": gather.dst, "src_cache": cache, **integers, "scale": call.scale})
    _check_sizes(call)
    check_rows(gather.dst)
    if not call.is_empty:
        check_something_to_read(gather)
        check_alignment("src_cache", cache, PAIR * cache.itemsize)
        check_alignment("dst", gather.dst, PAIR * gather.dst.itemsize)
        for argument, array in integers.items():
            check_alignment(argument, array, array.itemsize)
        if kv_cache_dtype == "fp8":
            check_alignment("scale", call.scale, call.scale.itemsize)
    return call


def _check_sizes(call: GenericCall) -> None:
    gather = call.gather
    if gather.src_cache.shape[1] < 1:
        refuse("src_cache", "block_size 0", "at least 1")
    for argument, rows in (("dst", gather.dst), ("token_to_seq", call.token_to_seq)):
        if call.num_tokens > rows.shape[0]:
            refuse("num_tokens", call.num_tokens, f"at most {rows.shape[0]}, the first dimension of {argument}")
    for argument, array in (("block_table", gather.block_table), ("seq_starts", gather.seq_starts)):
        if array is not None and gather.batch_size > array.shape[0]:
            requests = f"{gather.batch_size}, the requests of cu_seq_lens"
            refuse(argument, f"first dimension {array.shape[0]}", f"at least {requests}")
