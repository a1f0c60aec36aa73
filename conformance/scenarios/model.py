"""Model one small layer of MLA: make kv_c and k_pe of a token at a position, in a realistic range."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from conformance.generation import Random
from conformance.scenarios.blocks import Tokens
from conformance.write_generation import BLOCK, LATENT, ROPE, TIES
from reference.scalars import E2M1, Bf16Bits, Floats, bf16_from_f32

LATENTS, ROPES = 4093, 2039
"""Rows of the two tables. They are primes, so a latent and a RoPE key seldom meet again."""


def latents_of(tokens: Tokens, positions: Tokens) -> tuple[Bf16Bits, Bf16Bits]:
    """Return kv_c and k_pe of tokens and positions, int64 [N] each: uint16 bf16 encodings [N, 512], [N, 64]."""
    mixed = tokens.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + positions.astype(np.uint64) * np.uint64(
        0xC2B2AE3D27D4EB4F
    )
    mixed ^= mixed >> np.uint64(29)
    kv_c, k_pe = _tables()
    return kv_c[mixed % np.uint64(LATENTS)], k_pe[(mixed >> np.uint64(7)) % np.uint64(ROPES)]


@lru_cache
def _tables() -> tuple[Bf16Bits, Bf16Bits]:
    """Make the tables of kv_c and k_pe.

    Blocks of kv_c have scales from 2^-11 to 2^5. A quarter of them holds magnitudes and ties of e2m1 under their scale.

    Returns:
        uint16 bf16 encodings [LATENTS, 512] and [ROPES, 64].

    """
    random = Random(64)
    blocks = (LATENTS, LATENT // BLOCK)
    kinds, exponents, mantissas = (random.bytes((*blocks, 1)) for _ in range(3))
    scales = np.exp2(4 - (exponents % 16).astype(np.float32)) * (8 + mantissas % 8).astype(np.float32) / np.float32(8)
    hard = np.array([*E2M1.magnitudes, *TIES], np.float32)
    drawn = random.bytes((*blocks, BLOCK))
    signs = np.where(drawn & 0x80, -1, 1).astype(np.float32)
    on_ties = scales * hard[drawn % len(hard)] * signs
    on_ties[..., 0] = 6 * scales[..., 0]  # so that the block's scale is this one
    latent = np.where(kinds % 4 == 0, on_ties, scales * _bell(random, (*blocks, BLOCK)))
    latent = np.where(kinds == 255, np.float32(0), latent)
    rope = _bell(random, (ROPES, ROPE)) * np.exp2((random.bytes((ROPES, 1)) % 4).astype(np.float32))
    return bf16_from_f32(latent.reshape(LATENTS, LATENT)), bf16_from_f32(rope)


def _bell(random: Random, shape: tuple[int, ...]) -> Floats:
    """Return sums of four uniform numbers, mean 0 and variance 1: float32 of this shape, equal on every machine."""
    drawn = random.bytes((*shape, 4, 2)).view("<u2")[..., 0].astype(np.int64)
    bell: npt.NDArray[np.float32] = ((drawn.sum(axis=-1) - 4 * 0x8000) / (2 * 65536 / 12**0.5)).astype(np.float32)
    return bell
