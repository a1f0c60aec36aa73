"""Proofs about quantizing: closed domains, whole, against NVIDIA's headers and against the second model."""

from functools import cache
from itertools import product

import numpy as np
import pytest
import torch

from conformance.write_generation import (
    FINITE,
    SPECIAL,
    TIES,
    Slots,
    case_of,
    every_amax,
    every_pair,
    every_rope,
    numbers_of_every_scale,
    realize,
    scale_histogram,
)
from fixtures.placement import POISONS
from fixtures.write_cases import WriteCase
from kernels import scalars
from reference import quantize, torch_writer
from reference.profiles import DEFAULT, PROFILES, Profile
from reference.scalars import E2M1, E4M3, Floats, bf16_from_f32, f32_from_bf16

AMAX = f32_from_bf16(FINITE)
RULES = ["nearest", "up"]


def combinations() -> list[Profile]:
    """Every combination of the profiles' parameters, named by them."""
    values = product(
        ("ignored", "spreads"), ("nearest", "up"), ("reciprocal", "division"), ("arbitrary", "power of two")
    )
    return [
        Profile(
            f"nan {nan}, scale {scale}, {normalisation}, tile {tile}",
            nan=nan,  # type: ignore[arg-type]
            scale=scale,  # type: ignore[arg-type]
            normalisation=normalisation,  # type: ignore[arg-type]
            tile=tile,  # type: ignore[arg-type]
        )
        for nan, scale, normalisation, tile in values
    ]


@cache
def factors(sixth: str) -> Floats:
    return quantize.scale_factors(AMAX, sixth)


def test_every_amax_has_the_scale_byte_that_nvidias_headers_give() -> None:
    nearest = scalars.f32_to_e4m3(factors("divided"))
    assert len(nearest) == 32_640
    assert np.array_equal(quantize.scale_bytes(factors("divided"), "nearest"), nearest)
    # Up, as it was found in production: to nearest, and one more where that is below.
    below = scalars.e4m3_to_f32(nearest) < factors("divided")
    assert np.array_equal(quantize.scale_bytes(factors("divided"), "up"), nearest + (below & (nearest < 0x7E)))


@pytest.mark.parametrize("rule", RULES)
def test_dividing_by_six_and_multiplying_by_a_sixth_never_differ(rule: str) -> None:
    divided, multiplied = (quantize.scale_bytes(factors(sixth), rule) for sixth in ("divided", "multiplied"))
    assert (factors("divided") != factors("multiplied")).sum() > 1000  # the factors do, their bytes never
    assert np.array_equal(divided, multiplied)


def test_up_and_nearest_differ_for_1135_of_all_amax() -> None:
    up, nearest = (quantize.scale_bytes(factors("divided"), rule) for rule in ("up", "nearest"))
    assert (up != nearest).sum() == 1135
    example = bf16_from_f32(np.float32(0.01177978515625)) == FINITE
    assert (nearest[example], up[example]) == (0x01, 0x02)


def test_reciprocal_and_division_differ_for_42_pairs_of_number_and_scale() -> None:
    pairs, differing = 0, []
    for byte, numbers in numbers_of_every_scale("nearest"):
        x, scale = f32_from_bf16(numbers), E4M3.values[byte]
        codes = [quantize.latent_codes(x, scale, how) for how in ("reciprocal", "division")]
        pairs += len(numbers)
        differing += [(byte, float(number / scale)) for number in x[codes[0] != codes[1]]]
    assert (pairs, len(differing)) == (2_105_566, 42)
    assert {ratio for _, ratio in differing} == {1.25, 2.5, 5.0}
    assert {byte & 7 for byte, _ in differing} == {7}


@pytest.mark.parametrize("normalisation", ["reciprocal", "division"])
@pytest.mark.parametrize("rule", RULES)
def test_every_number_has_under_every_scale_the_code_that_nvidias_headers_give(rule: str, normalisation: str) -> None:
    for byte, numbers in numbers_of_every_scale(rule):
        for signed in (numbers, numbers | np.uint16(0x8000)):
            x, scale = f32_from_bf16(signed), E4M3.values[byte]
            with np.errstate(over="ignore"):
                scaled = x / scale if normalisation == "division" else x * (np.float32(1) / scale)
            assert np.array_equal(quantize.latent_codes(x, scale, normalisation), scalars.f32_to_e2m1(scaled))


