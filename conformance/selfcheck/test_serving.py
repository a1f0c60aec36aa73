"""The model of SERVE: every configuration of a closed domain, and what a refusal says."""

from collections import Counter
from itertools import product

import pytest

from conformance.serving import RIGHT, RULES, STARTS, says_what_to_change
from reference.serving import GATHERS, Serving, check_startup, gathers_for, refusals

DOMAIN = [
    Serving(*values)
    for values in product(
        ("nvfp4_ds_mla", "fp8_ds_mla", "auto", "bfloat16", "fp8", "fp8_e4m3", "nvfp4", "int8_per_token_head"),
        (True, False),
        (512, 448, 256),
        (64, 128, 0),
        ("FLASHMLA_SPARSE", "FLASHINFER_MLA_SPARSE", "FLASHMLA", "TRITON_MLA"),
        ((8, 0), (9, 0), (10, 0), (10, 3), (12, 0)),
        (1, 2, 8),
    )
]

OPERATORS = {
    "nvfp4_ds_mla": {"cp_gather_and_upconvert_nvfp4_kv_cache"},
    "fp8_ds_mla": {"cp_gather_and_upconvert_fp8_kv_cache"},
    "auto": {"gather_and_maybe_dequant_cache", "cp_gather_cache"},
    "bfloat16": {"gather_and_maybe_dequant_cache", "cp_gather_cache"},
    "fp8": {"gather_and_maybe_dequant_cache"},
    "fp8_e4m3": {"gather_and_maybe_dequant_cache"},
}
"""SPEC.md's table, copied out by hand."""


def starts(config: Serving) -> bool:
    try:
        check_startup(config)
    except ValueError:
        return False
    return True


def test_of_all_configurations_of_nvfp4_ds_mla_those_of_capability_10_start() -> None:
    found = [config for config in DOMAIN if config.kv_cache_dtype == "nvfp4_ds_mla" and starts(config)]
    assert len(DOMAIN) == 8_640
    assert found == [Serving(compute_capability=(10, minor)) for minor in (0, 3)]


def test_the_other_formats_of_the_table_always_start_and_no_others_do_with_mla() -> None:
    others = [config for config in DOMAIN if config.kv_cache_dtype != "nvfp4_ds_mla"]
    started = Counter((config.kv_cache_dtype, config.uses_mla) for config in others if starts(config))
    assert set(started.values()) == {540}
    assert set(started) == {*product(set(OPERATORS) - {"nvfp4_ds_mla"}, (True, False))} | {
        ("nvfp4", False),
        ("int8_per_token_head", False),
    }


def test_a_refusal_names_the_option_what_was_found_and_what_is_allowed() -> None:
    for config in DOMAIN:
        for refusal in refusals(config):
            text = str(refusal)
            assert f"{refusal.option} is {refusal.found}" in text and "--kv-cache-dtype" in text
            assert refusal.allowed and all(value in text for value in refusal.allowed)
            if not refusal.found.startswith(config.kv_cache_dtype):
                assert any(refusal.found == found for found in figures(config))


def figures(config: Serving) -> tuple[str, ...]:
    return (
        f"({config.kv_lora_rank}, {config.qk_rope_head_dim})",
        config.attention_backend,
        f"{config.compute_capability[0]}.{config.compute_capability[1]}",
        f"{config.decode_context_parallel_size}",
    )


def test_all_that_is_wrong_is_said_at_once() -> None:
    config = Serving("nvfp4_ds_mla", True, 256, 0, "TRITON_MLA", (9, 0), 2)
    with pytest.raises(ValueError, match=r"(?s)\(256, 0\).*TRITON_MLA.*9\.0.*parallel-size is 2") as error:
        check_startup(config)
    assert len(str(error.value).splitlines()) == 4


def test_each_case_of_a_rule_breaks_that_rule_alone_and_its_message_passes() -> None:
    for clause, rule in RULES.items():
        for config in rule.configs:
            (refusal,) = refusals(config)
            assert refusal.clause == clause
            assert not says_what_to_change(clause, str(refusal))
    assert {"SERVE-3", "SERVE-4", "SERVE-5", "SERVE-6", "SERVE-7", "SERVE-8"} == set(RULES)
    assert RIGHT in STARTS and all(map(starts, STARTS))


@pytest.mark.parametrize("message", ["", "no", "head_size not supported", "smaller is 10000"])
@pytest.mark.parametrize("clause", RULES)
def test_a_message_that_names_nothing_does_not_pass(clause: str, message: str) -> None:
    assert says_what_to_change(clause, message)


def test_the_gathers_are_those_of_the_table() -> None:
    assert {dtype: set(gathers_for(dtype)) for dtype in GATHERS} == OPERATORS
    assert {dtype: gathers_for(dtype, "fp8") for dtype in ("fp8", "fp8_e4m3")} == {
        "fp8": ("cp_gather_cache",),
        "fp8_e4m3": ("cp_gather_cache",),
    }


@pytest.mark.parametrize(("dtype", "workspace"), [("nvfp4", "bf16"), ("nvfp4_ds_mla", "fp8"), ("auto", "fp8")])
def test_what_no_gather_does_is_refused_with_what_was_asked(dtype: str, workspace: str) -> None:
    with pytest.raises(ValueError, match=dtype):
        gathers_for(dtype, workspace)
