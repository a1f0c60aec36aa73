"""Servers that start, or refuse to, with the wrong configurations, in one way each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from conformance.faults.defect import Defect
from conformance.faults.servers import Server
from conformance.targets.base import SERVE_DISPATCH, SERVE_STARTUP
from fixtures.serve_cases import Context, GatherCall
from reference.serving import GATHERS, Serving, check_startup, refusals


class Starting(Server):
    """A server that starts, or refuses, otherwise."""

    capabilities: ClassVar[frozenset[str]] = frozenset({SERVE_STARTUP})

    def __init__(self, otherwise: Callable[[Serving], object]) -> None:
        """`otherwise` raises to refuse."""
        self.otherwise = otherwise

    def start(self, config: Serving) -> None:
        """See Target."""
        self.otherwise(config)


class Late(Server):
    """A server that looks at its configuration when the first context comes."""

    capabilities: ClassVar[frozenset[str]] = frozenset({SERVE_DISPATCH, SERVE_STARTUP})

    def __init__(self) -> None:
        """Not started."""
        self.config = Serving()

    def start(self, config: Serving) -> None:
        """See Target."""
        self.config = config

    def context_gathers(self, site: str, kv_cache_dtype: str, case: Context) -> Sequence[GatherCall] | None:
        """See Target."""
        check_startup(replace(self.config, kv_cache_dtype=kv_cache_dtype))
        return super().context_gathers(site, kv_cache_dtype, case)


Otherwise = Callable[[Serving], object]


def accepting(**changes: object) -> Otherwise:
    """Does not look at some of the options."""
    return lambda config: check_startup(replace(config, **changes))  # type: ignore[arg-type]


def having(**values: object) -> Callable[[Serving], bool]:
    """A configuration with these values."""
    return lambda config: all(getattr(config, name) == value for name, value in values.items())


def wherever(where: Callable[[Serving], bool], otherwise: Otherwise = lambda config: None) -> Otherwise:
    """Does something else than it should with some configurations; as a rule it starts."""
    return lambda config: otherwise(config) if where(config) else check_startup(config)


def never(config: Serving) -> None:
    """Refuses, and says nothing."""
    raise RuntimeError("no")


def saying(message: str) -> Otherwise:
    """Refuses what it should, with one message for all."""

    def start(config: Serving) -> None:
        if any(refusals(config)):
            raise ValueError(message)

    return start


def hopper_too(config: Serving) -> None:
    """Takes 9.x for 10.x."""
    major = 10 if config.compute_capability[0] == 9 else config.compute_capability[0]
    check_startup(replace(config, compute_capability=(major, 0)))


def newer_too(config: Serving) -> None:
    """Takes what is above 10.x for it."""
    check_startup(replace(config, compute_capability=(min(config.compute_capability[0], 10), 0)))


def sparse_too(config: Serving) -> None:
    """Takes one sparse backend for another."""
    sparse = config.attention_backend.endswith("_SPARSE")
    check_startup(replace(config, attention_backend="FLASHMLA_SPARSE") if sparse else config)


def for_all_caches(config: Serving) -> None:
    """Holds the rules of one kv_cache_dtype against all that a gather reads."""
    read = config.uses_mla and config.kv_cache_dtype in GATHERS
    check_startup(replace(config, kv_cache_dtype="nvfp4_ds_mla") if read else config)


def only_the_sum(config: Serving) -> None:
    """Looks at the head size alone."""
    right = config.kv_lora_rank + config.qk_rope_head_dim == 576
    check_startup(replace(config, kv_lora_rank=512, qk_rope_head_dim=64) if right else config)


def one_at_most(config: Serving) -> None:
    """Refuses what breaks one rule alone."""
    if len([*refusals(config)]) < 2:
        check_startup(config)


def without_the_option(config: Serving) -> None:
    """Says all but the name of the option."""
    try:
        check_startup(config)
    except ValueError as error:
        raise ValueError(str(error).replace("--kv-cache-dtype", "the format")) from None


def nvfp4(config: Serving) -> bool:
    """Whether it is about the record."""
    return config.kv_cache_dtype == "nvfp4_ds_mla"


def _defect(name: str, clause: str, otherwise: Otherwise, sentence: str, source: str = "") -> Defect:
    return Defect(name, sentence, clause, "serve", lambda: Starting(otherwise), source)


DEFECTS = (
    _defect(
        "starts-without-mla",
        "SERVE-3",
        wherever(lambda config: not config.uses_mla),
        "nvfp4_ds_mla starts for a model without MLA",
    ),
    Defect(
        "refused-on-the-first-context",
        "nothing is refused at startup, but all of it on the first request that has context",
        "SERVE-3",
        "serve",
        Late,
    ),
    _defect(
        "geometry-not-checked",
        "SERVE-4",
        accepting(kv_lora_rank=512, qk_rope_head_dim=64),
        "kv_lora_rank and qk_rope_head_dim are not looked at",
    ),
    _defect("geometry-by-its-sum", "SERVE-4", only_the_sum, "a geometry is known by its head size, 576, alone"),
    _defect(
        "backend-not-checked",
        "SERVE-5",
        accepting(attention_backend="FLASHMLA_SPARSE"),
        "nvfp4_ds_mla starts with any attention backend",
    ),
    _defect(
        "sparse-backends-alike",
        "SERVE-5",
        sparse_too,
        "nvfp4_ds_mla starts with any sparse attention backend",
    ),
    _defect("hopper-as-blackwell", "SERVE-6", hopper_too, "compute capability 9.0 is taken for 10.x"),
    _defect(
        "capability-at-least-10",
        "SERVE-6",
        newer_too,
        "any compute capability from 10 on is taken for 10.x",
    ),
    _defect(
        "two-rules-are-none",
        "SERVE-6",
        one_at_most,
        "a configuration that breaks two rules starts",
    ),
    _defect(
        "ranks-not-checked",
        "SERVE-7",
        accepting(decode_context_parallel_size=1),
        "nvfp4_ds_mla starts with any decode_context_parallel_size",
        "vllm 0.33.0",
    ),
    _defect(
        "plain-nvfp4-with-mla",
        "SERVE-8",
        wherever(lambda config: config.uses_mla and config.kv_cache_dtype == "nvfp4"),
        "plain nvfp4 starts for a model with MLA",
    ),
    _defect(
        "head-size-not-supported",
        "SERVE-9",
        saying("head_size not supported"),
        "a refusal says that a head size is not supported, whatever it is about",
    ),
    _defect("refusal-without-the-option", "SERVE-9", without_the_option, "a refusal does not name the option"),
    _defect(
        "refusal-repeats-the-value",
        "SERVE-9",
        saying("--kv-cache-dtype: nvfp4_ds_mla is not supported here"),
        "a refusal names the value that was asked for and no way out",
    ),
    _defect(
        "capability-10-0-alone",
        "SERVE-10",
        wherever(lambda config: nvfp4(config) and config.compute_capability == (10, 3), never),
        "of 10.x only 10.0 starts, 10.3 does not",
    ),
    _defect(
        "rules-for-all-caches",
        "SERVE-10",
        for_all_caches,
        "the rules of nvfp4_ds_mla are held against every kv_cache_dtype",
    ),
)
