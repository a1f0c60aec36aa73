"""Define faults in the read of a record of nvfp4_ds_mla (SCALAR, RECORD, READ)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from conformance.faults.fault import NVFP4, Fault
from conformance.faults.steps import Call, Gather, Records, read
from reference.reading import read_records, read_rope
from reference.records import NVFP4_DS_MLA, RecordLayout, transposed
from reference.scalars import E4M3, Bf16Bits, Floats, MiniFloat, bf16_from_f32, f32_from_bf16

LATENT, ROPE, SCALES = NVFP4_DS_MLA.latent, NVFP4_DS_MLA.rope, NVFP4_DS_MLA.scales


def _with_layout(layout: RecordLayout, call: Call, records: Records) -> Bf16Bits:
    return read_records(layout, records)


def _ordered(name: str, order: tuple[int, ...]) -> Gather:
    """Return a gather that reads the elements of a field in another order."""
    changed = replace(getattr(NVFP4_DS_MLA, name), order=order)
    return Gather(read=partial(_with_layout, replace(NVFP4_DS_MLA, **{name: changed})))


def _numbers(name: str, magnitudes: tuple[float, ...]) -> Gather:
    """Return a gather that reads a field as numbers of another format."""
    changed = getattr(NVFP4_DS_MLA, name)
    other = replace(changed, scalar=replace(changed.scalar, magnitudes=magnitudes))
    return Gather(read=partial(_with_layout, replace(NVFP4_DS_MLA, **{name: other})))


def _scale_order(block_of: Callable[[int], int]) -> Gather:
    """Return a gather that reads block s with the scale of block block_of(s)."""
    return _ordered("scales", tuple(SCALES.order[block_of(s)] for s in range(SCALES.count)))


def _exchanged_fields() -> RecordLayout:
    scales, rope = replace(SCALES, offset=ROPE.offset), replace(ROPE, offset=ROPE.offset + SCALES.nbytes)
    return replace(NVFP4_DS_MLA, scales=scales, rope=rope)


def _half_biased(scalar: MiniFloat) -> tuple[float, ...]:
    return (*(magnitude / 2 for magnitude in scalar.magnitudes), 240.0)  # e4m3fnuz has a number at 0x7F


def _changed(change: Callable[[Records, Bf16Bits], Bf16Bits], call: Call, records: Records) -> Bf16Bits:
    """Return the rows, uint16 bf16 encodings [N, 576], after `change` of the records, uint8 [N, 352], and rows."""
    return change(records, read(call, records))


def _after(change: Callable[[Records, Bf16Bits], Bf16Bits]) -> Gather:
    return Gather(read=partial(_changed, change))


def _scale_bytes(records: Records) -> Records:
    """Return the scale byte of each latent element: uint8 [N, 512]."""
    return np.repeat(SCALES.in_order(records[:, SCALES.offset : SCALES.end]), NVFP4_DS_MLA.block, axis=1)


def _codes(records: Records) -> Records:
    """Return the code of each latent element: uint8 [N, 512]."""
    stored = records[:, LATENT.offset : LATENT.end]
    return np.stack([stored & 0xF, stored >> 4], axis=-1).reshape(len(records), LATENT.count)


def _latent(records: Records, rows: Bf16Bits, where: np.ndarray, bits: Bf16Bits | int) -> Bf16Bits:
    """Return the rows, uint16 [N, 576], with `bits` where `where`, bool [N, 512], holds."""
    return np.concatenate([np.where(where, np.uint16(bits), rows[:, : LATENT.count]), rows[:, LATENT.count :]], axis=1)


def _nan_times_zero_is_zero(records: Records, rows: Bf16Bits) -> Bf16Bits:
    codes = _codes(records)
    zero = (_scale_bytes(records) & 0x7F == 0x7F) & (codes & 7 == 0)
    return _latent(records, rows, zero, 0)


def _sign_of_scale_dropped(records: Records, rows: Bf16Bits) -> Bf16Bits:
    negative = (_scale_bytes(records) > 0x80) & (_scale_bytes(records) < 0xFF)
    flipped = rows[:, : LATENT.count] ^ np.uint16(0x8000)
    return _latent(records, rows, negative, flipped)


def _saturated(records: Records, rows: Bf16Bits) -> Bf16Bits:
    numbers = f32_from_bf16(rows[:, : LATENT.count])
    return _latent(records, rows, np.abs(numbers) > 448, bf16_from_f32(np.clip(numbers, -448, 448)))


def _rope_scaled(records: Records, rows: Bf16Bits) -> Bf16Bits:
    last = E4M3.decode(SCALES.in_order(records[:, SCALES.offset : SCALES.end])[:, -1:])
    with np.errstate(over="ignore", invalid="ignore"):
        scaled: Floats = f32_from_bf16(rows[:, LATENT.count :]) * last
    return np.concatenate([rows[:, : LATENT.count], bf16_from_f32(scaled)], axis=1)


def _negative_zero_of_rope_lost(records: Records, rows: Bf16Bits) -> Bf16Bits:
    rope = read_rope(NVFP4_DS_MLA, records)
    return np.concatenate([rows[:, : LATENT.count], np.where(rope == 0x8000, np.uint16(0), rope)], axis=1)


def _nan_as(bits: int, records: Records, rows: Bf16Bits) -> Bf16Bits:
    return np.where(rows == 0x7FFF, np.uint16(bits), rows)


def _nan_with_its_sign(records: Records, rows: Bf16Bits) -> Bf16Bits:
    given = np.concatenate([_scale_bytes(records), records[:, ROPE.offset : ROPE.end]], axis=1)
    return np.where((rows == 0x7FFF) & (given == 0xFF), np.uint16(0xFFFF), rows)


_FLUSHED = tuple(0.0 if magnitude < 2.0**-6 else magnitude for magnitude in E4M3.magnitudes)


def _of_records(name: str, sentence: str, clause: str, gather: Gather, source: str = "") -> Fault:
    return Fault(name, sentence, clause, gather, source, NVFP4)


FAULTS = (
    _of_records(
        "scales-unpermuted", "scale bytes read in element order", "RECORD-4", _ordered("scales", ()), "vllm 50084"
    ),
    _of_records(
        "scales-inverse-permuted",
        "scale bytes read through the inverse permutation",
        "RECORD-4",
        _ordered("scales", transposed(4, 8)),
    ),
    _of_records(
        "scale-of-the-next-block",
        "a latent block read under the scale of the next one",
        "RECORD-4",
        _scale_order(lambda s: (s + 1) % 32),
    ),
    _of_records(
        "scale-of-32-elements",
        "one scale read for two latent blocks",
        "RECORD-4",
        _scale_order(lambda s: s // 2 * 2),
    ),
    _of_records(
        "scales-of-the-halves-exchanged",
        "the scales of the latent's two halves exchanged",
        "RECORD-4",
        _scale_order(lambda s: (s + 16) % 32),
    ),
    _of_records(
        "nibbles-swapped",
        "the high nibble read as the even element",
        "RECORD-2",
        _ordered("latent", tuple(element ^ 1 for element in range(512))),
        "vllm 55976",
    ),
    _of_records(
        "nibbles-planar",
        "the low nibbles read as the first half of the latent, the high ones as the second",
        "RECORD-2",
        _ordered("latent", tuple(2 * (element % 256) + element // 256 for element in range(512))),
    ),
    _of_records(
        "scales-before-rope",
        "the scales looked for in front of the RoPE key",
        "RECORD-1",
        Gather(read=partial(_with_layout, _exchanged_fields())),
    ),
    _of_records(
        "rope-interleaved",
        "the two halves of the RoPE key taken to alternate",
        "RECORD-3",
        _ordered("rope", tuple(2 * (element % 32) + element // 32 for element in range(64))),
    ),
    _of_records(
        "codes-as-integers",
        "codes read as the integers 0 to 7",
        "SCALAR-1",
        _numbers("latent", (0, 1, 2, 3, 4, 5, 6, 7)),
    ),
    _of_records(
        "half-flushed",
        "the code of 0.5, a subnormal, read as 0",
        "SCALAR-1",
        _numbers("latent", (0, 0, 1, 1.5, 2, 3, 4, 6)),
    ),
    _of_records(
        "scale-of-e4m3fnuz",
        "scale bytes read with the bias of e4m3fnuz, half as large",
        "SCALAR-4",
        _numbers("scales", _half_biased(E4M3)),
    ),
    _of_records("scale-subnormals-flushed", "subnormal scales read as 0", "SCALAR-4", _numbers("scales", _FLUSHED)),
    _of_records("rope-subnormals-flushed", "subnormal RoPE bytes read as 0", "READ-2", _numbers("rope", _FLUSHED)),
    _of_records("rope-scaled", "RoPE elements multiplied by the last scale", "READ-2", _after(_rope_scaled)),
    _of_records("sign-of-scale-dropped", "scales read without their sign", "READ-1", _after(_sign_of_scale_dropped)),
    _of_records(
        "product-saturated", "products saturated at 448, as in a workspace of e4m3", "READ-1", _after(_saturated)
    ),
    _of_records(
        "scale-nan-is-448", "a NaN scale byte read as 448", "READ-4", _numbers("scales", (*E4M3.magnitudes, 448.0))
    ),
    _of_records(
        "scale-nan-is-480", "a NaN scale byte read as 480", "READ-4", _numbers("scales", (*E4M3.magnitudes, 480.0))
    ),
    _of_records(
        "nan-times-zero-is-zero", "code 0 under a NaN scale read as 0", "READ-4", _after(_nan_times_zero_is_zero)
    ),
    _of_records(
        "rope-nan-is-480", "a NaN RoPE byte read as 480", "READ-5", _numbers("rope", (*E4M3.magnitudes, 480.0))
    ),
    _of_records(
        "rope-nan-is-448", "a NaN RoPE byte read as 448", "READ-5", _numbers("rope", (*E4M3.magnitudes, 448.0))
    ),
    _of_records("nan-is-7fc0", "NaN written as 0x7FC0", "READ-6", _after(partial(_nan_as, 0x7FC0))),
    _of_records("nan-with-its-sign", "NaN written with the sign of its byte", "READ-6", _after(_nan_with_its_sign)),
    _of_records(
        "negative-zero-of-rope-lost", "-0 of the RoPE key written as +0", "READ-3", _after(_negative_zero_of_rope_lost)
    ),
)
