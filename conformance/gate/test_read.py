"""RECORD and READ: closed domains, enumerated, without seq_starts."""

from dataclasses import replace

import numpy as np
import pytest

from conformance.cases import rows_of, the_proof
from conformance.generation import SPECIAL_BYTES, Geometry, realize
from conformance.judge import Judge
from conformance.records import magnitudes, one_hot, uniform_fields


@pytest.mark.clause("RECORD-1", "RECORD-2", "RECORD-3", "RECORD-4", "READ-1", "READ-2", "SCALAR-1", "SCALAR-4")
def test_every_position_latent_byte_scale_byte_and_rope_byte(judge: Judge) -> None:
    judge(the_proof())


@pytest.mark.clause("RECORD-1", "RECORD-2", "RECORD-3", "RECORD-4")
def test_each_byte_of_a_record_alone_lands_where_the_layout_says(judge: Judge) -> None:
    judge(rows_of(one_hot(), "one-hot walk"))


@pytest.mark.clause("RECORD-2", "RECORD-4")
def test_neither_another_order_of_scales_nor_of_nibbles_cancels(judge: Judge) -> None:
    judge(rows_of(magnitudes(), "vllm 50084, 50085, 55976"))


@pytest.mark.clause("RECORD-5")
def test_a_record_reads_alike_whatever_its_neighbours_hold(judge: Judge) -> None:
    case = realize(Geometry(4, (3,), extra_blocks=1), seed=1)
    alike = case.records.copy()
    alike[...] = case.records[case.block_table[0, 0], 0]
    judge.same(judge.rows(replace(case, records=alike))[:1], judge.rows(case)[:1], "one record, two surroundings")


@pytest.mark.clause("READ-3")
def test_zeros_keep_the_sign_of_their_product(judge: Judge) -> None:
    judge(_all_codes_with_scale_bytes(0x00, 0x80, 0x38, 0xB8))


@pytest.mark.clause("READ-4", "READ-6")
def test_a_nan_scale_makes_every_code_nan(judge: Judge) -> None:
    judge(_all_codes_with_scale_bytes(0x7F, 0xFF))


@pytest.mark.clause("READ-5", "READ-6")
def test_a_nan_rope_byte_reads_as_nan(judge: Judge) -> None:
    case = realize(Geometry(4, (8,)), seed=2)
    records = case.records.copy()
    records[..., case.layout.rope.offset : case.layout.rope.end : 2] = 0x7F
    records[..., case.layout.rope.offset + 1 : case.layout.rope.end : 2] = 0xFF
    judge(replace(case, records=records))


@pytest.mark.clause("READ-1", "READ-2")
@pytest.mark.parametrize("scale", [0x01, 0x07, 0x08, 0x38, 0x40, 0x61, 0x77, 0x7E, 0x81, 0x87, 0xB8, 0xFE])
def test_no_product_is_rounded_flushed_or_saturated(judge: Judge, scale: int) -> None:
    judge(_all_codes_with_scale_bytes(scale))


@pytest.mark.clause("READ-1", "READ-2", "READ-3", "READ-4", "READ-5", "READ-6")
def test_records_of_nothing_but_zeros_nan_or_one_number_are_read_as_any_other(judge: Judge) -> None:
    judge(rows_of(uniform_fields([byte for byte, _ in SPECIAL_BYTES]), "uniform fields"))


def _all_codes_with_scale_bytes(*scales: int):  # type: ignore[no-untyped-def]
    case = realize(Geometry(4, (len(scales) * 3,)), seed=3)
    layout, records = case.layout, case.records.copy()
    records[..., layout.latent.offset : layout.latent.end] = np.arange(256)  # every pair of codes
    used = np.flatnonzero(case.used_records.ravel())
    by_record = records.reshape(-1, layout.nbytes)
    for i, record in enumerate(used):
        by_record[record, layout.scales.offset : layout.scales.end] = scales[i % len(scales)]
    return replace(case, records=records)
