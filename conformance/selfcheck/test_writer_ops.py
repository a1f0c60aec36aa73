"""The writer of nvfp4_ds_mla records, byte by byte, with expectations worked out by hand."""

import functools
from typing import Any

import numpy as np
import pytest

from kernels.quantization import Quantization
from kernels.writer import Writer

UNTOUCHED = 0xEE
RECORD_BYTES = {"nvfp4_ds_mla": 352, "fp8_ds_mla": 656, "fp8": 576}
NAN, INF = 0x7FC0, 0x7F80
MINUS = 0x8000


@functools.cache
def writer(**quantization: Any) -> Writer:
    return Writer(quantization=Quantization(**quantization))


def bf16(*numbers: float) -> np.ndarray:
    """Encodings of numbers that fit a bf16."""
    bits = np.array(numbers, np.float32).view(np.uint32)
    assert not (bits & 0xFFFF).any()
    return (bits >> 16).astype(np.uint16)


def write_call(kv_cache_dtype: str = "nvfp4_ds_mla", tokens: int = 1) -> dict[str, Any]:
    """So many tokens of zeros, for the first records of two blocks of four; `scale` is 1."""
    width = RECORD_BYTES.get(kv_cache_dtype, 2 * 576)
    cache = np.full((2, 4, width), UNTOUCHED, np.uint8)
    return {
        "kv_c": np.zeros((tokens, 512), np.uint16),
        "k_pe": np.zeros((tokens, 64), np.uint16),
        "kv_cache": cache.view(np.uint16) if kv_cache_dtype == "auto" else cache,
        "slot_mapping": np.arange(tokens, dtype=np.int64),
        "kv_cache_dtype": kv_cache_dtype,
        "scale": np.ones(1, np.float32),
    }


def written(latent: Any, kv_cache_dtype: str = "nvfp4_ds_mla", **quantization: Any) -> np.ndarray:
    """The record of a token whose latent begins with these encodings and is 0 behind them, as is its RoPE key."""
    call = write_call(kv_cache_dtype)
    call["kv_c"][0, : len(latent)] = latent
    writer(**quantization).concat_and_cache_mla(**call)
    return np.asarray(call["kv_cache"][0, 0])


