"""What to write: closed domains whole, numbers on every rounding decision, and slots in every order."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from conformance.generation import Random
from fixtures.write_cases import PACKED, WriteArrangement, WriteCase
from reference.profiles import Profile
from reference.quantize import scale_bytes, scale_factors
from reference.scalars import E2M1, E4M3, Bf16Bits, Floats, bf16_from_f32, f32_from_bf16

LATENT, ROPE, BLOCK = 512, 64, 16

FINITE = np.arange(0x7F80, dtype=np.uint16)
"""All 32,640 finite non-negative bf16."""

TIES = tuple((low + high) / 2 for low, high in zip(E2M1.magnitudes[:-1], E2M1.magnitudes[1:], strict=True))
"""0.25, 0.75, 1.25, 1.75, 2.5, 3.5 and 5: where the nearest e2m1 magnitude changes."""

SPECIAL = (0x0000, 0x8000, 0x0001, 0x8001, 0x0080, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0, 0xFFFF, 0x7F81)
"""Zeros, subnormals, the smallest normal, the largest, infinities, NaN of either sign and of a signalling payload."""


@dataclass(frozen=True)
class Slots:
    """Where tokens go: `tokens` of them, `skipped` of these with a negative slot, in a cache with room to spare."""

    tokens: int
    block_size: int = 16
    skipped: int = 0
    extra_blocks: int = 1


def case_of(
    kv_c: Bf16Bits, k_pe: Bf16Bits, seed: int, origin: str, slots: Slots | None = None, form: str = "nvfp4_ds_mla"
) -> WriteCase:
    """The tokens of uint16 [T, 512] and [T, 64], each to a slot of its own, in random order."""
    tokens = len(kv_c)
    slots = slots or Slots(tokens)
    random = Random(seed)
    num_blocks = -(-tokens // slots.block_size) + slots.extra_blocks
    mapping = random.permutation(num_blocks * slots.block_size)[:tokens].astype(np.int64)
    mapping[random.permutation(tokens)[: slots.skipped]] = -1
    return WriteCase(kv_c, k_pe, mapping, num_blocks, slots.block_size, form, origin=origin)


def realize(
    slots: Slots, seed: int, form: str = "nvfp4_ds_mla", arrangement: WriteArrangement = PACKED, origin: str = ""
) -> WriteCase:
    """A legal case of that geometry: tokens of `mixed`, of finite numbers alone where the format asks for it."""
    kv_c, k_pe = mixed(slots.tokens, seed, finite=form == "fp8_ds_mla")
    origin = origin or f"seed={seed}, mixed numbers"
    return replace(
        case_of(kv_c, k_pe, seed, origin, slots, form), arrangement=arrangement, scale=SCALES[seed % len(SCALES)]
    )


SCALES = (1.0, 0.5, 0.0123, 3.7)


def mixed(tokens: int, seed: int, finite: bool = False) -> tuple[Bf16Bits, Bf16Bits]:
    """uint16 [T, 512] and [T, 64]: blocks around every scale, of numbers on and beside ties, of any bits, of specials.

    Gaussian numbers would reach less than a quarter of the scale bytes (`python -m conformance histogram`).
    """
    random = Random(seed)
    kinds = random.bytes((tokens, LATENT // BLOCK, 1)) % 8
    drawn = random.bytes((tokens, LATENT // BLOCK, BLOCK, 2)).view("<u2")[..., 0].astype(np.uint16)
    scales = E4M3.values[1 + random.bytes((tokens, LATENT // BLOCK, 1)) % 0x7E]
    latent = np.where(kinds < 5, _around(scales, drawn), drawn)  # any bits: infinities and NaN among them
    latent = np.where(kinds == 7, np.array(SPECIAL, np.uint16)[drawn % len(SPECIAL)], latent)
    kv_c = latent.reshape(tokens, LATENT)
    k_pe = _rope(random.bytes((tokens, ROPE, 2)).view("<u2")[..., 0].astype(np.uint16))
    if finite:
        kv_c = np.where((kv_c & 0x7F80) == 0x7F80, kv_c & 0xBFFF, kv_c)
    return kv_c, k_pe


def _around(scale: Floats, drawn: Bf16Bits) -> Bf16Bits:
    """Multiples of a block's scale: magnitudes, ties, the neighbours of either, and what lies between."""
    hard = np.array([*E2M1.magnitudes, *TIES], np.float32)
    near = bf16_from_f32(scale * hard[drawn % len(hard)]) + (drawn >> 4 & 3) - (drawn >> 6 & 3)
    between = bf16_from_f32(scale * (drawn >> 5).astype(np.float32) / np.float32(2048 / 6))
    chosen = np.where(drawn & 1, near & 0x7FFF, between)
    chosen[..., 0] = bf16_from_f32(scale * 6)[..., 0]  # so that the scale is this one, or a neighbour
    signed: Bf16Bits = (chosen | (drawn & 0x8000)).astype(np.uint16)
    return signed


