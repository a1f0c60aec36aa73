"""Cases of the gather of fp8_ds_mla: the geometries of the others, over records of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from conformance.cases import with_records
from conformance.generation import Geometry, Random, realize
from fixtures.cases import GatherCase
from reference.records import FP8_DS_MLA

Records = npt.NDArray[np.uint8]
Binary32 = npt.NDArray[np.float32]

SPECIAL_SCALES = np.array(
    [
        *(0x00000000, 0x80000000, 0x3F800000, 0xBF800000),  # 0, -0, 1, -1
        *(0x00000001, 0x007FFFFF, 0x807FFFFF, 0x00800000),  # subnormals of either sign, the smallest normal number
        *(0x7F7FFFFF, 0x7F800000, 0xFF800000),  # the largest number, the infinities
        *(0x7F800001, 0x7FC00000, 0xFFFFFFFF),  # NaN: signalling, quiet, with a sign
        *(0x3F808000, 0x3F818000, 0x3F80FFFF),  # products on and beside a tie of bf16
    ],
    "<u4",
).view("<f4")


def as_twin(case: GatherCase, seed: int = 1) -> GatherCase:
    """The same call over a cache of fp8_ds_mla."""
    count = len(case.records) * case.block_size
    records = some_records(count, seed).reshape(*case.records.shape[:2], FP8_DS_MLA.nbytes)
    return replace(case, records=records, layout=FP8_DS_MLA)


def some_records(count: int, seed: int) -> Records:
    """uint8 [count, 656]: uniform bytes, under scales that take turns: any bits, powers of two, ordinary, special."""
    random = Random(seed)
    records = random.bytes((count, FP8_DS_MLA.nbytes))
    drawn = random.bytes((count, 4, 4)).view("<u4")[..., 0].astype(np.int64)
    kinds = (
        scales_of(records),
        np.ldexp(np.float32(1), (drawn % 22 - 14).astype(np.int32)),
        (drawn / 2.0**34).astype(np.float32),
        SPECIAL_SCALES[drawn % len(SPECIAL_SCALES)],
    )
    turn = (np.arange(count)[:, None] + np.arange(4)) % 4
    # As bits, since NumPy may quieten a NaN that it copies as a number.
    return with_scales(records, np.choose(turn, [kind.view("<u4") for kind in kinds]).view("<f4"))


def every_scale_and_rope() -> GatherCase:
    """Each tile meets every upper half of a binary32 as its scale, each RoPE element every bf16, each byte all 256."""
    row, place = np.arange(65_536)[:, None], np.arange(FP8_DS_MLA.latent.count)
    records = np.empty((65_536, FP8_DS_MLA.nbytes), np.uint8)
    records[:, : FP8_DS_MLA.latent.end] = row * 7 + row // 256 + place
    upper = (row + 257 * np.arange(4)) % 65_536
    lower = (row * 40_503 + 17) % 65_536  # below, on and above the ties of products, and odd bits for NaN
    records = with_scales(records, (upper << 16 | lower).astype("<u4").view("<f4"))
    rope = ((row + 1021 * np.arange(FP8_DS_MLA.rope.count)) % 65_536).astype("<u2")
    records[:, FP8_DS_MLA.rope.offset :] = rope.view(np.uint8)
    return _rows_of(records, "every upper half of a scale, every bf16 at every RoPE element")


def every_byte_under_chosen_scales() -> GatherCase:
    """Every byte at every latent element, under scales whose products end around a tie of bf16, and special ones."""
    near_ties = (1 + 2.0**-7, 1 + 2.0**-8, 1 + 3 * 2.0**-8)
    ordinary = np.array([1, 2.0**-9, 0.75, *near_ties, 1 / 3, 1e-4 / 3, 447 / 448], "<f4")
    scales = np.concatenate([ordinary.view("<u4"), SPECIAL_SCALES.view("<u4")])  # as bits, so that no NaN is quietened
    byte, scale = (part.ravel() for part in np.meshgrid(np.arange(256), scales))
    records = some_records(len(byte), 3)
    records[:, : FP8_DS_MLA.latent.end] = byte[:, None] + np.arange(FP8_DS_MLA.latent.count)
    records = with_scales(records, np.tile(scale[:, None], (1, 4)).astype("<u4").view("<f4"))
    return _rows_of(records, "every byte, ordinary and special scales")


def one_hot() -> GatherCase:
    """Record p is all ones but for byte p: each byte alone lands where the layout says."""
    nbytes = FP8_DS_MLA.nbytes
    record = np.full(nbytes, 0x38, np.uint8)
    record[FP8_DS_MLA.rope.offset :] = np.frombuffer(np.full(64, 0x3F80, "<u2").tobytes(), np.uint8)
    records = np.tile(with_scales(record[None], np.ones((1, 4), "<f4")), (nbytes, 1))
    records[np.arange(nbytes), np.arange(nbytes)] ^= 0x40
    return _rows_of(records, "one byte differs")


def scales_of(records: Records) -> Binary32:
    """uint8 [N, 656] -> the scales, [N, 4]."""
    field = FP8_DS_MLA.scales
    return np.ascontiguousarray(records[:, field.offset : field.end]).view("<f4")


def with_scales(records: Records, scales: Binary32) -> Records:
    """The records with other scales, [N, 4]."""
    field, changed = FP8_DS_MLA.scales, records.copy()
    changed[:, field.offset : field.end] = np.ascontiguousarray(scales).view(np.uint8)
    return changed


def _rows_of(records: Records, origin: str) -> GatherCase:
    """Return a case whose row t reads records[t], over three requests without seq_starts."""
    count = len(records)
    lengths = (count - count // 2 - count // 5, count // 2, count // 5)
    case = realize(Geometry(64, lengths), seed=0, layout=FP8_DS_MLA, origin=origin)
    return with_records(case, records)
