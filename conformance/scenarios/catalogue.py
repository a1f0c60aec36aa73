"""List the scenarios by name: interactions of a scheduler and a cache that failed once, or could."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise, product
from typing import Any

import numpy as np

from conformance.generation import Random
from conformance.scenarios.blocks import Tokens
from conformance.scenarios.scenario import Scenario
from conformance.scenarios.scheduler import Request

VOCABULARY = 50_000


def text(count: int, seed: int) -> Tokens:
    """Return `count` uniform token ids: int64 [count]."""
    return Random(seed).bytes((count, 4)).view("<u4")[..., 0].astype(np.int64) % VOCABULARY


def request(name: str, prompt: Sequence[Tokens], outputs: int = 1, arrival: int = 0) -> Request:
    """Return a request whose prompt is the parts `prompt`, int64 [n] each, with `outputs` generated tokens."""
    generated = text(outputs, sum(map(ord, name)) + 1_000)
    return Request(name, np.concatenate([*prompt, generated]), sum(map(len, prompt)), arrival)


@lru_cache
def twelve() -> tuple[Request, ...]:
    """Return 12 prompts of about 1.7 K tokens, all there at step 0, with four generated tokens each."""
    return tuple(request(f"prompt {i}", [text(1_670 + i * 37 % 60, 100 + i)], 4) for i in range(12))


def original(name: str, *budgets: int, **settings: Any) -> Scenario:
    """Return the end-to-end test of the original change as a scenario, under these token budgets."""
    return Scenario(
        f"12 prompts of 1.7 K tokens, {name}",
        twelve(),
        block_size=1_024,
        num_blocks=20,
        budgets=budgets,
        max_num_seqs=8,
        index_topk=2_048,
        decode_threshold=1,
        **settings,
    )


ORIGINAL = (
    original("budget 8,192", 8_192),
    original("none split", 20_480),
    original("budget 2,048", 2_048),
    original("budget 1,000: splits within blocks", 1_000),
    original("budget 777, a workspace of 1,100 rows: aligned chunks", 777, workspace_rows=1_100),
    original(
        "budget 777, a workspace of 700 rows: chunks cut anywhere", 777, workspace_rows=700, align_chunk_to_block=False
    ),
)


def small(name: str, requests: Sequence[Request], **settings: Any) -> Scenario:
    """Return a scenario with blocks of 16, room for all, and a workspace of 40 rows, unless set otherwise."""
    usual = {"block_size": 16, "num_blocks": 40, "budgets": (32,), "max_num_seqs": 8, "workspace_rows": 40}
    return Scenario(name, tuple(requests), **{**usual, **settings})


SYSTEM = text(40, 1)
"""A system prompt of two and a half blocks."""
WHOLE = text(48, 2)
"""A prompt of three blocks."""


def users(count: int, outputs: int, apart: int, length: int = 20) -> list[Request]:
    """Return requests that share the system prompt; each arrives `apart` steps after the one before."""
    return [request(f"user {i}", [SYSTEM, text(length, 200 + i)], outputs, i * apart) for i in range(count)]


PREFIXES = (
    small("a system prompt shared, users diverge within its third block", users(3, 6, 2)),
    small("a system prompt shared within one step and one chunk", users(4, 3, 0), budgets=(512,), workspace_rows=112),
    small("24 users of a system prompt", users(24, 4, 1), num_blocks=64, block_slack=64),
    small(
        "identical prompts, together and later",
        [request(f"twin {i}", [SYSTEM], 5, i // 2 * 4) for i in range(4)],
    ),
    small(
        "a hit up to the last full block but one: a prompt of whole blocks computes its last one again",
        [request(f"whole {i}", [WHOLE], 4, i * 2) for i in range(3)],
    ),
    small(
        "a hit up to the last full block: one token more than whole blocks",
        [request(f"whole and one {i}", [WHOLE, text(1, 3)], 4, i * 3) for i in range(3)],
    ),
    small(
        "hits after the first user has ended",
        [request(f"user {i}", [SYSTEM, text(5, 210 + i)], 2, i * 5) for i in range(3)],
        dummy_every=3,
    ),
    small(
        "hits after the end of the chain was evicted",
        [
            request("first user", [WHOLE, SYSTEM], 2),
            request("stranger", [text(70, 4)], 2, 6),
            request("second user", [WHOLE, SYSTEM, text(9, 5)], 2, 12),
        ],
        num_blocks=9,
        block_slack=16,
    ),
    small(
        "a known block of tokens at another position is no hit",
        [request("behind a block", [WHOLE], 3), request("first", [WHOLE[16:], text(9, 9)], 3, 2)],
    ),
    small(
        "a hit on blocks that a generated answer filled",
        [
            request("first turn", [SYSTEM], 30),
            Request("second turn", np.concatenate([request("first turn", [SYSTEM], 30).tokens, text(9, 6)]), 76, 34),
        ],
    ),
)


def compositions(total: int) -> list[tuple[int, ...]]:
    """Return all 2^(total - 1) ways to write a number as an ordered sum of positive numbers."""
    ways = []
    for cuts in product((False, True), repeat=total - 1):
        places = [0, *(place for place, cut in enumerate(cuts, 1) if cut), total]
        ways.append(tuple(b - a for a, b in pairwise(places)))
    return ways


def split(name: str, prompt: Tokens, ways: Sequence[tuple[int, ...]], **settings: Any) -> Scenario:
    """Return a scenario that computes one prompt, int64 [N], repeatedly, split in another way each time."""
    return small(
        name,
        [request("split " + "+".join(map(str, way)), [prompt]) for way in ways],
        budgets=tuple(part for way in ways for part in way),
        max_num_seqs=1,
        prefix_caching=False,
        **settings,
    )


def every_composition(total: int) -> Scenario:
    """Return a scenario of a short prompt, split over steps in every way."""
    return split(
        f"a prompt of {total} tokens, every composition",
        text(total, 7),
        compositions(total),
        block_size=4,
        num_blocks=4,
        workspace_rows=6,
        align_chunk_to_block=False,
        attend_every=16,
    )


SPLITS = (
    split("a prompt of 40 tokens in two parts, every split", SYSTEM, [(n, 40 - n) for n in range(1, 40)], num_blocks=5),
    every_composition(9),
)

DUMMIES = (
    small("a dummy batch first, before every step and last", users(3, 4, 1), dummy_every=1, dummy_tokens=24),
    small("a dummy batch before one prompt", [request("prompt", [SYSTEM])], dummy_every=100),
    small("batches padded to 64", users(5, 4, 2), pad_to=64, num_blocks=24),
)

PRESSURE = (
    small(
        "blocks reused by shorter and longer prompts",
        [request(f"{n} tokens", [text(n, 300 + n)], 2) for n in (90, 3, 61, 17, 96, 33, 1, 80)],
        num_blocks=7,
        max_num_seqs=1,
        prefix_caching=False,
    ),
    small(
        "preempted, and computed again",
        [request(f"long answer {i}", [text(30, 400 + i)], 40) for i in range(4)],
        num_blocks=12,
        look_every=8,
    ),
    small(
        "preempted with a shared prefix",
        users(5, 36, 0),
        num_blocks=14,
        budgets=(48,),
        dummy_every=10,
    ),
    small("a full cache", [request(f"full {i}", [text(31, 500 + i)], 18) for i in range(4)], num_blocks=12),
    small(
        "many short requests beside a long one",
        [
            request("long", [text(400, 8)], 8),
            *(request(f"short {i}", [text(3 + i % 9, 600 + i)], 2) for i in range(24)),
        ],
        num_blocks=36,
        max_num_seqs=4,
        budgets=(24,),
    ),
    small(
        "decode beside chunked prefill",
        [request(f"mixed {i}", [text(50 + 7 * i, 700 + i)], 12, 2 * i) for i in range(6)],
        budgets=(17,),
        align_chunk_to_block=False,
    ),
    small(
        "requests longer than index_topk beside shorter ones",
        [request(f"topk {i}", [text(40 + 30 * i, 800 + i)], 3) for i in range(4)],
        index_topk=100,
        budgets=(25,),
    ),
)

SCENARIOS = {scenario.name: scenario for scenario in (*ORIGINAL, *PREFIXES, *SPLITS, *DUMMIES, *PRESSURE)}
FEW = (
    *(ORIGINAL[0], ORIGINAL[3]),
    *(PREFIXES[0], PREFIXES[1], PREFIXES[7]),
    *(SPLITS[0], every_composition(7)),
    *(DUMMIES[0], PRESSURE[1]),
)
"""Scenarios for further kv_cache_dtypes. The rest depends on no dtype."""
