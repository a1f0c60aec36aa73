"""Define the traits in which writers of nvfp4_ds_mla differ, and the bytes that each combination writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import product

import numpy as np
import numpy.typing as npt

from conformance.write_generation import BLOCK
from reference import quantize
from reference.profiles import DEFAULT, PROFILES, Profile
from reference.records import NVFP4_DS_MLA
from reference.scalars import E4M3, Bf16Bits, Codes, Floats, f32_from_bf16

Records = npt.NDArray[np.uint8]
Order = tuple[int, ...]

SCALES = NVFP4_DS_MLA.scales.count
ORDERS: dict[Order, str] = {
    NVFP4_DS_MLA.scales.order: "transposed, as RECORD-4 says",
    tuple(range(SCALES)): "in element order",
    tuple(4 * (s & 7) + (s >> 3) for s in range(SCALES)): "through the inverse permutation",
}
STANDARD_ORDER = NVFP4_DS_MLA.scales.order

CHOICES: dict[str, tuple[str, ...]] = {
    "scale": ("nearest", "up", "down"),
    "normalisation": ("reciprocal", "division"),
    "nan": ("ignored", "spreads"),
    "floor": ("2^-9", "none", "none, codes 0 under a zero scale"),
    "nibbles": ("low first", "high first"),
    "rope": ("e4m3, saturating", "e4m3, NaN beyond its range", "divided by scale", "multiplied by scale"),
}
"""The values of each trait except the order of the scales, which is read directly. Most writers have the first."""


OF_NVFP4 = tuple(profile for profile in PROFILES.values() if profile.tile == DEFAULT.tile)
"""The profiles that differ for nvfp4_ds_mla. A profile with another tile differs only for fp8_ds_mla."""


@dataclass(frozen=True)
class Traits:
    """Hold one combination. `order[s]` is the place, 0 to 31, of the scale byte of latent block s."""

    scale: str = "nearest"
    normalisation: str = "reciprocal"
    nan: str = "ignored"
    floor: str = "2^-9"
    nibbles: str = "low first"
    rope: str = "e4m3, saturating"
    order: Order = STANDARD_ORDER

    def told(self) -> dict[str, str]:
        """Return the traits in words, by name."""
        words = {field.name: str(getattr(self, field.name)) for field in fields(self) if field.name != "order"}
        return {**words, "order": ORDERS.get(self.order, f"block s at place {list(self.order)}[s]")}

    def profiles(self, tile: str = DEFAULT.tile) -> list[Profile]:
        """Return the named profiles with these traits and that rule for the tiles of fp8_ds_mla."""
        return [profile for profile in PROFILES.values() if of_profile(profile) == self and profile.tile == tile]

    def differing(self, other: Traits) -> dict[str, tuple[str, str]]:
        """Return the traits that differ from `other`: this value and the other one, by name."""
        mine, yours = self.told(), other.told()
        return {name: (mine[name], yours[name]) for name in mine if mine[name] != yours[name]}


def of_profile(profile: Profile) -> Traits:
    """Return the traits of a profile. Dividing by six and multiplying by a sixth write the same bytes."""
    return Traits(scale=profile.scale, normalisation=profile.normalisation, nan=profile.nan)


def every_combination(order: Order) -> Iterator[Traits]:
    """Yield all combinations with one order of the scales."""
    for values in product(*CHOICES.values()):
        scale, normalisation, nan, floor, nibbles, rope = values
        yield Traits(scale, normalisation, nan, floor, nibbles, rope, order)


def records_of(traits: Traits, kv_c: Bf16Bits, k_pe: Bf16Bits, scale: float) -> Records:
    """Return the uint8 records [N, 352] that a writer with these traits writes.

    kv_c: uint16 bf16 encodings [N, 512]; k_pe: uint16 bf16 encodings [N, 64]; `scale` is the argument of the write,
    which some RoPE traits use.

    Returns:
        uint8 [N, 352].

    """
    blocks = f32_from_bf16(kv_c).reshape(len(kv_c), SCALES, BLOCK)
    with np.errstate(all="ignore"):
        scales = _scales(traits, quantize.amax(blocks, traits.nan))
        codes = _codes(traits, blocks, scales)
        rope = _rope(traits, f32_from_bf16(k_pe), np.float32(scale))
    even, odd = codes.reshape(len(kv_c), SCALES * BLOCK // 2, 2).transpose(2, 0, 1)
    low, high = (even, odd) if traits.nibbles == "low first" else (odd, even)
    stored = np.empty_like(scales)
    stored[:, list(traits.order)] = scales
    return np.concatenate([low | high << 4, rope, stored], axis=1).astype(np.uint8)


def _scales(traits: Traits, amax: Floats) -> Codes:
    factors = quantize.scale_factors(amax, "divided")
    if traits.floor != "2^-9":
        factors = (amax / np.float32(6)).astype(np.float32)
    if traits.scale != "down":
        return quantize.scale_bytes(factors, traits.scale)
    up = quantize.scale_bytes(factors, "up").astype(np.int16)
    down = np.where((E4M3.values[up] > factors) & (up > 0), up - 1, up)
    return down.astype(np.uint8)


def _codes(traits: Traits, blocks: Floats, scales: Codes) -> Codes:
    codes = quantize.latent_codes(blocks, E4M3.values[scales][..., None], traits.normalisation)
    if traits.floor.endswith("zero scale"):
        zero = np.where(np.signbit(blocks), 8, 0).astype(np.uint8)
        codes = np.where(scales[..., None] == 0, zero, codes)
    return codes.reshape(len(blocks), SCALES * BLOCK)


def _rope(traits: Traits, x: Floats, scale: np.float32) -> Codes:
    if traits.rope == "divided by scale":
        return E4M3.encode(x / scale)
    if traits.rope == "multiplied by scale":
        return E4M3.encode(x * scale)
    encoded = E4M3.encode(x)
    if traits.rope == "e4m3, NaN beyond its range":
        beyond = np.abs(x) > 464  # the midpoint between 448 and what would be the next number
        encoded = np.where(beyond, np.where(np.signbit(x), 0xFF, 0x7F), encoded).astype(np.uint8)
    return encoded


def nearest_named(traits: Traits) -> tuple[Profile, dict[str, tuple[str, str]]]:
    """Return the named profile with the fewest different traits, and these traits."""
    differences = [(profile, traits.differing(of_profile(profile))) for profile in OF_NVFP4]
    return min(differences, key=lambda pair: len(pair[1]))