def _rope(drawn: Bf16Bits) -> Bf16Bits:
    """Half of them any bits, half in the range of e4m3."""
    in_range = (drawn & 0x8000) | (0x3A80 + (drawn & 0x09FF))
    return np.where(drawn & 1, drawn, in_range).astype(np.uint16)


def every_amax(form: str = "nvfp4_ds_mla") -> WriteCase:
    """Each of the 32,640 finite bf16 magnitudes alone in a block (in a tile, for fp8_ds_mla), signs alternating."""
    per_token, width = (4, 128) if form == "fp8_ds_mla" else (LATENT // BLOCK, BLOCK)
    kv_c = np.zeros((len(FINITE) // per_token, per_token, width), np.uint16)
    places = np.arange(len(FINITE)) % width
    tokens, blocks = np.divmod(np.arange(len(FINITE)), per_token)
    kv_c[tokens, blocks, places] = FINITE | np.where(np.arange(len(FINITE)) % 3 == 0, 0x8000, 0).astype(np.uint16)
    rows = kv_c.reshape(-1, LATENT)
    return case_of(rows, np.zeros((len(rows), ROPE), np.uint16), 1, "every amax", form=form)


def numbers_of_every_scale(rule: str) -> list[tuple[int, Bf16Bits]]:
    """For each scale byte from 0x01 to 0x7E, all bf16 magnitudes up to the largest amax that gives it, ascending."""
    given = scale_bytes(scale_factors(f32_from_bf16(FINITE), "divided"), rule)
    largest = {byte: FINITE[given == byte].max() for byte in range(0x01, 0x7F)}
    # Every amax above 2,688 has 0x7E: the numbers beyond the range all become 6.
    largest[0x7E] = bf16_from_f32(np.float32(2688 + 16))
    return [(byte, FINITE[: int(top) + 1]) for byte, top in largest.items()]


def every_pair(profile: Profile) -> WriteCase:
    """Every (number, scale byte) pair, both signs: in each block its amax, then 15 of that scale's numbers."""
    blocks = []
    for _, numbers in numbers_of_every_scale(profile.scale):
        signed = np.concatenate([numbers, numbers | 0x8000]).astype(np.uint16)
        padded = np.resize(signed, (-(-len(signed) // (BLOCK - 1)), BLOCK - 1))
        blocks.append(np.concatenate([np.full((len(padded), 1), numbers[-1]), padded], axis=1))
    latent = np.concatenate(blocks)
    kv_c = np.resize(latent, (-(-len(latent) // (LATENT // BLOCK)) * (LATENT // BLOCK), BLOCK)).reshape(-1, LATENT)
    return case_of(kv_c, np.zeros((len(kv_c), ROPE), np.uint16), 2, "every number with every scale byte")


def every_rope() -> WriteCase:
    """All 65,536 bf16 as RoPE elements, whatever they are."""
    k_pe = np.arange(65_536, dtype=np.uint16).reshape(-1, ROPE)
    return case_of(np.zeros((len(k_pe), LATENT), np.uint16), k_pe, 3, "every RoPE element")


def scale_histogram(case: WriteCase, profile: Profile) -> npt.NDArray[np.int64]:
    """int64 [256]: how often each scale byte is due for the blocks of a case."""
    magnitudes = np.abs(f32_from_bf16(case.kv_c)).reshape(-1, BLOCK)
    largest = np.where(np.isnan(magnitudes), 0, magnitudes).max(axis=1).astype(np.float32)
    return np.bincount(scale_bytes(scale_factors(largest, profile.sixth), profile.scale), minlength=256)
