"""SERVE-3 to SERVE-10: each faulty startup is seen."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from conformance.contexts import Context, GatherCall
from conformance.selfcheck.servers import Server, Starting, red, startups
from conformance.targets.base import Target
from reference.serving import GATHERS, Serving, check_startup, refusals


def accepting(**changes: object) -> Starting:
    """A server that does not look at some of the options."""
    return Starting(lambda config: check_startup(replace(config, **changes)))  # type: ignore[arg-type]


def wordless(config: Serving) -> None:
    try:
        check_startup(config)
    except ValueError:
        raise ValueError("head_size not supported") from None


def hopper_too(config: Serving) -> None:
    major = 10 if config.compute_capability[0] == 9 else config.compute_capability[0]
    check_startup(replace(config, compute_capability=(major, 0)))


def only_the_sum(config: Serving) -> None:
    right = config.kv_lora_rank + config.qk_rope_head_dim == 576
    check_startup(replace(config, kv_lora_rank=512, qk_rope_head_dim=64) if right else config)


def never(config: Serving) -> None:
    raise RuntimeError("no")


def wherever(where: Callable[[Serving], bool], otherwise: Callable[[Serving], object] = lambda _: None) -> Starting:
    """A server that does something else than it should with some configurations; as a rule it starts."""
    return Starting(lambda config: otherwise(config) if where(config) else check_startup(config))


def having(**values: object) -> Callable[[Serving], bool]:
    return lambda config: all(getattr(config, name) == value for name, value in values.items())


def one_at_most(config: Serving) -> None:
    """Refuses what breaks one rule alone."""
    if len([*refusals(config)]) < 2:
        check_startup(config)


def nvfp4(config: Serving) -> bool:
    return config.kv_cache_dtype == "nvfp4_ds_mla"


STARTUPS = {
    "accepts decode context parallelism": (accepting(decode_context_parallel_size=1), {"SERVE-7"}),
    "accepts every head size": (accepting(kv_lora_rank=512, qk_rope_head_dim=64), {"SERVE-4"}),
    "accepts every head size of 576": (Starting(only_the_sum), {"SERVE-4"}),
    "accepts every backend": (accepting(attention_backend="FLASHMLA_SPARSE"), {"SERVE-5"}),
    "accepts capability 9.0": (Starting(hopper_too), {"SERVE-6"}),
    "accepts models without MLA": (wherever(lambda c: not c.uses_mla), {"SERVE-3"}),
    "accepts plain nvfp4": (wherever(lambda c: c.uses_mla and c.kv_cache_dtype == "nvfp4"), {"SERVE-8"}),
    "a message that names nothing": (Starting(wordless), {"SERVE-9"}),
    "refuses everything": (Starting(never), {"SERVE-9", "SERVE-10"}),
    "capability 10.3 refused": (wherever(having(compute_capability=(10, 3)), never), {"SERVE-10"}),
    "capability 10.1 refused": (wherever(having(compute_capability=(10, 1)), never), {"SERVE-10"}),
    "accepts a rank above 512": (wherever(having(kv_lora_rank=1024)), {"SERVE-4"}),
    "accepts (576, 0)": (wherever(having(kv_lora_rank=576)), {"SERVE-4"}),
    "accepts a RoPE of 32": (wherever(having(qk_rope_head_dim=32)), {"SERVE-4"}),
    **{
        f"accepts {name}": (wherever(having(kv_cache_dtype="nvfp4_ds_mla", attention_backend=name)), {"SERVE-5"})
        for name in ("CUTLASS_MLA", "FLASHINFER_MLA", "FLASH_ATTN_MLA", "FLASHMLA", "FLASHINFER_MLA_SPARSE")
    },
    **{
        f"accepts capability {found}": (wherever(having(compute_capability=found)), {"SERVE-6"})
        for found in ((11, 0), (12, 0), (12, 1), (13, 0))
    },
    **{
        f"accepts {ranks} ranks": (
            wherever(having(kv_cache_dtype="nvfp4_ds_mla", decode_context_parallel_size=ranks)),
            {"SERVE-7"} if ranks > 2 else {"SERVE-6", "SERVE-7"},
        )
        for ranks in (2, 3, 4, 8)
    },
    **{
        f"accepts {dtype} with MLA": (wherever(having(uses_mla=True, kv_cache_dtype=dtype)), {"SERVE-8"})
        for dtype in ("nvfp4_4over6", "int8_per_token_head", "fp8_e5m2", "fp8_inc")
    },
    **{
        f"refuses {dtype} with MLA": (wherever(having(uses_mla=True, kv_cache_dtype=dtype), never), {"SERVE-10"})
        for dtype in GATHERS
        if dtype != "nvfp4_ds_mla"
    },
    **{
        f"refuses {dtype} without MLA": (wherever(having(uses_mla=False, kv_cache_dtype=dtype), never), {"SERVE-10"})
        for dtype in ("auto", "fp8", "int8_per_token_head")
    },
    "every backend but one refused, for all": (
        wherever(lambda c: c.attention_backend == "TRITON_MLA" and not nvfp4(c), never),
        {"SERVE-10"},
    ),
    "another geometry refused for all": (
        wherever(lambda c: c.kv_lora_rank == 256 and not nvfp4(c), never),
        {"SERVE-10"},
    ),
    "another capability refused for fp8_ds_mla": (
        wherever(lambda c: c.compute_capability == (9, 0) and c.kv_cache_dtype == "fp8_ds_mla", never),
        {"SERVE-10"},
    ),
    "decode context parallelism refused for auto": (
        wherever(lambda c: c.decode_context_parallel_size > 1 and c.kv_cache_dtype == "auto", never),
        {"SERVE-10"},
    ),
    "accepts no MLA where there is no rank": (wherever(lambda c: c.kv_lora_rank == 0), {"SERVE-3"}),
    "accepts what breaks two rules": (Starting(one_at_most), {"SERVE-5", "SERVE-6"}),
}


@pytest.mark.parametrize(("server", "clauses"), STARTUPS.values(), ids=STARTUPS)
def test_a_faulty_startup_is_seen_under_its_clause_alone(server: Target, clauses: set[str]) -> None:
    assert red(server, startups()) == clauses


def test_a_refusal_on_the_first_request_with_context_is_none_at_startup() -> None:
    class Late(Server):
        def start(self, config: Serving) -> None:
            self.config = config

        def context_gathers(self, site: str, kv_cache_dtype: str, case: Context) -> Sequence[GatherCall] | None:
            check_startup(self.config)
            return super().context_gathers(site, kv_cache_dtype, case)

    assert red(Late(), startups()) >= {"SERVE-3", "SERVE-4", "SERVE-5", "SERVE-6", "SERVE-7", "SERVE-8"}