def test_every_rope_element_has_the_byte_that_nvidias_headers_give() -> None:
    case = every_rope()
    records = quantize.quantize_nvfp4(case.kv_c, case.k_pe, DEFAULT)
    assert np.array_equal(records[:, 256:320], scalars.f32_to_e4m3(f32_from_bf16(case.k_pe)))


def both_models(case: WriteCase, profile: Profile) -> tuple[np.ndarray, np.ndarray]:
    first = case.written(POISONS[0], profile)
    second = torch.from_numpy(case.blank(POISONS[0]).view(np.int16 if case.kv_cache_dtype == "auto" else np.uint8))
    cache = second.view(torch.bfloat16) if case.kv_cache_dtype == "auto" else second
    kv_c, k_pe = (torch.from_numpy(x.view(np.int16)).view(torch.bfloat16) for x in (case.kv_c, case.k_pe))
    scale = torch.tensor([case.scale], dtype=torch.float32)
    torch_writer.concat_and_cache_mla(
        kv_c, k_pe, cache, torch.from_numpy(case.slot_mapping), case.kv_cache_dtype, scale, profile
    )
    return first, second.numpy().view(first.dtype)


@pytest.mark.parametrize("profile", combinations(), ids=lambda profile: profile.name.replace(" ", "-"))
def test_the_two_models_agree_on_every_amax_pair_and_rope_element(profile: Profile) -> None:
    for case in (every_amax(), every_pair(profile), every_rope(), every_amax("fp8_ds_mla")):
        first, second = both_models(case, profile)
        assert np.array_equal(first, second), case


@pytest.mark.parametrize("form", ["nvfp4_ds_mla", "fp8_ds_mla", "auto", "fp8"])
@pytest.mark.parametrize("name", PROFILES)
def test_the_two_models_agree_on_any_bits(name: str, form: str) -> None:
    for seed in range(3):
        first, second = both_models(realize(Slots(200, 16, skipped=11), seed, form), PROFILES[name])
        assert np.array_equal(first, second)


def test_the_triton_profile_writes_what_the_release_writes() -> None:
    for case in (every_amax(), every_pair(DEFAULT), realize(Slots(400), 1)):
        release, triton = (case.written(POISONS[0], PROFILES[name]) for name in ("vllm-0.33", "vllm-triton"))
        assert np.array_equal(release, triton)


@pytest.mark.parametrize(
    "pair", [("vllm-0.33", "vllm-03b60164"), ("vllm-0.33", "flashmla"), ("flashmla", "vllm-03b60164")]
)
def test_two_writers_of_one_cache_that_disagree_are_told_apart(pair: tuple[str, str]) -> None:
    case = realize(Slots(40), 2)
    assert (case.written(POISONS[0], PROFILES[pair[0]]) != case.written(POISONS[0], PROFILES[pair[1]])).any()


def test_mixed_numbers_reach_every_scale_byte_and_every_tie() -> None:
    case = realize(Slots(400), 1)
    assert (scale_histogram(case, DEFAULT)[0x01:0x7F] > 0).all()
    records = quantize.quantize_nvfp4(case.kv_c, case.k_pe, DEFAULT)
    bytes_ = records[:, 320:].reshape(-1, 4, 8).transpose(0, 2, 1).reshape(-1, 32)  # RECORD-4, by hand
    with np.errstate(invalid="ignore"):
        scaled = np.abs(f32_from_bf16(case.kv_c).reshape(-1, 32, 16)) / E4M3.values[bytes_][..., None]
    assert all((scaled == tie).sum() > 20 for tie in TIES)
    assert set(SPECIAL) <= set(case.kv_c.ravel().tolist())


def test_gaussian_numbers_reach_less_than_a_quarter_of_the_scale_bytes() -> None:
    normal = np.random.default_rng(0).normal(size=(4000, 512)).astype(np.float32)
    case = case_of(bf16_from_f32(normal), np.zeros((4000, 64), np.uint16), 0, "N(0, 1)")
    assert (scale_histogram(case, DEFAULT) > 0).sum() < 30


def test_every_scale_byte_is_due_for_some_amax_and_no_other() -> None:
    for rule in RULES:
        assert set(quantize.scale_bytes(factors("divided"), rule)) == set(range(0x01, 0x7F))


def test_the_encoders_ties_are_those_of_e2m1() -> None:
    assert TIES == (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
    assert E2M1.encode(np.array(TIES, np.float32)).tolist() == [0, 2, 2, 4, 4, 6, 6]
