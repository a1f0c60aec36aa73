"""Provide the public operators with vLLM's signatures. They check on the host and run on the device of the arrays."""

import functools
from pathlib import Path
from typing import Any

from kernels import generic_catalog, merge_catalog
from kernels.catalog import DEFAULT, FP8_KERNEL, KERNELS, GatherKernel, pack
from kernels.checks import check_gather
from kernels.generic_catalog import GENERIC_GATHERS
from kernels.generic_checks import check_generic_gather
from kernels.launcher import Launcher
from kernels.merge_catalog import MERGES
from kernels.merge_checks import check_merge


class Operators:
    """Provide the operators of one set of sources with one gather kernel, and count their launches.

    Nothing is built before the first call that needs it.
    """

    def __init__(self, root: Path | None = None, kernel: str = DEFAULT) -> None:
        """Take a sources root (None: this package) and a name in kernels.catalog.KERNELS, else raise ValueError."""
        if kernel not in KERNELS:
            raise ValueError(f"kernel: found {kernel!r}, expected one of {', '.join(KERNELS)}")
        self.root = root
        self.kernel = KERNELS[kernel]
        self._launcher = Launcher(self.kernel, root)
        self._fp8_launcher = Launcher(FP8_KERNEL, root)
        self._generic_launchers = {name: Launcher(kernel, root) for name, kernel in GENERIC_GATHERS.items()}
        self._merge_launchers = {name: Launcher(kernel, root) for name, kernel in MERGES.items()}

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self,
        src_cache: object,
        dst: object,
        block_table: object,
        workspace_starts: object,
        batch_size: int,
        seq_starts: object = None,
    ) -> None:
        """Gather nvfp4_ds_mla records into bf16 rows. See the module's function for arguments and errors."""
        arguments = (src_cache, dst, block_table, workspace_starts, batch_size, seq_starts)
        _gather(self._launcher, self.kernel, arguments)

    def cp_gather_and_upconvert_fp8_kv_cache(
        self,
        src_cache: object,
        dst: object,
        block_table: object,
        workspace_starts: object,
        batch_size: int,
        seq_starts: object = None,
    ) -> None:
        """Gather fp8_ds_mla records into bf16 rows. See the module's function for arguments and errors."""
        arguments = (src_cache, dst, block_table, workspace_starts, batch_size, seq_starts)
        _gather(self._fp8_launcher, FP8_KERNEL, arguments)

    def gather_and_maybe_dequant_cache(
        self,
        src_cache: object,
        dst: object,
        block_table: object,
        cu_seq_lens: object,
        token_to_seq: object,
        num_tokens: int,
        kv_cache_dtype: str,
        scale: object,
        seq_starts: object = None,
    ) -> None:
        """Gather records of bf16, or of e4m3 with one scale. See the module's function for arguments and errors."""
        call = check_generic_gather(
            src_cache, dst, block_table, cu_seq_lens, token_to_seq, num_tokens, kv_cache_dtype, scale, seq_starts
        )
        if not call.is_empty:
            launcher = self._generic_launchers[call.kv_cache_dtype]
            launcher.launch(generic_catalog.pack(call), rows=call.num_tokens, caller=call.gather.dst)

    def merge_attn_states(
        self,
        output: object,
        prefix_output: object,
        prefix_lse: object,
        suffix_output: object,
        suffix_lse: object,
        output_lse: object = None,
    ) -> None:
        """Merge two partial results of attention. See the module's function for arguments and errors."""
        call = check_merge(output, prefix_output, prefix_lse, suffix_output, suffix_lse, output_lse)
        if call.rows > 0:
            launcher = self._merge_launchers[merge_catalog.kernel_for(call)]
            launcher.launch(merge_catalog.pack(call), rows=call.rows, caller=call.output)

    def launches(self) -> dict[str, int]:
        """Return the number of kernel launches so far, by operator."""
        return {
            "cp_gather_and_upconvert_nvfp4_kv_cache": self._launcher.launches,
            "cp_gather_and_upconvert_fp8_kv_cache": self._fp8_launcher.launches,
            "gather_and_maybe_dequant_cache": sum(each.launches for each in self._generic_launchers.values()),
            "merge_attn_states": sum(each.launches for each in self._merge_launchers.values()),
        }

    def receipt(self) -> dict[str, Any]:
        """Return the facts of the runs: the gather kernel, the number of launches, and the build for each device.

        The keys "fp8_ds_mla", "generic" (by kv_cache_dtype) and "merge" (by dtype) hold the same facts of the other
        kernels. "generic" and "merge" have only the kernels that were built.

        Returns:
            JSON types.

        """
        return {
            **self._launcher.receipt(),
            "fp8_ds_mla": self._fp8_launcher.receipt(),
            "generic": _built(self._generic_launchers),
            "merge": _built(self._merge_launchers),
        }


def _built(launchers: dict[str, Launcher]) -> dict[str, Any]:
    receipts = {name: launcher.receipt() for name, launcher in launchers.items()}
    return {name: receipt for name, receipt in receipts.items() if receipt["devices"]}


def _gather(launcher: Launcher, kernel: GatherKernel, arguments: tuple[object, ...]) -> None:
    call = check_gather(
        *arguments,
        record_bytes=kernel.record_bytes,
        cache_alignment=kernel.cache_alignment,
        dst_alignment=kernel.dst_alignment,
    )
    if not call.is_empty:
        launcher.launch(pack(call), rows=call.dst.shape[0], caller=call.dst)


@functools.cache
def _default() -> Operators:
    return Operators()


