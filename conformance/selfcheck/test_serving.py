"""The model of SERVE: every configuration of a closed domain, and what a refusal says."""

from collections import Counter
from itertools import product

import pytest

from conformance.startups import RIGHT, RULES, STARTS
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
            assert not rule.missing(str(refusal), config)
        for config in rule.also:
            assert clause in {refusal.clause for refusal in refusals(config)}
    assert {"SERVE-3", "SERVE-4", "SERVE-5", "SERVE-6", "SERVE-7", "SERVE-8"} == set(RULES)
    assert RIGHT in STARTS and all(map(starts, STARTS))


@pytest.mark.parametrize("message", ["", "no", "head_size not supported", "smaller is 10000"])
@pytest.mark.parametrize("clause", RULES)
def test_a_message_that_names_nothing_does_not_pass(clause: str, message: str) -> None:
    assert all(RULES[clause].missing(message, config) for config in RULES[clause].configs)


NO_HELP = [
    ("SERVE-3", "kv cache dtype: rejected automatically for models without MLA"),
    ("SERVE-4", "kv_cache_dtype: kv_lora_rank 512 and qk_rope_head_dim 32 are not supported"),
    ("SERVE-4", "kv_cache_dtype: head_size 576 not supported"),
    ("SERVE-4", "kv_cache_dtype: kv_lora_rank must be 5120"),
    ("SERVE-5", "kv_cache_dtype nvfp4_ds_mla (not fp8_ds_mla) does not go with the backend TRITON_MLA"),
    ("SERVE-5", "kv_cache_dtype: backend unsupported, autotuner off"),
    ("SERVE-5", "kv_cache_dtype: the backend FLASHMLA is none"),
    ("SERVE-6", "kv_cache_dtype: compute capability must be below 10"),
    ("SERVE-6", "kv_cache_dtype: device too small, 1024 SMs"),
    ("SERVE-7", "rank 1 : kv_cache_dtype does not go with decode_context_parallel_size 2"),
    ("SERVE-8", "nvfp4 KV cache is not for MLA, as fp8_e5m2 is not"),
    ("SERVE-8", "kv_cache_dtype: nvfp4 is not for MLA"),
    ("SERVE-3", "kv_cache_dtype=nvfp4_ds_mla, dtype=torch.bfloat16, use_mla=False: kv_cache_dtype not supported"),
]


@pytest.mark.parametrize(("clause", "message"), NO_HELP)
def test_a_message_that_is_no_help_does_not_pass(clause: str, message: str) -> None:
    assert all(RULES[clause].missing(message, config) for config in RULES[clause].configs)


HELP = [
    ("SERVE-3", "nvfp4_ds_mla is for MLA models only; please set --kv-cache-dtype to auto"),
    ("SERVE-4", "--kv-cache-dtype nvfp4_ds_mla needs kv_lora_rank=512 and qk_rope_head_dim=64"),
    # vLLM 0.32.0, of (512, 0): it names a kv_cache_dtype that goes with this head size, if on another device.
    ("SERVE-4", "supports head_size 512 only with bf16 or fp8_ds_mla kv-cache, got kv_cache_dtype=nvfp4_ds_mla"),
    ("SERVE-5", "backend X does not support kv_cache_dtype nvfp4_ds_mla; use FLASHMLA_SPARSE"),
    ("SERVE-6", "FLASHMLA_SPARSE only supports the nvfp4_ds_mla kv-cache dtype on SM100 (Blackwell)"),
    ("SERVE-6", "kv_cache_dtype nvfp4_ds_mla requires compute capability 10.x, found another"),
    ("SERVE-7", "kv_cache_dtype nvfp4_ds_mla needs decode_context_parallel_size=1"),
    ("SERVE-7", "DCP requires an fp8_ds_mla kv-cache; --kv-cache-dtype is nvfp4_ds_mla"),
    ("SERVE-8", "not supported with MLA (Multi-head Latent Attention). Use a different --kv-cache-dtype (e.g., 'fp8')"),
]


@pytest.mark.parametrize(("clause", "message"), HELP)
def test_a_message_that_is_of_help_passes(clause: str, message: str) -> None:
    for config in RULES[clause].configs:
        assert not RULES[clause].missing(message, config)


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
