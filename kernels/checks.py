"""Refuse malformed gather calls (SPEC.md, contract) before anything is built or launched.

The values in the arrays are not read, since the arrays may be on a device.
"""

from dataclasses import dataclass

from kernels.argument_checks import check_alignment, check_count, check_device, check_writable, refuse, view
from kernels.arrays import StridedArray
from kernels.layout import BF16, NVFP4_DS_MLA


@dataclass(frozen=True)
class GatherCall:
    """Hold the arguments of a well-formed gather as views. Shapes and units are those of SPEC.md's table."""

    src_cache: StridedArray
    dst: StridedArray
    block_table: StridedArray
    workspace_starts: StridedArray
    batch_size: int
    seq_starts: StridedArray | None

    @property
    def is_empty(self) -> bool:
        """Whether the call does nothing, because it has no rows or no requests (GATHER-10)."""
        return self.dst.shape[0] == 0 or self.batch_size == 0


def check_gather(
    src_cache: object,
    dst: object,
    block_table: object,
    workspace_starts: object,
    batch_size: object,
    seq_starts: object = None,
    *,
    record_bytes: int = NVFP4_DS_MLA.record_bytes,
    cache_alignment: int = 1,
    dst_alignment: int = 1,
) -> GatherCall:
    """Return a gather's arguments as views.

    The arrays are uint8 src_cache [num_blocks, block_size, record_bytes], bf16 dst [T, 576], int32 block_table
    [>= R, max_blocks], int32 workspace_starts [>= R] and seq_starts [>= R] or None.

    Returns:
        The call, whose values in arrays are not checked.

    Raises:
        ValueError: If the call is malformed (GATHER-11), or an address or stride of src_cache or dst is no multiple of
            `cache_alignment` or `dst_alignment` bytes (GATHER-12). Names argument, value and expected value.

    """
    call = GatherCall(
        src_cache=view("src_cache", src_cache, ("uint8",), (None, None, record_bytes)),
        dst=view("dst", dst, BF16, (None, NVFP4_DS_MLA.row_elements)),
        block_table=view("block_table", block_table, ("int32",), (None, None)),
        workspace_starts=view("workspace_starts", workspace_starts, ("int32",), (None,)),
        batch_size=check_count("batch_size", batch_size),
        seq_starts=None if seq_starts is None else view("seq_starts", seq_starts, ("int32",), (None,)),
    )
    arrays = {"dst": call.dst, "src_cache": call.src_cache, "block_table": call.block_table}
    arrays["workspace_starts"] = call.workspace_starts
    if call.seq_starts is not None:
        arrays["seq_starts"] = call.seq_starts
    check_device(arrays)
    _check_sizes(call)
    check_rows(call.dst)
    if not call.is_empty:
        check_something_to_read(call)
        check_alignment("src_cache", call.src_cache, cache_alignment)
        check_alignment("dst", call.dst, dst_alignment)
        for name in ("block_table", "workspace_starts", "seq_starts"):
            if name in arrays:
                check_alignment(name, arrays[name], arrays[name].itemsize)
    return call


def _check_sizes(call: GatherCall) -> None:
    if call.src_cache.shape[1] < 1:
        refuse("src_cache", "block_size 0", "at least 1")
    for argument in ("block_table", "workspace_starts", "seq_starts"):
        array: StridedArray | None = getattr(call, argument)
        if array is not None and call.batch_size > array.shape[0]:
            refuse("batch_size", call.batch_size, f"at most {array.shape[0]}, the first dimension of {argument}")


def check_rows(dst: StridedArray) -> None:
    """Raise ValueError unless the rows of `dst`, [T, n], are writable and do not overlap."""
    check_writable("dst", dst)
    row_bytes = dst.shape[1] * dst.itemsize
    if dst.shape[0] > 1 and dst.strides[0] < row_bytes:
        refuse("dst", f"a row stride of {dst.strides[0]} bytes", f"at least {row_bytes}, so that rows do not overlap")


def check_something_to_read(call: GatherCall) -> None:
    """Raise ValueError if src_cache has no blocks or block_table has no columns.

    The call has rows with an owner, so that it must read a record and a table entry.
    """
    if call.src_cache.shape[0] == 0:
        refuse("src_cache", "0 blocks", f"at least 1 for the {call.dst.shape[0]} rows of dst")
    if call.block_table.shape[1] == 0:
        refuse("block_table", "0 columns", f"at least 1 for the {call.dst.shape[0]} rows of dst")
