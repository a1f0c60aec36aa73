"""The configurations that SERVE is judged by, and what a refusal of one has to say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from reference.serving import Serving

RIGHT = Serving()
DENSE = replace(RIGHT, attention_backend="TRITON_MLA")
"""With a backend that serves models of other geometries, and more devices, by a cache of elements."""

STARTS = [
    RIGHT,
    *(replace(RIGHT, compute_capability=found) for found in ((10, 1), (10, 3))),
    *(replace(RIGHT, kv_cache_dtype=dtype) for dtype in ("auto", "bfloat16", "fp8_ds_mla")),
    *(replace(DENSE, kv_cache_dtype=dtype) for dtype in ("auto", "bfloat16", "fp8", "fp8_e4m3")),
    replace(DENSE, kv_cache_dtype="auto", kv_lora_rank=256),
    replace(DENSE, kv_cache_dtype="auto", decode_context_parallel_size=2),
    *(replace(RIGHT, kv_cache_dtype=dtype, uses_mla=False) for dtype in ("auto", "fp8", "int8_per_token_head")),
    *(replace(RIGHT, kv_cache_dtype=dtype, compute_capability=(9, 0)) for dtype in ("auto", "fp8_ds_mla")),
    replace(RIGHT, kv_cache_dtype="fp8_ds_mla", decode_context_parallel_size=2),
]
"""Configurations that break no rule, and for which vLLM has a backend (SERVE-10)."""

Words = tuple[str, ...]


@dataclass(frozen=True)
class Rule:
    """A rule, configurations that break it, and what the message of a refusal under it has to say.

    The configs break no other rule. A server may refuse those of `also` for something else, so that their messages are
    not judged. A message has one of each group of `names`, and all of one of the `ways` out.
    """

    configs: tuple[Serving, ...]
    names: tuple[Words, ...]
    ways: tuple[Words, ...]
    also: tuple[Serving, ...] = ()

    def missing(self, message: str, config: Serving) -> list[Words]:
        """The groups that a message has none of."""
        groups = [words for words in self.names if not any(_says(message, word) for word in words)]
        rest = message
        for found in _found(config):
            rest = re.sub(_whole(found), " ", rest, flags=re.IGNORECASE)
        rest = NO_WAY.sub(" ", rest)
        if not any(all(_says(rest, word) for word in way) for way in self.ways):
            groups.append(tuple(" and ".join(way) for way in self.ways))
        return groups


NO_WAY = re.compile(r"\b(?:not|no|below|under|except|without)[-\s]+['\"`]?[\w.]+", re.IGNORECASE)
"""What does not go, as a text says, is no way out."""


def _found(config: Serving) -> Iterator[str]:
    """What was asked for and is refused, as a text may have it, but for numbers that others have too."""
    yield config.kv_cache_dtype if config.kv_cache_dtype != RIGHT.kv_cache_dtype else "nvfp4_ds_mla"
    if config.attention_backend != RIGHT.attention_backend:
        yield config.attention_backend
    if config.compute_capability[0] != RIGHT.compute_capability[0]:
        yield "{}.{}".format(*config.compute_capability)


def _whole(words: str) -> str:
    name = r"[-_\s=:.]+".join(re.escape(part) for part in re.split(r"[ _.]", words))
    return rf"(?<![\w.]){name}(?!\w)"


def _says(message: str, words: str) -> bool:
    """Whether a message has some words in order, with whatever is between the parts of a name, and nothing longer."""
    return re.search(_whole(words), message, re.IGNORECASE) is not None


DTYPE = ("kv cache dtype", "kv cache data type")
MLA = ("mla", "use mla", "uses mla", "multi head latent attention")
OTHERS = (("auto",), ("bfloat16",), ("bf16",), ("fp8",), ("fp8 e4m3",), ("fp8 ds mla",))
"""Other values of the option than nvfp4_ds_mla."""

DCP = (
    *("decode context parallel size", "decode context parallelism", "decode context parallel"),
    *("dcp world size", "dcp size", "dcp"),
)

RULES = {
    "SERVE-3": Rule(
        (replace(RIGHT, uses_mla=False), replace(RIGHT, uses_mla=False, kv_lora_rank=0, qk_rope_head_dim=0)),
        (DTYPE, MLA),
        OTHERS[:5],
    ),
    "SERVE-4": Rule(
        tuple(
            replace(RIGHT, kv_lora_rank=rank, qk_rope_head_dim=rope)
            for rank, rope in ((256, 64), (1024, 64), (512, 0), (512, 32), (512, 128), (448, 128), (576, 0))
        ),
        (DTYPE, ("kv lora rank", "qk rope head dim", "head size")),
        (("512", "64"), *OTHERS),
    ),
    "SERVE-5": Rule(
        tuple(
            replace(RIGHT, attention_backend=name)
            for name in ("FLASHINFER_MLA_SPARSE", "TRITON_MLA", "FLASHMLA", "FLASHINFER_MLA")
        ),
        (DTYPE, ("backend", "backends", "attention backend")),
        (("flashmla sparse",), *OTHERS),
        (
            *(replace(RIGHT, attention_backend=name) for name in ("CUTLASS_MLA", "FLASH_ATTN_MLA")),
            replace(RIGHT, attention_backend="TRITON_MLA", compute_capability=(9, 0)),
        ),
    ),
    "SERVE-6": Rule(
        tuple(
            replace(RIGHT, compute_capability=found) for found in ((9, 0), (12, 0), (8, 0), (11, 0), (12, 1), (13, 0))
        ),
        (DTYPE, ("capability", "compute capability", "sm", "sm100", "sm10x")),
        (
            *((f"{before} 10",) for before in ("capability", "major", "family", "be", "is", "needs", "requires", "sm")),
            *((way,) for way in ("10.x", "10.0", "10.3", "sm100", "sm100a", "sm100f", "sm10x", "sm 100", "blackwell")),
            *OTHERS,
        ),
        (replace(RIGHT, decode_context_parallel_size=2, compute_capability=(9, 0)),),
    ),
    "SERVE-7": Rule(
        tuple(replace(RIGHT, decode_context_parallel_size=ranks) for ranks in (2, 4)),
        (DTYPE, DCP),
        (
            *((f"{before} 1",) for before in (*DCP, "size")),
            *((f"{before} 1",) for before in ("be", "is", "to", "of", "only", "use", "than", "above")),
            *OTHERS,
        ),
        tuple(replace(RIGHT, decode_context_parallel_size=ranks) for ranks in (3, 8)),
    ),
    "SERVE-8": Rule(
        tuple(
            replace(RIGHT, kv_cache_dtype=dtype)
            for dtype in ("nvfp4", "nvfp4_4over6", "int8_per_token_head", "fp8_e5m2", "fp8_inc")
        ),
        (DTYPE, MLA),
        (("nvfp4 ds mla",), *OTHERS),
    ),
}