def cp_gather_and_upconvert_nvfp4_kv_cache(
    src_cache: object,
    dst: object,
    block_table: object,
    workspace_starts: object,
    batch_size: int,
    seq_starts: object = None,
) -> None:
    """Gather nvfp4_ds_mla records into bf16 rows: SPEC.md, chapters READ, PAGE and GATHER.

    The arrays are NumPy arrays, PyTorch tensors (CPU or CUDA) or CuPy arrays, all on one device:

    - src_cache: uint8 [num_blocks, block_size, 352], records. Address and strides are multiples of 8 bytes.
    - dst: bf16 [T, 576], written, as uint16, ml_dtypes.bfloat16 or torch.bfloat16. Address and row stride are multiples
      of 16 bytes. Rows do not overlap.
    - block_table: int32 [>= R, max_blocks], physical block numbers, of any row stride.
    - workspace_starts: int32 [>= R], the first row of each request in dst.
    - batch_size: R, the number of requests.
    - seq_starts: int32 [>= R], the first token of each request to gather, or None for 0.

    On a GPU the gather runs on the current stream of dst's library, without a synchronisation and without an
    allocation. The first call on a device compiles. T = 0 and R = 0 return at once (GATHER-10). Values in the arrays
    are not checked.

    Raises:
        ValueError: If the call is malformed (GATHER-11) or aligned too little (GATHER-12). Names the argument. Nothing
            is built or written.
        kernels.cache.BuildError, kernels.headers.MissingHeaders: If a build fails.

    """
    _default().cp_gather_and_upconvert_nvfp4_kv_cache(
        src_cache, dst, block_table, workspace_starts, batch_size, seq_starts
    )


def cp_gather_and_upconvert_fp8_kv_cache(
    src_cache: object,
    dst: object,
    block_table: object,
    workspace_starts: object,
    batch_size: int,
    seq_starts: object = None,
) -> None:
    """Gather fp8_ds_mla records into bf16 rows: SPEC.md, chapter TWIN.

    src_cache is uint8 [num_blocks, block_size, 656]. Its address and strides, and dst's address and row stride, are
    multiples of 4 bytes. The other arguments and the errors are those of cp_gather_and_upconvert_nvfp4_kv_cache.
    """
    _default().cp_gather_and_upconvert_fp8_kv_cache(
        src_cache, dst, block_table, workspace_starts, batch_size, seq_starts
    )


def gather_and_maybe_dequant_cache(
    src_cache: object,
    dst: object,
    block_table: object,
    cu_seq_lens: object,
    token_to_seq: object,
    num_tokens: int,
    kv_cache_dtype: str,
    scale: object,
    seq_starts: object = None,
) -> None:
    """Gather records of n equal numbers, n = 576 or 512, into bf16 rows: SPEC.md, chapter TWIN, from TWIN-5 on.

    The arrays are NumPy arrays, PyTorch tensors or CuPy arrays, all on one device. cu_seq_lens has R + 1 entries:

    - src_cache: bf16 [num_blocks, block_size, n] for "auto", uint8 [num_blocks, block_size, n] for "fp8". Address and
      strides are multiples of two elements.
    - dst: bf16 [>= num_tokens, n]. The first num_tokens rows are written and do not overlap. Address and row stride are
      multiples of 4 bytes.
    - block_table: int32 [>= R, max_blocks], physical block numbers, of any row stride.
    - cu_seq_lens: int32 [R + 1], the first row of each request in dst. The last entry is not read.
    - token_to_seq: int32 [>= num_tokens], the request of each row.
    - num_tokens: T, the number of rows to gather.
    - kv_cache_dtype: "auto", which copies bits, or "fp8", which multiplies.
    - scale: float32 [1] or [], the factor for "fp8". "auto" ignores it.
    - seq_starts: int32 [>= R], the first token of each request to gather, or None for 0.

    Streams and errors are as for cp_gather_and_upconvert_nvfp4_kv_cache. T = 0 and R = 0 return at once (GATHER-10).
    """
    _default().gather_and_maybe_dequant_cache(
        src_cache, dst, block_table, cu_seq_lens, token_to_seq, num_tokens, kv_cache_dtype, scale, seq_starts
    )


def merge_attn_states(
    output: object,
    prefix_output: object,
    prefix_lse: object,
    suffix_output: object,
    suffix_lse: object,
    output_lse: object = None,
) -> None:
    """Merge two partial results of attention into one: SPEC.md, chapter MERGE.

    The arrays are NumPy arrays, PyTorch tensors or CuPy arrays, all on one device. H and D are at least 1:

    - output: [T, H, D], written; bf16, float16 or float32. The elements of a head are contiguous.
    - prefix_output, suffix_output: [T, H, D] of the same dtype. Token and head strides are free in all three.
    - prefix_lse, suffix_lse: float32 [H, T] of any strides, natural logarithms. +inf counts as -inf.
    - output_lse: float32 [H, T] of any strides, written, or None.

    output may be prefix_output or suffix_output, and output_lse may be prefix_lse or suffix_lse, with the same strides.
    Addresses and strides are multiples of an element. Elements that are written do not overlap.

    On a GPU the merge runs on the current stream of output's library, without a synchronisation and without an
    allocation. The first call on a device for a dtype compiles. T = 0 returns at once (MERGE-9). Values in the arrays
    are not checked.

    Raises:
        ValueError: If the call is malformed (MERGE-10). Names the argument. Nothing is built or written.
        kernels.cache.BuildError, kernels.headers.MissingHeaders: If a build fails.

    """
    _default().merge_attn_states(output, prefix_output, prefix_lse, suffix_output, suffix_lse, output_lse)
