"""Choose the gather for a cache and refuse configurations at startup (SPEC.md SERVE-1 and SERVE-3 to SERVE-10)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

NVFP4_GATHER = "cp_gather_and_upconvert_nvfp4_kv_cache"
FP8_GATHER = "cp_gather_and_upconvert_fp8_kv_cache"
GENERIC_GATHER = "gather_and_maybe_dequant_cache"
COPYING_GATHER = "cp_gather_cache"

GATHERS = {
    "nvfp4_ds_mla": (NVFP4_GATHER,),
    "fp8_ds_mla": (FP8_GATHER,),
    "auto": (GENERIC_GATHER, COPYING_GATHER),
    "bfloat16": (GENERIC_GATHER, COPYING_GATHER),
    "fp8": (GENERIC_GATHER,),
    "fp8_e4m3": (GENERIC_GATHER,),
}
"""The operators that turn records of a kv_cache_dtype into bf16 rows."""

PER_TENSOR = ("fp8", "fp8_e4m3")

BACKENDS = ("FLASHMLA_SPARSE",)
CAPABILITY_MAJOR = 10
RANK, ROPE = 512, 64


def gathers_for(kv_cache_dtype: str, workspace: str = "bf16") -> tuple[str, ...]:
    """Choose the operators that gather context of a kv_cache_dtype into a `workspace` of "bf16" or "fp8" (SERVE-1).

    Returns:
        The names of the operators; any of them may be used.

    Raises:
        ValueError: If the kv_cache_dtype has no gather, or its gathers cannot fill this workspace.

    """
    if kv_cache_dtype not in GATHERS:
        raise ValueError(f"--kv-cache-dtype is {kv_cache_dtype!r}, which no gather reads; {_allowed(*GATHERS)}")
    if workspace == "bf16":
        return GATHERS[kv_cache_dtype]
    if workspace == "fp8" and kv_cache_dtype in PER_TENSOR:
        return (COPYING_GATHER,)
    raise ValueError(f"workspace is {workspace!r} with --kv-cache-dtype {kv_cache_dtype}; {_allowed('bf16')}")


@dataclass(frozen=True)
class Serving:
    """Hold the part of a server's configuration that SERVE is about. The default starts."""

    kv_cache_dtype: str = "nvfp4_ds_mla"
    uses_mla: bool = True
    kv_lora_rank: int = RANK
    qk_rope_head_dim: int = ROPE
    attention_backend: str = "FLASHMLA_SPARSE"
    compute_capability: tuple[int, int] = (CAPABILITY_MAJOR, 0)
    decode_context_parallel_size: int = 1


@dataclass(frozen=True)
class Refusal:
    """Describe a rule that a configuration breaks: the option, its value, and the allowed values."""

    clause: str
    option: str
    found: str
    allowed: tuple[str, ...]

    def __str__(self) -> str:
        """Return a message that a user can act on (SERVE-9)."""
        allowed = f"{self.option} is {self.found}; {_allowed(*self.allowed)}"
        if self.option == "--kv-cache-dtype":
            return allowed
        return f"--kv-cache-dtype is nvfp4_ds_mla and {allowed}, or another --kv-cache-dtype, such as auto"


def refusals(config: Serving) -> Iterator[Refusal]:
    """Yield each rule of SERVE-3 to SERVE-8 that a configuration breaks."""
    dtype = config.kv_cache_dtype
    if config.uses_mla and dtype not in GATHERS:
        yield Refusal("SERVE-8", "--kv-cache-dtype", f"{dtype} on a model with MLA", tuple(GATHERS))
    if dtype != "nvfp4_ds_mla":
        return
    if not config.uses_mla:
        yield Refusal("SERVE-3", "--kv-cache-dtype", "nvfp4_ds_mla on a model without MLA", ("auto", "fp8"))
        return
    if (config.kv_lora_rank, config.qk_rope_head_dim) != (RANK, ROPE):
        found = f"({config.kv_lora_rank}, {config.qk_rope_head_dim})"
        yield Refusal("SERVE-4", "the model's (kv_lora_rank, qk_rope_head_dim)", found, (f"({RANK}, {ROPE})",))
    if config.attention_backend not in BACKENDS:
        yield Refusal("SERVE-5", "--attention-backend", config.attention_backend, BACKENDS)
    if config.compute_capability[0] != CAPABILITY_MAJOR:
        found = ".".join(map(str, config.compute_capability))
        yield Refusal("SERVE-6", "the device's compute capability", found, (f"{CAPABILITY_MAJOR}.x",))
    if config.decode_context_parallel_size != 1:
        found = str(config.decode_context_parallel_size)
        yield Refusal("SERVE-7", "--decode-context-parallel-size", found, ("1",))


def check_startup(config: Serving) -> None:
    """Raise ValueError if the configuration breaks a rule, with one line for each rule (SERVE-3 to SERVE-8).

    Raises:
        ValueError: If a rule is broken. It is raised before anything is started.

    """
    found = [str(refusal) for refusal in refusals(config)]
    if found:
        raise ValueError("\n".join(found))


def _allowed(*values: str) -> str:
    return f"allowed {'is' if len(values) == 1 else 'are'} {', '.join(values)}"
