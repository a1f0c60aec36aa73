"""Define servers that start with a wrong configuration, or refuse a right one, in one way each."""

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
    """Decide at startup with a given function."""

    capabilities: ClassVar[frozenset[str]] = frozenset({SERVE_STARTUP})

    def __init__(self, otherwise: Callable[[Serving], object]) -> None:
        """Set `otherwise`, which raises to refuse a configuration."""
        self.otherwise = otherwise

    def start(self, config: Serving) -> None:
        """Start, or raise what `otherwise` raises."""
        self.otherwise(config)


class Late(Server):
    """Check the configuration only when the first context comes."""

    capabilities: ClassVar[frozenset[str]] = frozenset({SERVE_DISPATCH, SERVE_STARTUP})

    def __init__(self) -> None:
        """Hold the default configuration until `start` is called."""
        self.config = Serving()

    def start(self, config: Serving) -> None:
        """Keep the configuration and accept it."""
        self.config = config

    def context_gathers(self, site: str, kv_cache_dtype: str, case: Context) -> Sequence[GatherCall] | None:
        """Return the right gather calls. Raises ValueError if a rule of SERVE is broken."""
        check_startup(replace(self.config, kv_cache_dtype=kv_cache_dtype))
        return super().context_gathers(site, kv_cache_dtype, case)


Otherwise = Callable[[Serving], object]


def accepting(**changes: object) -> Otherwise:
    """Return a startup that replaces some options before it checks, and thus ignores them."""
    return lambda config: check_startup(replace(config, **changes))  # type: ignore[arg-type]


def having(**values: object) -> Callable[[Serving], bool]:
    """Return a predicate: whether a configuration has these values."""
    return lambda config: all(getattr(config, name) == value for name, value in values.items())


def wherever(where: Callable[[Serving], bool], otherwise: Otherwise = lambda config: None) -> Otherwise:
    """Return a startup that uses `otherwise` where `where` holds; by default it accepts there."""
    return lambda config: otherwise(config) if where(config) else check_startup(config)


def never(config: Serving) -> None:
    """Refuse every configuration: raises RuntimeError without a reason."""
    raise RuntimeError("no")


def saying(message: str) -> Otherwise:
    """Return a startup that raises ValueError(message) wherever a refusal is due."""

    def start(config: Serving) -> None:
        if any(refusals(config)):
            raise ValueError(message)

    return start


def hopper_too(config: Serving) -> None:
    """Check with compute capability 9.x taken for 10.x."""
    major = 10 if config.compute_capability[0] == 9 else config.compute_capability[0]
    check_startup(replace(config, compute_capability=(major, 0)))


def newer_too(config: Serving) -> None:
    """Check with every compute capability above 10.x taken for 10.x."""
    check_startup(replace(config, compute_capability=(min(config.compute_capability[0], 10), 0)))


def sparse_too(config: Serving) -> None:
    """Check with every sparse backend taken for FLASHMLA_SPARSE."""
    sparse = config.attention_backend.endswith("_SPARSE")
    check_startup(replace(config, attention_backend="FLASHMLA_SPARSE") if sparse else config)


def for_all_caches(config: Serving) -> None:
    """Check every kv_cache_dtype that a gather reads by the rules of nvfp4_ds_mla."""
    read = config.uses_mla and config.kv_cache_dtype in GATHERS
    check_startup(replace(config, kv_cache_dtype="nvfp4_ds_mla") if read else config)


def only_the_sum(config: Serving) -> None:
    """Check only that kv_lora_rank + qk_rope_head_dim is 576."""
    right = config.kv_lora_rank + config.qk_rope_head_dim == 576
    check_startup(replace(config, kv_lora_rank=512, qk_rope_head_dim=64) if right else config)


def one_at_most(config: Serving) -> None:
    """Refuse a configuration that breaks one rule; accept one that breaks several."""
    if len([*refusals(config)]) < 2:
        check_startup(config)


def without_the_option(config: Serving) -> None:
    """Check, and leave --kv-cache-dtype out of the message. Raises ValueError if a rule is broken."""
    try:
        check_startup(config)
    except ValueError as error:
        raise ValueError(str(error).replace("--kv-cache-dtype", "the format")) from None


def nvfp4(config: Serving) -> bool:
    """Return whether the configuration asks for nvfp4_ds_mla."""
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
