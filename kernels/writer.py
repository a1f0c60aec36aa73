"""Provide the public writer with vLLM's signature. It checks on the host and runs on the device of the arrays."""

import functools
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kernels.launcher import Launcher
from kernels.quantization import DEFAULT, Quantization
from kernels.write_catalog import WRITERS, pack
from kernels.write_checks import check_write


class Writer:
    """Provide the writers of one set of sources with one quantization, and count their launches.

    Nothing is built before the first call that needs it.
    """

    def __init__(self, root: Path | None = None, quantization: Quantization = DEFAULT) -> None:
        """Take a sources root (None for this package) and the rounding where SPEC.md leaves a choice."""
        self.root = root
        self.quantization = quantization
        self._launchers = {
            name: Launcher(replace(kernel, defines=quantization.defines()), root) for name, kernel in WRITERS.items()
        }

    def concat_and_cache_mla(
        self, kv_c: object, k_pe: object, kv_cache: object, slot_mapping: object, kv_cache_dtype: str, scale: object
    ) -> None:
        """Write tokens into a cache. The function of this name in this module has arguments and errors."""
        call = check_write(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale)
        if call.num_tokens > 0:  # WRITE-8
            self._launchers[call.kv_cache_dtype].launch(pack(call), rows=call.num_tokens, caller=call.kv_cache)

    def launches(self) -> dict[str, int]:
        """Return the number of kernel launches so far, by operator."""
        return {"concat_and_cache_mla": sum(each.launches for each in self._launchers.values())}

    def receipt(self) -> dict[str, Any]:
        """Return the facts of the runs: the quantization, the number of launches, and the receipt of each kernel built.

        Returns:
            JSON types. "kernels" has a receipt of kernels.launcher.Launcher for each kv_cache_dtype.

        """
        receipts = {name: launcher.receipt() for name, launcher in self._launchers.items()}
        built = {name: receipt for name, receipt in receipts.items() if receipt["devices"]}
        launches = sum(receipt["launches"] for receipt in built.values())
        return {"quantization": asdict(self.quantization), "launches": launches, "kernels": built}


@functools.cache
def _default() -> Writer:
    return Writer()


def concat_and_cache_mla(
    kv_c: object, k_pe: object, kv_cache: object, slot_mapping: object, kv_cache_dtype: str, scale: object
) -> None:
    """Write tokens' latents and RoPE keys into the records that their slots name: SPEC.md, chapter WRITE.

    The arrays are NumPy arrays, PyTorch tensors (CPU or CUDA) or CuPy arrays, all on one device. bf16 is uint16,
    ml_dtypes.bfloat16 or torch.bfloat16:

    - kv_c: bf16 [>= T, 512] and k_pe: bf16 [>= T, 64], one token a row, of any row strides.
    - kv_cache: written; uint8 [num_blocks, block_size, n] with n = 352 for "nvfp4_ds_mla", 656 for "fp8_ds_mla" and 576
      for "fp8", or bf16 with n = 576 for "auto". Records do not overlap.
    - slot_mapping: int64 [T], block number * block_size + record number. A token with a negative slot is skipped.
    - kv_cache_dtype: one of these four.
    - scale: float32 [1] or [], the divisor for "fp8". The others ignore it.

    Addresses and strides of kv_c, k_pe and kv_cache are multiples of 4 bytes, the address of slot_mapping is a multiple
    of 8 and, for "fp8", that of scale a multiple of 4. nvfp4_ds_mla and fp8_ds_mla are quantized by
    kernels.quantization.DEFAULT; a Writer takes another Quantization.

    On a GPU the writer runs on the current stream of kv_cache's library, without a synchronisation and without an
    allocation. The first call on a device for a kv_cache_dtype compiles. T = 0 returns at once (WRITE-8). Values in the
    arrays are not checked.

    Raises:
        ValueError: If the call is malformed (WRITE-9) or aligned too little. Names the argument. Nothing is built or
            written.
        kernels.cache.BuildError, kernels.headers.MissingHeaders: If a build fails.

    """
    _default().concat_and_cache_mla(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale)
