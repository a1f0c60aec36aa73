"""Split quantization into rules that faults may replace. The defaults follow WRITE-10 to WRITE-20 of SPEC.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from conformance.faults.write_steps import Records, WriteCall
from reference import quantize
from reference.records import NVFP4_DS_MLA, RecordLayout
from reference.scalars import E2M1, E4M3, Bf16Bits, Codes, Floats, f32_from_bf16

Encode = Callable[[Floats], Codes]


def amax(call: WriteCall, blocks: Floats) -> Floats:
    """Return the amax of each block or tile: float32 [N, blocks, n] -> float32 [N, blocks] (WRITE-10)."""
    return quantize.amax(blocks, call.profile.nan)


def factor(call: WriteCall, largest: Floats) -> Floats:
    """Return the scale factors sf of amax: float32 [N, 32] -> float32 [N, 32] (WRITE-11)."""
    return quantize.scale_factors(largest, call.profile.sixth)


def normalised(call: WriteCall, x: Floats, sf: Floats, scale: Floats) -> Floats:
    """Compute the numbers to encode as e2m1 (WRITE-13).

    x: float32 [N, 32, 16], the elements; sf: float32 [N, 32, 1]; scale: float32 [N, 32, 1], the decoded scale bytes.

    Returns:
        float32 [N, 32, 16].

    """
    return x / scale if call.profile.normalisation == "division" else x * (np.float32(1) / scale)


def rope(call: WriteCall, x: Floats) -> Floats:
    """Return the numbers to encode as e4m3 for k_pe: float32 [N, 64] -> float32 [N, 64] (WRITE-14)."""
    return x


def tile_scale(call: WriteCall, largest: Floats) -> Floats:
    """Return the scales of tiles from their amax: float32 [N, 4] -> float32 [N, 4] (WRITE-17)."""
    return quantize.tile_scales(largest, call.profile.tile)


def tile_normalised(call: WriteCall, x: Floats, scale: Floats) -> Floats:
    """Return the numbers to encode: float32 [N, 4, 128], scales float32 [N, 4, 1] -> [N, 4, 128] (WRITE-18)."""
    return x / scale


def tile_parts(call: WriteCall, latent: Codes, scales: Floats, k_pe: Bf16Bits) -> list[npt.NDArray[np.generic]]:
    """Return the fields of fp8_ds_mla in order (WRITE-16): uint8 [N, 512], float32 [N, 4], uint16 [N, 64]."""
    return [latent, scales, k_pe]


def divided(call: WriteCall, x: Floats) -> Floats:
    """Return the numbers to encode for "fp8": float32 [N, 576] -> float32 [N, 576] (WRITE-20)."""
    return x / call.scale


def copied(call: WriteCall, bits: Bf16Bits) -> Bf16Bits:
    """Return the bf16 encodings to store for "auto": uint16 [N, 576] -> uint16 [N, 576] (WRITE-19)."""
    return bits


@dataclass(frozen=True)
class Rules:
    """Hold the rules by which a writer quantizes. The defaults are right."""

    e2m1: Encode = E2M1.encode
    e4m3: Encode = E4M3.encode
    amax: Callable[[WriteCall, Floats], Floats] = amax
    factor: Callable[[WriteCall, Floats], Floats] = factor
    scale_byte: Callable[[WriteCall, Floats], Codes] | None = None
    """The function from sf to scale bytes (WRITE-12), or None for the profile's rule with `e4m3`."""
    normalised: Callable[[WriteCall, Floats, Floats, Floats], Floats] = normalised
    rope: Callable[[WriteCall, Floats], Floats] = rope
    layout: RecordLayout = NVFP4_DS_MLA
    tile_scale: Callable[[WriteCall, Floats], Floats] = tile_scale
    tile_normalised: Callable[[WriteCall, Floats, Floats], Floats] = tile_normalised
    tile_parts: Callable[[WriteCall, Codes, Floats, Bf16Bits], list[npt.NDArray[np.generic]]] = tile_parts
    divided: Callable[[WriteCall, Floats], Floats] = divided
    copied: Callable[[WriteCall, Bf16Bits], Bf16Bits] = copied

    def __call__(self, call: WriteCall, kv_c: Bf16Bits, k_pe: Bf16Bits) -> Records:
        """Quantize kv_c, uint16 bf16 encodings [N, 512], and k_pe, uint16 bf16 encodings [N, 64].

        Returns:
            Records [N, call.width], uint16 for "auto", else uint8.

        """
        if call.kv_cache_dtype == "nvfp4_ds_mla":
            return self._nvfp4(call, kv_c, k_pe)
        if call.kv_cache_dtype == "fp8_ds_mla":
            return self._fp8_ds_mla(call, kv_c, k_pe)
        bits = np.concatenate([kv_c, k_pe], axis=1)
        if call.kv_cache_dtype == "auto":
            return self.copied(call, bits)
        return self.e4m3(self.divided(call, f32_from_bf16(bits)).astype(np.float32))

    def _nvfp4(self, call: WriteCall, kv_c: Bf16Bits, k_pe: Bf16Bits) -> Records:
        blocks = f32_from_bf16(kv_c).reshape(len(kv_c), self.layout.scales.count, self.layout.block)
        factors = self.factor(call, self.amax(call, blocks)).astype(np.float32)
        scales = self._scale_bytes(call, factors)
        x = self.normalised(call, blocks, factors[..., None], E4M3.decode(scales)[..., None])
        records = np.empty((len(kv_c), self.layout.nbytes), np.uint8)
        quantize.store(records, self.layout.latent, self.e2m1(x.astype(np.float32)).reshape(kv_c.shape))
        quantize.store(records, self.layout.rope, self.e4m3(self.rope(call, f32_from_bf16(k_pe)).astype(np.float32)))
        quantize.store(records, self.layout.scales, scales)
        return records

    def _scale_bytes(self, call: WriteCall, factors: Floats) -> Codes:
        if self.scale_byte:
            return self.scale_byte(call, factors)
        up = call.profile.scale == "up"
        return quantize.scale_bytes(factors, "up") if up else self.e4m3(factors)

    def _fp8_ds_mla(self, call: WriteCall, kv_c: Bf16Bits, k_pe: Bf16Bits) -> Records:
        tiles = f32_from_bf16(kv_c).reshape(len(kv_c), kv_c.shape[1] // quantize.TILE, quantize.TILE)
        scales = self.tile_scale(call, self.amax(call, tiles)).astype(np.float32)
        latent = self.e4m3(self.tile_normalised(call, tiles, scales[..., None]).astype(np.float32))
        parts = self.tile_parts(call, latent.reshape(kv_c.shape), scales, k_pe)
        return np.concatenate([_bytes(part) for part in parts], axis=1)


def _bytes(numbers: npt.NDArray[np.generic]) -> Records:
    little = np.ascontiguousarray(numbers, numbers.dtype.newbyteorder("<"))
    return little.view(np.uint8).reshape(len(numbers), numbers.shape[1] * little.itemsize)


@dataclass(frozen=True)
class OfAnotherProfile(Rules):
    """Apply the right rules of another profile than the declared one: some parameters are replaced."""

    parameters: tuple[tuple[str, str], ...] = ()

    def __call__(self, call: WriteCall, kv_c: Bf16Bits, k_pe: Bf16Bits) -> Records:
        """Return records as Rules does, under the replaced parameters."""
        profile = replace(call.profile, **dict(self.parameters))  # type: ignore[arg-type]
        return super().__call__(replace(call, profile=profile), kv_c, k_pe)


def bound_by(**parameters: str) -> Rules:
    """Return rules with these parameters of a profile, whatever profile is declared."""
    return OfAnotherProfile(parameters=tuple(parameters.items()))
