"""The writers of fp8_ds_mla, "auto" and "fp8" records, byte by byte, with expectations worked out by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from conformance.selfcheck.test_writer_ops import INF, MINUS, NAN, bf16, write_call, writer, written


def scales(record: np.ndarray) -> list[float]:
    return [float(scale) for scale in record[512:528].view("<f4")]


@pytest.mark.parametrize(
    ("tile", "scale", "latent"), [("arbitrary", 0.75, [0x7E, 0xF1, 0x40]), ("power of two", 1.0, [0x7A, 0xEE, 0x3C])]
)
def test_a_tile_with_amax_336_has_scale_three_quarters_or_one(tile: str, scale: float, latent: list[int]) -> None:
    record = written(bf16(336, -108, 1.5), "fp8_ds_mla", tile=tile)
    assert scales(record)[0] == scale
    assert record[:4].tolist() == [*latent, 0]


def test_every_tile_of_128_has_its_own_scale_and_its_zeros_their_signs() -> None:
    latent = np.full(512, MINUS, np.uint16)
    latent[[127, 128, 383, 511]] = bf16(448, -896, 1792, 3584)
    record = written(latent, "fp8_ds_mla")
    assert scales(record) == [1.0, 2.0, 4.0, 8.0]
    expected = np.full(512, 0x80)
    expected[[127, 128, 383, 511]] = [0x7E, 0xFE, 0x7E, 0x7E]
    assert record[:512].tolist() == expected.tolist()


@pytest.mark.parametrize(("tile", "scale"), [("arbitrary", 2.0**-126), ("power of two", 2.0**-13)])
def test_a_tile_of_zeros_has_the_smallest_scale_there_is(tile: str, scale: float) -> None:
    record = written([0, MINUS], "fp8_ds_mla", tile=tile)
    assert scales(record) == [scale] * 4
    assert record[:3].tolist() == [0x00, 0x80, 0x00]


@pytest.mark.parametrize(
    ("amax", "scale"),
    [
        (0.03125, 2.0**-13),
        (448 * 2.0**-13, 2.0**-13),
        (450 * 2.0**-13, 2.0**-12),
        (448.0, 1.0),
        (450.0, 2.0),
        (896.0, 2.0),
        (448 * 2.0**100, 2.0**100),
        (450 * 2.0**100, 2.0**101),
    ],
)
def test_a_power_of_two_is_the_smallest_that_is_not_below(amax: float, scale: float) -> None:
    assert scales(written(bf16(-amax), "fp8_ds_mla", tile="power of two"))[0] == scale


def test_subnormal_elements_and_the_smallest_normal_scale_are_kept() -> None:
    latent = np.array([0x0001, 0x8003, 0x0040], np.uint16)  # 2^-133, -3 * 2^-133, 2^-127
    record = written(latent, "fp8_ds_mla", tile="arbitrary")
    assert scales(record)[0] == 2.0**-126
    assert record[:3].tolist() == [0x04, 0x8C, 0x30]  # 2^-7, -3 * 2^-7, 2^-1


def test_a_process_that_flushes_subnormals_gets_the_same_bytes() -> None:
    if not torch.set_flush_denormal(True):
        pytest.skip("torch cannot flush subnormals on this processor")
    try:
        record = written(np.array([0x0001], np.uint16), "fp8_ds_mla", tile="arbitrary")
        assert float(torch.tensor([2.0**-127]) * 2) == 0.0, "the caller's own setting is left as it was"
    finally:
        torch.set_flush_denormal(False)
    assert record[0] == 0x04


def test_an_element_is_divided_by_the_scale_of_its_tile_and_not_multiplied_by_a_reciprocal() -> None:
    # 1.3671875 / 7 is a tie, which the rounded reciprocal of 7 misses.
    record = written(bf16(7 * 448, 1.3671875), "fp8_ds_mla", tile="arbitrary")
    assert scales(record)[0] == 7.0
    assert record[:2].tolist() == [0x7E, 0x24]


@pytest.mark.parametrize("tile", ["arbitrary", "power of two"])
def test_a_nan_that_spreads_makes_its_whole_tile_nan_and_one_that_is_ignored_itself(tile: str) -> None:
    latent = [*bf16(448, 2), NAN | MINUS, 0] * 33
    spread = written(latent, "fp8_ds_mla", nan="spreads", tile=tile)
    assert np.isnan(scales(spread)).tolist() == [True, True, False, False]
    assert (spread[:256] == 0x7F).all()
    assert not spread[256:512].any()
    ignored = written(latent, "fp8_ds_mla", nan="ignored", tile=tile)
    assert scales(ignored)[:2] == [1.0, 1.0]
    assert ignored[:5].tolist() == [0x7E, 0x40, 0x7F, 0x00, 0x7E]


@pytest.mark.parametrize("nan", ["ignored", "spreads"])
def test_a_tile_without_a_nan_is_the_same_however_a_nan_is_taken(nan: str) -> None:
    record = written(bf16(336, 1), "fp8_ds_mla", nan=nan)
    assert (scales(record)[0], record[1]) == (1.0, 0x38)


def test_the_rope_key_of_fp8_ds_mla_is_copied_behind_the_scales_and_scale_is_not_used() -> None:
    call = write_call("fp8_ds_mla")
    call["k_pe"][0] = [NAN | 1, 0x7F81, 0xFFC5, INF, MINUS, 0x0001] + [0x1234] * 58
    call["scale"][0] = 0.25
    writer().concat_and_cache_mla(**call)
    assert call["kv_cache"][0, 0, 528:].view("<u2").tolist() == call["k_pe"][0].tolist()
    assert not call["kv_cache"][0, 0, :512].any()


def test_auto_copies_both_rows_bit_for_bit_with_the_payloads_of_nans() -> None:
    call = write_call("auto")
    call["kv_c"][0] = np.arange(512) + 0x7F70
    call["k_pe"][0] = np.arange(64) + 0xFFC0
    call["scale"][0] = 0.25
    writer().concat_and_cache_mla(**call)
    assert call["kv_cache"][0, 0].tolist() == [*range(0x7F70, 0x8170), *range(0xFFC0, 0x10000)]


def test_fp8_divides_by_the_scale_that_lies_in_memory_and_saturates() -> None:
    call = write_call("fp8")
    call["kv_c"][0, :5] = [*bf16(1, -0.0, 300, -(2.0**127)), NAN | MINUS]
    call["k_pe"][0, [0, 1, 63]] = [*bf16(1.5, 224), INF]
    call["scale"][0] = 0.5
    writer().concat_and_cache_mla(**call)
    record = call["kv_cache"][0, 0]
    assert record[:6].tolist() == [0x40, 0x80, 0x7E, 0xFE, 0x7F, 0x00]
    assert record[[512, 513, 575]].tolist() == [0x44, 0x7E, 0x7E]
    call["scale"][0] = 7
    call["kv_c"][0, 511] = bf16(1.3671875)[0]
    writer().concat_and_cache_mla(**call)
    assert (record[511], record[512]) == (0x24, 0x26)  # not a product with the reciprocal: 0x25


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
def test_the_scale_may_be_an_array_without_dimensions(convert: Callable[[Any], Any]) -> None:
    call = write_call("fp8")
    call["k_pe"][:], call["scale"] = bf16(3), convert(np.full((), 1.5, np.float32))
    writer().concat_and_cache_mla(**call)
    assert (call["kv_cache"][0, 0, 512:] == 0x40).all()


def test_fp8_keeps_subnormals_of_elements_and_of_the_scale() -> None:
    call = write_call("fp8")
    call["kv_c"][0, :2] = [0x0001, 0x8002]
    call["scale"][0] = 2.0**-133
    writer().concat_and_cache_mla(**call)
    assert call["kv_cache"][0, 0, :2].tolist() == [0x38, 0xC0]