def codes(record: np.ndarray, count: int) -> list[int]:
    """The first codes, from their nibbles."""
    return [int(record[e // 2]) >> 4 * (e % 2) & 0xF for e in range(count)]


def block_written(latent: Any, **quantization: Any) -> tuple[int, list[int]]:
    """Scale byte and codes of latent block 0."""
    record = written(latent, **quantization)
    return int(record[320]), codes(record, len(latent))


@pytest.mark.parametrize(("scale", "byte"), [("nearest", 0x01), ("up", 0x02)])
def test_a_sixth_of_the_amax_becomes_the_scale_byte_that_was_asked_for(scale: str, byte: int) -> None:
    # A sixth of 193 / 2^14 is 1.005 times 2^-9.
    assert block_written(bf16(193 / 2**14), scale=scale)[0] == byte


@pytest.mark.parametrize("scale", ["nearest", "up"])
@pytest.mark.parametrize("byte", [0x01, 0x02, 0x07, 0x08, 0x09, 0x38, 0x3F, 0x7D, 0x7E])
def test_six_times_the_number_of_a_byte_gets_that_byte_rounded_either_way(scale: str, byte: int) -> None:
    exponent, mantissa = byte >> 3, byte & 7
    number = mantissa / 512 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
    assert block_written(bf16(-6 * number), scale=scale) == (byte, [0xF])


@pytest.mark.parametrize(
    ("normalisation", "expected"), [("reciprocal", [7, 7, 5, 3, 0]), ("division", [7, 6, 4, 2, 0])]
)
def test_an_element_is_normalised_as_asked_for_where_the_two_ways_differ(
    normalisation: str, expected: list[int]
) -> None:
    # The scale is 1.875, whose reciprocal is rounded up: ties become a little more than ties.
    block = bf16(11.25, 9.375, 4.6875, 2.34375, 0)
    assert block_written(block, normalisation=normalisation) == (0x3F, expected)


@pytest.mark.parametrize("normalisation", ["reciprocal", "division"])
def test_codes_are_nearest_and_even_on_a_tie(normalisation: str) -> None:
    block = bf16(6, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
    assert block_written(block, normalisation=normalisation) == (0x38, [7, 0, 2, 2, 4, 4, 6, 6])
    negative = bf16(-6, -0.25, -0.75, -1.25, -1.75, -2.5, -3.5, -5.0)
    assert block_written(negative, normalisation=normalisation) == (0x38, [15, 8, 10, 10, 12, 12, 14, 14])
    beside = bf16(6, 0.251953125, 0.74609375, 1.2578125, 1.7421875, 2.515625, 3.484375, 5.03125)
    assert block_written(beside, normalisation=normalisation) == (0x38, [7, 1, 1, 3, 3, 5, 5, 7])


@pytest.mark.parametrize("scale", ["nearest", "up"])
def test_a_block_of_zeros_has_the_smallest_scale_and_keeps_the_signs(scale: str) -> None:
    assert block_written(bf16(0.0, -0.0, 0.0, -0.0), scale=scale) == (0x01, [0, 8, 0, 8])
    assert block_written(np.array([0x0001, 0x8001], np.uint16), scale=scale) == (0x01, [0, 8])  # subnormal


@pytest.mark.parametrize("scale", ["nearest", "up"])
@pytest.mark.parametrize("amax", [2688.0, 2704.0, 2784.0, 2.0**127, float("inf")])
def test_the_scale_ends_at_448_whatever_the_amax(amax: float, scale: str) -> None:
    assert block_written(bf16(amax, 1344, -448), scale=scale) == (0x7E, [7, 5, 10])


def test_a_nan_that_is_ignored_gets_code_7_and_leaves_its_block_alone() -> None:
    assert block_written([NAN, *bf16(6, 1), NAN | MINUS], nan="ignored") == (0x38, [7, 7, 2, 7])
    assert block_written([NAN, NAN | MINUS] * 8, nan="ignored") == (0x01, [7] * 16)
    assert block_written([0x7F81, *bf16(6)], nan="ignored") == (0x38, [7, 7])


def test_a_nan_that_spreads_makes_its_whole_block_nan_and_no_other() -> None:
    record = written([*bf16(6, -1, 0), NAN | MINUS] + [0] * 12 + [*bf16(6)], nan="spreads")
    assert codes(record, 18) == [7] * 17 + [0]
    assert (record[320], record[328]) == (0x7F, 0x38)


@pytest.mark.parametrize("scale", ["nearest", "up"])
def test_the_two_ways_to_take_a_sixth_give_the_same_bytes_for_every_amax(scale: str) -> None:
    caches = []
    for sixth in ("divided", "multiplied"):
        call = write_call(tokens=32640 // 32)
        call["kv_c"][:, ::16] = np.arange(1, 32641).reshape(-1, 32)  # up to the infinity
        call["kv_cache"] = np.zeros((1, 1020, 352), np.uint8)
        writer(sixth=sixth, scale=scale).concat_and_cache_mla(**call)
        caches.append(call["kv_cache"])
    assert np.array_equal(*caches)
    assert len(np.unique(caches[0][..., 320:])) == 0x7E


def test_even_elements_are_low_nibbles_and_odd_ones_high() -> None:
    latent = np.zeros(512, np.uint16)
    latent[[0, 1, 2, 511]] = bf16(6, -0.5, 1, -6)
    record = written(latent)
    assert record[[0, 1, 2, 255]].tolist() == [0x97, 0x02, 0x00, 0xF0]


def test_the_scale_of_block_s_stands_in_byte_320_plus_8_times_its_low_bits_plus_the_rest() -> None:
    latent = np.zeros((32, 16), np.uint16)
    numbers = [(8 + s % 8) * 2.0 ** (s // 8 - 3) for s in range(32)]  # of the bytes 0x38 to 0x57
    latent[:, 3] = bf16(*(6 * number for number in numbers))
    record = written(latent.ravel())
    assert record[320:].reshape(4, 8).tolist() == [[0x38 + 4 * i + j for i in range(8)] for j in range(4)]
    assert record[:256].reshape(32, 8)[:, 1].tolist() == [0x70] * 32


ROPE = {
    "448": (448.0, 0x7E),
    "464, a tie with 480": (464.0, 0x7E),
    "466": (466.0, 0x7E),
    "-2^127": (-(2.0**127), 0xFE),
    "infinity": (float("inf"), 0x7E),
    "-infinity": (float("-inf"), 0xFE),
    "3": (3.0, 0x44),
    "-0": (-0.0, 0x80),
    "2^-9": (2.0**-9, 0x01),
    "2^-10, a tie with 0": (2.0**-10, 0x00),
    "-3 * 2^-10, a tie": (-3 * 2.0**-10, 0x82),
    "0.0625 + 2^-8, a tie": (0.0625 + 2.0**-8, 0x18),
    "0.0625 + 3 * 2^-8, a tie": (0.0625 + 3 * 2.0**-8, 0x1A),
}


def test_rope_bytes_are_e4m3_whatever_the_latent_and_the_scale() -> None:
    call = write_call()
    call["kv_c"][:], call["scale"][0] = bf16(2.0**100), 0.25
    call["k_pe"][0, : len(ROPE) + 2] = [*bf16(*(number for number, _ in ROPE.values())), NAN, NAN | MINUS]
    writer().concat_and_cache_mla(**call)
    rope = call["kv_cache"][0, 0, 256:320].tolist()
    assert dict(zip(ROPE, map(hex, rope), strict=False)) == {name: hex(byte) for name, (_, byte) in ROPE.items()}
    assert rope[len(ROPE) :] == [0x7F, 0x7F] + [0] * (62 - len(ROPE))
