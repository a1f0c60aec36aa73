"""Define vectors of a server's refusals at startup, checked by the configurations that judge SERVE."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from conformance.startups import DENSE, RIGHT, RULES, STARTS
from conformance.vectors.answers import listed, serving_asked
from conformance.vectors.vector import Json, Operator, Vector
from reference.serving import Serving, refusals


def _config(comment: str, clause: str, base: Serving = RIGHT, **changed: Any) -> Vector:
    flags = ("Starts",) if clause == "SERVE-10" else ("LateRefusal",)
    return Vector(clause, flags, comment, listed(asdict(replace(base, **changed))))


_VECTORS = [
    _config("nvfp4_ds_mla on 10.0", "SERVE-10"),
    _config("nvfp4_ds_mla on 10.3", "SERVE-10", compute_capability=(10, 3)),
    _config("a model without MLA", "SERVE-3", uses_mla=False),
    _config(
        "kv_lora_rank 448 and qk_rope_head_dim 128, the same in sum", "SERVE-4", kv_lora_rank=448, qk_rope_head_dim=128
    ),
    _config("kv_lora_rank 256", "SERVE-4", kv_lora_rank=256),
    _config("no RoPE", "SERVE-4", kv_lora_rank=576, qk_rope_head_dim=0),
    _config("another sparse backend", "SERVE-5", attention_backend="FLASHINFER_MLA_SPARSE"),
    _config("a dense backend", "SERVE-5", attention_backend="FLASHMLA"),
    _config("Hopper", "SERVE-6", compute_capability=(9, 0)),
    _config("consumer Blackwell, 12.0", "SERVE-6", compute_capability=(12, 0)),
    _config("two ranks of decode context parallelism", "SERVE-7", decode_context_parallel_size=2),
    _config("two ranks on Hopper: two rules", "SERVE-6", decode_context_parallel_size=2, compute_capability=(9, 0)),
    _config("plain nvfp4 with MLA", "SERVE-8", kv_cache_dtype="nvfp4"),
    _config("a cache that no gather reads", "SERVE-8", kv_cache_dtype="int8_per_token_head"),
    _config("fp8_ds_mla over two ranks", "SERVE-10", kv_cache_dtype="fp8_ds_mla", decode_context_parallel_size=2),
    _config("fp8_ds_mla on Hopper", "SERVE-10", kv_cache_dtype="fp8_ds_mla", compute_capability=(9, 0)),
    _config("auto with kv_lora_rank 256", "SERVE-10", DENSE, kv_cache_dtype="auto", kv_lora_rank=256),
    _config("int8_per_token_head without MLA", "SERVE-10", kv_cache_dtype="int8_per_token_head", uses_mla=False),
]


def _decided(vector: Vector) -> Json:
    clauses = [refusal.clause for refusal in refusals(serving_asked(vector.input))]
    return {"refused": bool(clauses), "clauses": clauses}


def _against_the_rules(vector: Vector, expected: Json) -> list[str]:
    """Return how the tables of configurations disagree with `expected`, as lines."""
    config = serving_asked(vector.input)
    listed_under = [clause for clause, rule in RULES.items() if config in rule.configs]
    if any(config in rule.also for rule in RULES.values()):  # breaks several rules; its table names one
        also = next(clause for clause, rule in RULES.items() if config in rule.also)
        return [] if len(expected["clauses"]) > 1 and also in expected["clauses"] else [f"{also} and another"]
    if not listed_under and config not in STARTS:
        return [f"{config} is in no table"]
    return [] if listed_under == expected["clauses"] else [f"the tables have it under {listed_under}"]


NOTES = (
    "A server that is started with this is to refuse before it takes a request, or is to start, at least as far as "
    "its kv_cache_dtype goes. clauses are the rules that are broken; its message is to name the kv_cache_dtype "
    "option, what does not go with it and a value that does (SERVE-9). Compare refused."
)

OPERATORS = [Operator("startup", NOTES, _decided, _against_the_rules, _VECTORS)]
