"""Provide wrong ways to multiply by a scale, to round, and to write the result: parts of the TWIN faults.

`numbers` and `scales` are float32 arrays that broadcast. A product is uint16 bf16 encodings of the broadcast shape.
`rows` are uint16 bf16 encodings [N, n], and the result has the same shape.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from conformance.faults.steps import Call, Gather, Records, read
from reference.records import FP8_DS_MLA
from reference.scalars import E4M3, Bf16Bits, Floats, bf16_from_f32

Scales = Callable[[Floats], Floats]
Product = Callable[[Floats, Floats], Bf16Bits]

LATENT, ROPE, ALL = slice(512), slice(512, None), slice(None)


def as_is(scales: Floats) -> Floats:
    """Return the scales unchanged."""
    return scales


def rounded_twice(numbers: Floats, scales: Floats) -> Bf16Bits:
    """Return products rounded to binary32, then to bf16, as TWIN-2 demands."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bf16_from_f32(numbers * scales)


def rounded_once(numbers: Floats, scales: Floats) -> Bf16Bits:
    """Return exact products rounded once to the nearest bf16, by way of round-to-odd. NaN is 0x7FFF."""
    with np.errstate(over="ignore", invalid="ignore"):
        exact = numbers.astype(np.float64) * scales.astype(np.float64)
        near = exact.astype(np.float32)
    down = np.where(np.abs(near.astype(np.float64)) > np.abs(exact), np.nextafter(near, np.float32(0)), near)
    odd = down.view(np.uint32) | (down.astype(np.float64) != exact)
    return np.where(np.isnan(exact), np.uint16(0x7FFF), bf16_from_f32(odd.astype(np.uint32).view(np.float32)))


def truncated(numbers: Floats, scales: Floats) -> Bf16Bits:
    """Return the upper 16 bits of the binary32 products. NaN is 0x7FFF."""
    with np.errstate(over="ignore", invalid="ignore"):
        product: Floats = numbers * scales
    upper = (product.view(np.uint32) >> 16).astype(np.uint16)
    return np.where(np.isnan(product), np.uint16(0x7FFF), upper)


def ties_away(numbers: Floats, scales: Floats) -> Bf16Bits:
    """Return binary32 products rounded to bf16, ties away from zero. NaN is 0x7FFF."""
    with np.errstate(over="ignore", invalid="ignore"):
        product: Floats = numbers * scales
    upper = ((product.view(np.uint32).astype(np.uint64) + 0x8000) >> 16).astype(np.uint16)
    return np.where(np.isnan(product), np.uint16(0x7FFF), upper)


def divided(numbers: Floats, scales: Floats) -> Bf16Bits:
    """Return quotients instead of products."""
    with np.errstate(all="ignore"):
        return bf16_from_f32(numbers / scales)


def zero_whatever_the_scale(numbers: Floats, scales: Floats) -> Bf16Bits:
    """Return right products, but 0 for zero times infinity."""
    infinite = (numbers == 0) & np.isinf(scales)
    return np.where(infinite, np.uint16(0), rounded_twice(numbers, scales))


def _multiplied(scale: Scales, product: Product, call: Call, records: Records) -> Bf16Bits:
    """Return rows read with changed scales or another product: uint16 bf16 encodings [N, n]."""
    if call.layout.name == "fp8":
        return product(E4M3.decode(records), scale(call.scale.reshape(1)))
    tiles = FP8_DS_MLA.scales
    held = np.ascontiguousarray(records[:, tiles.offset : tiles.end]).view("<f4")
    numbers = E4M3.decode(records[:, : FP8_DS_MLA.latent.end])
    latent = product(numbers, np.repeat(scale(held), FP8_DS_MLA.block, axis=1))
    return np.concatenate([latent, read(call, records)[:, FP8_DS_MLA.latent.count :]], axis=1)


def under(change: Scales) -> Gather:
    """Return a gather that reads with the scales that `change` returns."""
    return Gather(read=partial(_multiplied, change, rounded_twice))


def by(change: Product) -> Gather:
    """Return a gather that multiplies and rounds with the function `change`."""
    return Gather(read=partial(_multiplied, as_is, change))


def masked(mask: int, scales: Floats) -> Floats:
    """Return the scales with only the bits of `mask` kept."""
    return (np.ascontiguousarray(scales).view(np.uint32) & np.uint32(mask)).view(np.float32)


def _changed(change: Callable[[Call, Bf16Bits], Bf16Bits], call: Call, records: Records) -> Bf16Bits:
    return change(call, read(call, records))


def after(change: Callable[[Call, Bf16Bits], Bf16Bits]) -> Gather:
    """Return a gather that applies `change` to the rows that it has read."""
    return Gather(read=partial(_changed, change))


def on(columns: slice, change: Callable[[Bf16Bits], Bf16Bits], call: Call, rows: Bf16Bits) -> Bf16Bits:
    """Return the rows with `change` applied to some columns."""
    changed = rows.copy()
    changed[:, columns] = change(rows[:, columns])
    return changed


def flushed(rows: Bf16Bits) -> Bf16Bits:
    """Return the rows with subnormals replaced by zeros of the same sign."""
    return np.where(rows & 0x7F80, rows, rows & 0x8000)


def without_infinities(rows: Bf16Bits) -> Bf16Bits:
    """Return the rows with infinities replaced by the largest finite number of the same sign."""
    return np.where((rows & 0x7FFF) == 0x7F80, rows - 1, rows)


def canonical(rows: Bf16Bits) -> Bf16Bits:
    """Return the rows with each NaN replaced by 0x7FFF."""
    return np.where((rows & 0x7FFF) > 0x7F80, np.uint16(0x7FFF), rows)


def quietened(rows: Bf16Bits) -> Bf16Bits:
    """Return the rows with each NaN made quiet."""
    return np.where((rows & 0x7FFF) > 0x7F80, rows | 0x40, rows)


def nan_as(bits: int, rows: Bf16Bits) -> Bf16Bits:
    """Return the rows with 0x7FFF replaced by `bits`."""
    return np.where(rows == 0x7FFF, np.uint16(bits), rows)


def bytes_swapped(rows: Bf16Bits) -> Bf16Bits:
    """Return the rows with the two bytes of each element exchanged."""
    return rows.byteswap()
