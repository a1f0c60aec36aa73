"""Malformed calls of a writer: each a change of one argument of a good call."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conformance.calls import Malformed
from conformance.judge import Judge
from conformance.malformed_changes import as_type, shorter, with_inner_stride_two, with_shape, with_width
from conformance.targets.base import WRITES
from conformance.write_generation import Slots, realize
from conformance.writes import must_refuse_write
from fixtures.placement import POISONS, Placement, whole
from fixtures.write_cases import WriteCase, place_write


def _records_that_overlap(p: Placement) -> Placement:
    block, record, one = p.strides
    return replace(p, strides=(block, record - 16, one))


def _blocks_that_overlap(p: Placement) -> Placement:
    return replace(p, strides=(p.strides[0] - 16, *p.strides[1:]))


def _two(p: Placement) -> Placement:
    return replace(p, data=np.concatenate([p.data, p.data]))


def _record_stride_0(p: Placement) -> Placement:
    return replace(p, strides=(p.strides[0], 0, 1))


def _block_stride_0(p: Placement) -> Placement:
    return replace(p, strides=(0, *p.strides[1:]))


def _records_that_interleave_and_overlap(p: Placement) -> Placement:
    width = p.data.shape[2]
    return replace(p, strides=(3 * width // 2, width, 1))


def _every_third_and_every_second(p: Placement) -> Placement:
    width = p.data.shape[2]
    return replace(p, strides=(3 * width, 2 * width, 1))


def _empty(p: Placement) -> Placement:
    return replace(p, data=p.data[:0].copy())


def _shorter_by_two(p: Placement) -> Placement:
    return replace(p, data=p.data[:-2].copy())


MALFORMED = (
    Malformed("kv_c", "int16", as_type(np.int16)),
    Malformed("kv_c", "float16", as_type(np.float16)),
    Malformed("kv_c", "float32", as_type(np.float32)),
    Malformed("kv_c", "of rank 1", with_shape(512)),
    Malformed("kv_c", "of rank 3", with_shape(7, 1, 512)),
    Malformed("kv_c", "of rows of 256", with_width(256)),
    Malformed("kv_c", "of rows of 511", with_width(511)),
    Malformed("kv_c", "of rows of 513", with_width(513)),
    Malformed("kv_c", "of rows of 576", with_width(576)),
    Malformed("kv_c", "of rows of 1024", with_width(1024)),
    Malformed("kv_c", "of every other column", with_inner_stride_two),
    Malformed("kv_c", "shorter than slot_mapping", shorter),
    Malformed("kv_c", "shorter by two", _shorter_by_two),
    Malformed("kv_c", "of no row", _empty),
    Malformed("k_pe", "int16", as_type(np.int16)),
    Malformed("k_pe", "float16", as_type(np.float16)),
    Malformed("k_pe", "float32", as_type(np.float32)),
    Malformed("k_pe", "of rank 1", with_shape(64)),
    Malformed("k_pe", "of rank 3", with_shape(7, 1, 64)),
    Malformed("k_pe", "of rows of 63", with_width(63)),
    Malformed("k_pe", "of rows of 65", with_width(65)),
    Malformed("k_pe", "of rows of 128", with_width(128)),
    Malformed("k_pe", "of every other column", with_inner_stride_two),
    Malformed("k_pe", "shorter than slot_mapping", shorter),
    Malformed("k_pe", "of no row", _empty),
    Malformed("kv_cache", "int8", as_type(np.int8)),
    Malformed("kv_cache", "float16", as_type(np.float16)),
    Malformed("kv_cache", "int32", as_type(np.int32)),
    Malformed("kv_cache", "of rank 2", with_shape(8, 352)),
    Malformed("kv_cache", "of rank 4", with_shape(8, 4, 1, 352)),
    Malformed("kv_cache", "of records of 351", with_width(351)),
    Malformed("kv_cache", "of records of 384", with_width(384)),
    Malformed("kv_cache", "of records of 577", with_width(577)),
    Malformed("kv_cache", "of records of 657", with_width(657)),
    Malformed("kv_cache", "of blocks of no record", with_shape(8, 0, 352)),
    Malformed("kv_cache", "of every other byte", with_inner_stride_two),
    Malformed("kv_cache", "of records that overlap", _records_that_overlap),
    Malformed("kv_cache", "of blocks that overlap", _blocks_that_overlap),
    Malformed("kv_cache", "of a record stride of 0", _record_stride_0),
    Malformed("kv_cache", "of a block stride of 0", _block_stride_0),
    Malformed("kv_cache", "of records that interleave and overlap", _records_that_interleave_and_overlap),
    Malformed("kv_cache", "of records that meet after two and three", _every_third_and_every_second),
    Malformed("slot_mapping", "of rank 0", with_shape()),
    Malformed("slot_mapping", "int16", as_type(np.int16)),
    Malformed("slot_mapping", "int32", as_type(np.int32)),
    Malformed("slot_mapping", "float64", as_type(np.float64)),
    Malformed("slot_mapping", "of rank 2", with_shape(7, 1)),
    Malformed("slot_mapping", "of every other entry", with_inner_stride_two),
    Malformed("scale", "float16", as_type(np.float16)),
    Malformed("scale", "float64", as_type(np.float64)),
    Malformed("scale", "int32", as_type(np.int32)),
    Malformed("scale", "of two elements", _two),
    Malformed("scale", "of no element", _empty),
    Malformed("scale", "of rank 2", with_shape(1, 1)),
)

UNKNOWN_DTYPES = ("nvfp4", "fp8_e5m2fnuz", "NVFP4_DS_MLA", "AUTO", "nvfp4_ds_mla_v2", "auto ", "", None)
MALFORMED_DTYPES = {
    name: Malformed("kv_cache_dtype", repr(name), instead={"kv_cache_dtype": name}) for name in UNKNOWN_DTYPES
}
"""By name, the malformed call with that kv_cache_dtype."""


def good_write(form: str = "nvfp4_ds_mla") -> WriteCase:
    """Seven tokens, one of them skipped."""
    return realize(Slots(7, 4, skipped=1), 1, form)


def must_refuse(judge: Judge, malformed: Malformed, kv_cache_dtype: str) -> None:
    """Raise Differs unless the target refuses, names the argument and writes nothing (WRITE-9).

    In a call of a few tokens, and in one of more whose last token is skipped.
    """
    for case in (good_write(kv_cache_dtype), longer_write(kv_cache_dtype)):
        must_refuse_write_call(judge, malformed, case)


def must_refuse_write_call(judge: Judge, malformed: Malformed, case: WriteCase) -> None:
    """Raise Differs unless the target refuses one malformed call, names the argument and writes nothing.

    `case` is the call before the change.
    """
    judge.need(WRITES[case.kv_cache_dtype])
    kv_cache_dtype = malformed.instead.get("kv_cache_dtype", case.kv_cache_dtype)
    with judge.on(f"malformed {malformed.name}", case):
        must_refuse_write(judge, case, malformed_write(case, malformed), kv_cache_dtype, malformed.argument)
    judge.count.add(0, 0)


def longer_write(form: str) -> WriteCase:
    """Forty tokens in blocks of 16, the last of them skipped."""
    case = realize(Slots(40, 16, skipped=3), 2, form)
    slots = case.slot_mapping.copy()
    slots[-1] = -1
    return replace(case, slot_mapping=slots)


def malformed_write(case: WriteCase, malformed: Malformed) -> dict[str, Placement]:
    """The arrays of a malformed write."""
    placements = place_write(case, POISONS[0])
    if malformed.change:
        placements[malformed.argument] = malformed.change(whole(placements[malformed.argument]))
    return placements


def must_refuse_dtype(judge: Judge, kv_cache_dtype: str | None) -> None:
    """Raise Differs unless the target refuses a kv_cache_dtype of an unknown name."""
    able = [form for form in WRITES if WRITES[form] in judge.target.capabilities]
    case = good_write(next((form for form in able if not judge.target.hindrance(WRITES[form])), "nvfp4_ds_mla"))
    must_refuse_write_call(judge, MALFORMED_DTYPES[kv_cache_dtype], case)
