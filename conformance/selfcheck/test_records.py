"""RECORD and READ: the golden models against arithmetic written out here, and layouts as data."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from conformance.records import every_triple, magnitudes, one_hot
from kernels import layout as kernel_layout
from reference import torch_model
from reference.reading import read_records
from reference.records import NVFP4_DS_MLA, Field, RecordLayout, transposed
from reference.scalars import E2M1, E4M3, f32_from_bf16

LAYOUT = NVFP4_DS_MLA
E2M1_VALUES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]


def values(records: np.ndarray) -> np.ndarray:
    return f32_from_bf16(read_records(LAYOUT, records))


def by_torch(records: np.ndarray) -> np.ndarray:
    return np.asarray(torch_model.decode_records(torch.from_numpy(records)).view(torch.int16)).view(np.uint16)


def e4m3(byte: int) -> float:
    """SCALAR-4, written out."""
    sign, exponent, mantissa = -1.0 if byte & 0x80 else 1.0, byte >> 3 & 15, byte & 7
    if byte & 0x7F == 0x7F:
        return float("nan")
    return sign * (mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10))


@pytest.mark.clause("RECORD-1")
def test_the_fields_abut_and_fill_the_record() -> None:
    assert (LAYOUT.latent.offset, LAYOUT.latent.end) == (0, 256)
    assert (LAYOUT.rope.offset, LAYOUT.rope.end) == (256, 320)
    assert (LAYOUT.scales.offset, LAYOUT.scales.end, LAYOUT.nbytes) == (320, 352, 352)


@pytest.mark.clause("RECORD-4")
def test_the_scale_of_every_block_is_where_the_clause_says() -> None:
    where = [LAYOUT.scales.byte_of(block) for block in range(32)]
    assert where == [320 + 8 * (block & 3) + (block >> 2) for block in range(32)]
    assert sorted(where) == list(range(320, 352))
    # The same the other way round.
    assert all(where[4 * (p & 7) + (p >> 3)] == 320 + p for p in range(32))


@pytest.mark.clause("RECORD-1", "RECORD-2", "RECORD-3", "RECORD-4")
@pytest.mark.parametrize("byte", range(352))
def test_a_byte_set_alone_changes_only_the_elements_made_of_it(byte: int) -> None:
    expected = np.ones(576, np.float32)
    if byte < 256:
        expected[2 * byte], expected[2 * byte + 1] = 2, 4  # codes 4 and 6
    elif byte < 320:
        expected[512 + byte - 256] = 2
    else:
        block = 4 * ((byte - 320) & 7) + ((byte - 320) >> 3)
        expected[16 * block : 16 * block + 16] = 2
    assert (values(one_hot()[byte : byte + 1])[0] == expected).all()


@pytest.mark.clause("RECORD-2", "RECORD-4", "READ-1", "READ-2", "READ-3")
def test_a_record_reads_as_its_clauses_say_element_by_element() -> None:
    records = np.random.default_rng(1).integers(0, 256, (20, 352), dtype=np.uint8)
    for record, row in zip(records, values(records), strict=True):
        for element in range(512):
            code = record[element // 2] >> 4 * (element % 2) & 15
            block = element // 16
            product = E2M1_VALUES[code] * e4m3(int(record[320 + 8 * (block & 3) + (block >> 2)]))
            assert repr(product) == repr(float(row[element]))  # which tells -0.0 from 0.0
        assert [repr(e4m3(int(byte))) for byte in record[256:320]] == [repr(float(x)) for x in row[512:]]


@pytest.mark.clause("READ-4", "READ-5", "READ-6")
@pytest.mark.parametrize("nan", [0x7F, 0xFF])
def test_a_nan_byte_reads_as_the_one_nan_encoding(nan: int) -> None:
    record = np.arange(352, dtype=np.uint16).astype(np.uint8)[None]
    record[0, 256:] = nan
    assert set(read_records(LAYOUT, record).ravel().tolist()) == {0x7FFF}
    assert set(by_torch(record).ravel().tolist()) == {0x7FFF}


@pytest.mark.clause("READ-1", "READ-2", "READ-6")
def test_both_models_read_every_triple_alike() -> None:
    records = every_triple()
    assert (read_records(LAYOUT, records) == by_torch(records)).all()


def test_the_proof_holds_every_byte_and_scale_at_every_position_and_every_rope_byte() -> None:
    records = every_triple()
    for position in range(256):
        scale = records[:, LAYOUT.scales.byte_of(position // 8)].astype(np.int64)
        assert len(np.unique(scale * 256 + records[:, position])) == 65_536
    assert all(len(np.unique(records[:, position])) == 256 for position in range(256, 320))


def test_no_other_order_of_scales_or_nibbles_reads_the_magnitudes_alike() -> None:
    right = read_records(LAYOUT, magnitudes())
    for order in ((), transposed(4, 8), tuple(reversed(range(32)))):
        wrong = replace(LAYOUT, scales=replace(LAYOUT.scales, order=order))
        assert (read_records(wrong, magnitudes()) != right).any()


def test_a_layout_is_data() -> None:
    other = RecordLayout(
        name="other",
        producer="nobody",
        scales=Field("scale", 0, 8, E4M3),
        rope=Field("RoPE", 8, 32, E4M3),
        latent=Field("latent", 40, 128, E2M1, per_byte=2),
    )
    record = np.zeros((1, other.nbytes), np.uint8)
    record[0, 0:8] = [0x30 + 8 * block for block in range(8)]  # 0.5, 1, 2, ... 64
    record[0, 40:104] = 0x52  # codes 2 and 5: 1 and 3
    row = f32_from_bf16(read_records(other, record))[0]
    assert other.nbytes == 104 and other.row == 160
    assert (row[:128].reshape(8, 8, 2) == 2.0 ** np.arange(-1, 7)[:, None, None] * np.array([1, 3])).all()


def test_the_kernels_are_built_for_the_layout_of_the_model() -> None:
    kernel = kernel_layout.NVFP4_DS_MLA
    assert (kernel.latent_offset, kernel.kv_lora_rank) == (LAYOUT.latent.offset, LAYOUT.latent.count)
    assert (kernel.rope_offset, kernel.qk_rope_head_dim) == (LAYOUT.rope.offset, LAYOUT.rope.count)
    assert (kernel.scale_offset, kernel.scale_block) == (LAYOUT.scales.offset, LAYOUT.block)
    assert (kernel.record_bytes, kernel.row_elements) == (LAYOUT.nbytes, LAYOUT.row)
