"""The public operators, with vLLM's signatures: checked on the host, then run where the arrays are."""

import functools
from pathlib import Path
from typing import Any

from kernels.catalog import DEFAULT, FP8_KERNEL, KERNELS, GatherKernel, pack
from kernels.checks import check_gather
from kernels.launcher import Launcher


class Operators:
    """The operators built from one set of sources with one kernel, and a count of what they launched.

    Nothing is built before the first call that needs it.
    """

    def __init__(self, root: Path | None = None, kernel: str = DEFAULT) -> None:
        """Take a sources root (None: this package's own) and a name in kernels.catalog.KERNELS, or raise ValueError."""
        if kernel not in KERNELS:
            raise ValueError(f"kernel: found {kernel!r}, expected one of {', '.join(KERNELS)}")
        self.root = root
        self.kernel = KERNELS[kernel]
        self._launcher = Launcher(self.kernel, root)
        self._fp8_launcher = Launcher(FP8_KERNEL, root)

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self,
        src_cache: object,
        dst: object,
        block_table: object,
        workspace_starts: object,
        batch_size: int,
        seq_starts: object = None,
    ) -> None:
        """Gather nvfp4_ds_mla records into bf16 rows; see the module's function of this name."""
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
        """Gather fp8_ds_mla records into bf16 rows; see the module's function of this name."""
        arguments = (src_cache, dst, block_table, workspace_starts, batch_size, seq_starts)
        _gather(self._fp8_launcher, FP8_KERNEL, arguments)

    def receipt(self) -> dict[str, Any]:
        """Return what ran: the kernel, the sums of launches, and for each device what was built for it and by whom.

        "fp8_ds_mla" has the same of the gather of that record.
        """
        return {**self._launcher.receipt(), "fp8_ds_mla": self._fp8_launcher.receipt()}


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

    - src_cache: uint8 [num_blocks, block_size, 352], records; address and strides are multiples of 8 bytes.
    - dst: bf16 [T, 576], written, as uint16, ml_dtypes.bfloat16 or torch.bfloat16; address and row stride are multiples
      of 16 bytes, rows do not overlap.
    - block_table: int32 [>= R, max_blocks], physical block numbers; the row stride is free.
    - workspace_starts: int32 [>= R], the first row of each request in dst.
    - batch_size: R, requests.
    - seq_starts: int32 [>= R], the first token of each request to gather, or None for 0.

    Arrays on a GPU are gathered on the current stream of dst's library, without a synchronisation and without an
    allocation; the first call on a device compiles. T = 0 and R = 0 return at once (GATHER-10).

    Raises ValueError naming the argument for every malformed call (GATHER-11) and for too little alignment (GATHER-12),
    before anything is built or written; kernels.cache.BuildError and kernels.headers.MissingHeaders if a build fails.
    Numbers in the arrays are not checked.
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

    The arguments are those of cp_gather_and_upconvert_nvfp4_kv_cache but for src_cache, uint8 [num_blocks, block_size,
    656], whose address and strides are multiples of 4 bytes, as are dst's address and row stride. So are the errors.
    """
    _default().cp_gather_and_upconvert_fp8_kv_cache(
        src_cache, dst, block_table, workspace_starts, batch_size, seq_starts
    )
