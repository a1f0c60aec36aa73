"""Records whose bytes are chosen: proofs over a closed domain, and patterns in which no two mistakes cancel."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from reference.records import NVFP4_DS_MLA, RecordLayout

Records = npt.NDArray[np.uint8]

ONE_ONE = 0x22  # two e2m1 codes of 1.0
ONE = 0x38  # e4m3 1.0
TWO = 0x40  # e4m3 2.0


def every_triple(layout: RecordLayout = NVFP4_DS_MLA) -> Records:
    """uint8 [65,536, nbytes]: every (byte position, latent byte, scale byte), and every (position, RoPE byte).

    Record i belongs to the pair (scale i // 256, byte i % 256). Each position adds a constant of its own to it, modulo
    256, so that it too meets every pair once, and no two positions of a record hold the same thing.
    """
    pair = np.arange(65_536)[:, None]
    records = np.empty((65_536, layout.nbytes), np.uint8)
    latent, rope, scales = (np.arange(field.nbytes) for field in (layout.latent, layout.rope, layout.scales))
    records[:, layout.latent.offset : layout.latent.end] = pair + latent
    records[:, layout.rope.offset : layout.rope.end] = pair + 4 * rope + 1
    records[:, layout.scales.offset : layout.scales.end] = pair // 256 + 7 * scales
    return records


def one_hot(layout: RecordLayout = NVFP4_DS_MLA) -> Records:
    """uint8 [nbytes, nbytes]: record p is all ones but for byte p, which holds 2 (RoPE, scale) or the codes 4 and 6."""
    record = np.empty(layout.nbytes, np.uint8)
    record[layout.latent.offset : layout.latent.end] = ONE_ONE
    record[layout.rope.offset : layout.rope.end] = ONE
    record[layout.scales.offset : layout.scales.end] = ONE
    records = np.tile(record, (layout.nbytes, 1))
    alone = np.where(record == ONE_ONE, 0x64, TWO).astype(np.uint8)
    np.fill_diagonal(records, alone)
    return records


def magnitudes(layout: RecordLayout = NVFP4_DS_MLA) -> Records:
    """uint8 [1, nbytes]: block s of magnitude 6 * 2^(s mod 8), codes 1 and 6 in each byte, RoPE bytes all unlike.

    vllm 50084, 50085, 55976: another order of scales or nibbles does not cancel.
    """
    record = np.zeros((1, layout.nbytes), np.uint8)
    record[0, layout.latent.offset : layout.latent.end] = 0x61
    for block in range(layout.scales.count):
        record[0, layout.scales.byte_of(block)] = (7 + block % 8) << 3  # 2^(block % 8)
    record[0, layout.rope.offset : layout.rope.end] = np.arange(layout.rope.count)
    return record


def uniform_fields(byte_values: Sequence[int], layout: RecordLayout = NVFP4_DS_MLA) -> Records:
    """uint8 [n^3, nbytes]: every choice of three of n byte values for all latent, all RoPE and all scale bytes.

    Whole words, blocks and records of zeros, NaN or one sign are what a shortcut skips or what padding looks like.
    """
    choices = np.array(list(product(byte_values, repeat=3)), np.uint8)
    widths = [field.nbytes for field in (layout.latent, layout.rope, layout.scales)]
    return np.repeat(choices, widths, axis=1)


def token_unique(num_blocks: int, block_size: int, layout: RecordLayout = NVFP4_DS_MLA) -> Records:
    """uint8 [num_blocks, block_size, nbytes]: finite, and each record spells its own number in every part.

    vllm 52109: no other token's record can look right.
    """
    number = np.arange(num_blocks * block_size).reshape(num_blocks, block_size, 1)
    digits = np.concatenate([number >> 4 * i & 0xF for i in range(4)], axis=2)
    codes = np.tile(digits, layout.nbytes // 4 + 1)[..., : layout.nbytes]
    records = (codes * 0x11).astype(np.uint8)
    records[..., layout.rope.offset : layout.scales.end] = 0x20 + codes[..., layout.rope.offset : layout.scales.end]
    return records
