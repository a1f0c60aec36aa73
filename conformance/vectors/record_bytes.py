"""Make records as hex, from chosen numbers or from random bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from conformance.generation import Random
from conformance.vectors.vector import hexed
from reference.quantize import store
from reference.records import NVFP4_DS_MLA
from reference.scalars import Bf16Bits

ONE, TWO = 0x38, 0x40
"""1.0 and 2.0 as e4m3 bytes."""


def nvfp4(codes: npt.ArrayLike = 2, scales: npt.ArrayLike = ONE, rope: npt.ArrayLike = ONE) -> str:
    """Return a record of nvfp4_ds_mla as hex.

    codes: uint8 [512]; scales: uint8 [32], by latent block; rope: uint8 [64]. Each is cut or repeated to fit.

    Returns:
        704 hex digits.

    """
    record = np.zeros((1, NVFP4_DS_MLA.nbytes), np.uint8)
    for field, numbers in ((NVFP4_DS_MLA.latent, codes), (NVFP4_DS_MLA.scales, scales), (NVFP4_DS_MLA.rope, rope)):
        store(record, field, np.resize(np.asarray(numbers, np.uint8), (1, field.count)))
    return hexed(record[0])


def fp8_ds_mla(latent: npt.ArrayLike = ONE, scales: npt.ArrayLike = 1.0, rope: npt.ArrayLike = 0x3F80) -> str:
    """Return a record of fp8_ds_mla as hex.

    latent: e4m3 bytes [512]; scales: numbers or uint32 encodings of binary32 [4]; rope: bf16 encodings [64].
    Each is cut or repeated to fit.

    Returns:
        1,312 hex digits.

    """
    bits = np.asarray(scales)
    numbers = bits.view(np.float32) if bits.dtype == np.uint32 else bits.astype(np.float32)
    parts = (np.resize(latent, 512), "u8"), (np.resize(numbers, 4), "binary32"), (np.resize(rope, 64), "bf16")
    return "".join(hexed(part, kind) for part, kind in parts)


def auto(encodings: Bf16Bits, n: int = 576) -> str:
    """Return a record of n bf16 encodings as hex; uint16 `encodings` are cut or repeated to fit."""
    return hexed(np.resize(encodings, n), "bf16")


def per_tensor(latent: npt.ArrayLike, n: int = 576) -> str:
    """Return a record of n e4m3 bytes as hex; `latent` is cut or repeated to fit."""
    return hexed(np.resize(latent, n))


def random_record(nbytes: int, seed: int) -> str:
    """Return a record of random bytes as hex."""
    return hexed(Random(seed).bytes((nbytes,)))


BLOCKS = np.arange(32)
CODES = np.arange(16)
HARD_BF16 = np.array(
    [0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0x3F80, 0x7F7F, 0x7F80, 0xFF80, 0x7F81, 0xFFC0, 0xFFFF, 0x7FFF], np.uint16
)
"""Zeros, subnormals, the smallest normal, 1, the largest number, infinities, and NaN of every kind."""

ROUNDED_TWICE = np.array([0x3FEB8E39, 0x3FED5555, 0x3FEF1C72, 0x3FF0E38E], np.uint32)
"""Scales whose products with 1.125 lie next to a tie of bf16. Rounded to binary32 they are the tie."""
E4M3_1_125 = 0x39
