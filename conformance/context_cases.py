"""Batches with cached context: those that broke real servers, and random ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fixtures.context_cases import ContextCase, Ints
from reference.shards import Sharding

ACCEPTANCE = ContextCase(
    (1000, 100, 64, 0), (8, 4, 6, 5), 64, 512, origin="the acceptance test of vLLM's change that added seq_starts"
)

NAMED = {
    "a row budget that is no multiple of the block": ContextCase(
        (1000, 70), (3, 4), 64, 500, aligned=False, seed=1, origin="vllm 46114"
    ),
    "the same budget, cut on blocks": ContextCase((1000, 70), (3, 4), 64, 500, seed=2, origin="vllm 46114"),
    "contexts of twice the budget and of one token": ContextCase(
        (256, 1), (4, 3), 16, 128, seed=3, origin="vllm 49294"
    ),
    "no context beside a little": ContextCase((0, 5, 0), (2, 3, 1), 4, 8, seed=4, origin="sglang 22291"),
    "a little beside no context": ContextCase((5, 0), (3, 2), 4, 4, seed=5, origin="flashinfer 3047"),
    "requests without context everywhere": ContextCase((0, 70, 0, 0, 5, 130, 0), (1, 2, 3, 4, 3, 2, 1), 16, 64, seed=6),
    "blocks of one record": ContextCase((17, 300, 3), (2, 5, 1), 1, 123, seed=7),
    "blocks of 1,000 records": ContextCase((1001, 37, 2000), (2, 1, 3), 1000, 2047, seed=8),
    "four heads, values smaller than keys": ContextCase(
        (300, 45), (3, 4), 64, 128, heads=4, qk_nope_head_dim=24, v_head_dim=8, seed=9
    ),
    "many requests": ContextCase(
        tuple(1 + 5 * r % 9 for r in range(60)), tuple(1 + r % 3 for r in range(60)), 4, 64, seed=10
    ),
    "one token": ContextCase((1,), (1,), 1, 1, seed=11),
    "a continuation that ends with its chunk's first row": ContextCase((65, 40, 7), (4, 3, 5), 16, 64, seed=12),
    "one request in pieces of one token": ContextCase((5, 3), (2, 3), 1, 1, aligned=False, seed=13),
    "scores that no exponential holds, of either sign": ContextCase(
        (1, 150, 1, 40, 1, 2), (2, 4, 3, 2, 3, 1), 16, 32, largest_score=2048, seed=21
    ),
    "many query tokens, five heads of a real size": ContextCase(
        (70, 20), (131, 2), 16, 48, heads=5, qk_nope_head_dim=128, v_head_dim=128, seed=15
    ),
    "140 requests in one chunk": ContextCase(
        tuple(1 + 7 * r % 5 for r in range(140)), tuple(1 + r % 2 for r in range(140)), 4, 512, seed=16
    ),
    "requests without query tokens between others and behind them": ContextCase(
        (70, 0, 5, 0, 0, 0, 0, 0), (3, 0, 2, 0, 1, 2, 1, 0), 16, 64, seed=17
    ),
}
"""By what is unusual about them."""

SHARDED = {
    "a workspace that is no multiple of blocks and stripes": ContextCase(
        (700, 101, 0, 64), (3, 2, 4, 1), 64, 500, sharding=Sharding(3, 2), seed=20, origin="vllm 41229"
    ),
    "a rank that is short of tokens in the last of two chunks": ContextCase(
        (33, 1), (2, 3), 16, 32, aligned=False, sharding=Sharding(2), seed=21, origin="vllm 28514"
    ),
    "fewer tokens than ranks": ContextCase((1, 2, 3, 0), (1, 2, 1, 3), 4, 64, sharding=Sharding(4), seed=22),
}
"""Over several ranks."""

BLOCK_SIZES = (1, 16, 64, 1000)


def random_case(seed: int, sharding: Sharding | None = None) -> ContextCase:
    """A batch of up to eight requests, some of them without context, in a workspace that cuts most of its contexts."""
    drawn = np.random.Generator(np.random.Philox(seed))
    requests, block_size = int(drawn.integers(1, 9)), int(drawn.choice(BLOCK_SIZES))
    lengths = drawn.integers(1, 160, requests) * (drawn.integers(0, 4, requests) > 0)
    lengths[int(drawn.integers(requests))] = 1 + int(drawn.integers(1, 40)) * int(drawn.integers(1, 9))
    sharding = sharding or Sharding(1)
    aligned = bool(drawn.integers(0, 2)) and block_size < 1000
    alignment = sharding.alignment(block_size if aligned else 1)
    return ContextCase(
        _ints(lengths),
        _ints(drawn.integers(1, 6, requests)),
        block_size,
        alignment + int(drawn.integers(0, 150)),
        aligned,
        sharding,
        records="bytes" if drawn.integers(0, 2) else "quantized",
        seed=seed % 2**32,
        origin="random",
    )


def of(case: ContextCase, kv_cache_dtype: str) -> ContextCase:
    """The same batch over another cache."""
    return replace(case, kv_cache_dtype=kv_cache_dtype)


def _ints(numbers: np.ndarray) -> Ints:
    return tuple(int(number) for number in numbers)
