"""Define builders of metadata that are wrong in one way each, on several ranks only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from conformance.faults.builders import Builder, FaultyShardedBuilder, changed, each, raising, setting, with_case
from conformance.faults.builders import sharded_defect as _defect
from conformance.faults.defect import Defect
from conformance.faults.metadata import in_one_buffer
from conformance.metadata import MetadataCase, golden
from reference.shards import Sharding


def global_starts(case: MetadataCase, answer: Any, names: Sequence[str] = ("starts", "local_starts")) -> None:
    """Set the fields `names` of each chunk to the tokens before each piece, counted over all ranks."""
    done = [0] * len(case.context_lens)
    for chunk in answer.chunks:
        starts = []
        for place, length in enumerate(chunk.seq_lens):
            starts.append(done[chunk.request_slice.start + place])
            done[chunk.request_slice.start + place] += length
        for name in names:
            setattr(chunk, name, starts)


def with_sharding(name: str, method: Callable[..., int]) -> Builder:
    """Return the golden builder with one method of Sharding replaced, on several ranks."""

    def build(case: MetadataCase) -> Any:
        if not case.sharded:
            return golden(case)
        with patch.object(Sharding, name, method):
            return golden(case)

    return build


def unpadded_lengths(case: MetadataCase, chunk: Any) -> None:
    """Cut padded_local_seq_lens to the tokens of the context that rank 0 holds."""
    mine = [chunk.local_context_lens_allranks[place][0] for place in range(len(chunk.seq_lens))]
    chunk.padded_local_seq_lens = [min(n, rows) for n, rows in zip(mine, chunk.padded_local_seq_lens, strict=True)]


def held_of_the_piece(case: MetadataCase, chunk: Any) -> None:
    """Count local_context_lens_allranks as if each piece were a whole context."""
    sharding = Sharding(case.dcp_world_size, case.interleave)
    chunk.local_context_lens_allranks = [
        [sharding.local_length(length, rank) for rank in range(sharding.ranks)] for length in chunk.seq_lens
    ]


def equal_shares(case: MetadataCase, chunk: Any) -> None:
    """Let every rank hold as many tokens as the rank with the most."""
    chunk.local_context_lens_allranks = [[max(held)] * len(held) for held in chunk.local_context_lens_allranks]


def sharded(builder: Builder) -> Builder:
    """Return a builder that uses `builder` on several ranks and the golden model on one."""
    return lambda case: builder(case) if case.sharded else golden(case)


def _set(**values: Callable[[MetadataCase, Any], Any]) -> Builder:
    return sharded(setting(**values))


DEFECTS = (
    _defect(
        "no-context-on-several-ranks",
        "PLAN-8",
        raising(lambda case: case.sharded and not any(case.context_lens)),
        "the first chunk of a plan without chunks is looked at on several ranks",
        "vllm 53603",
    ),
    _defect(
        "row-budget-undivided",
        "SHARD-6",
        lambda case: golden(replace(case, workspace_rows=case.workspace_rows * case.dcp_world_size)),
        "each rank's pieces may fill the workspace of all ranks",
    ),
    _defect(
        "alignment-without-the-stripe",
        "SHARD-6",
        with_sharding("alignment", lambda sharding, alignment: alignment),
        "requests are cut on block boundaries that are not ends of a stripe",
        "vllm 41229",
    ),
    _defect(
        "alignment-as-a-product",
        "SHARD-6",
        with_sharding("alignment", lambda sharding, alignment: alignment * sharding.stripe),
        "the alignment is the product of block and stripe, not their least common multiple",
    ),
    _defect(
        "rows-of-equal-shares",
        "SHARD-6",
        with_sharding("padded_rows", lambda sharding, tokens: -(-tokens // sharding.ranks)),
        "rows are an equal share of the tokens, whatever the interleave",
    ),
    _defect(
        "starts-of-the-whole-context",
        "SHARD-7",
        sharded(changed(global_starts)),
        "starts and local_starts count the tokens of all ranks",
    ),
    _defect(
        "local-starts-of-the-whole-context",
        "SHARD-7",
        sharded(changed(lambda case, answer: global_starts(case, answer, ("local_starts",)))),
        "local_starts count the tokens of all ranks",
    ),
    _defect(
        "local-lengths-unpadded",
        "SHARD-8",
        sharded(each(unpadded_lengths)),
        "a rank that is short of tokens has no padding in padded_local_seq_lens",
        "vllm 28514",
    ),
    _defect(
        "interleave-ignored",
        "SHARD-8",
        with_case(interleave=lambda case: 1),
        "ranks take turns token by token, whatever the interleave",
    ),
    _defect(
        "local-cu-seq-lens-of-all-tokens",
        "SHARD-9",
        _set(padded_local_cu_seq_lens=lambda case, c: c.cu_seq_lens),
        "padded_local_cu_seq_lens is cu_seq_lens",
    ),
    _defect(
        "local-token-to-seq-of-all-tokens",
        "SHARD-10",
        _set(padded_local_token_to_seq=lambda case, c: c.token_to_seq),
        "padded_local_token_to_seq is token_to_seq",
    ),
    _defect(
        "held-of-the-piece",
        "SHARD-11",
        sharded(each(held_of_the_piece)),
        "local_context_lens_allranks counts what ranks hold of the piece, as if it were a context",
    ),
    _defect(
        "held-in-equal-shares",
        "SHARD-11",
        sharded(each(equal_shares)),
        "every rank is said to hold as many tokens as the first",
        "vllm 28514",
    ),
    _defect(
        "local-tokens-of-all-ranks",
        "SHARD-12",
        _set(num_local_context_tokens=lambda case, c: c.num_local_context_tokens * case.dcp_world_size),
        "num_local_context_tokens counts the rows of all ranks",
    ),
    Defect(
        "local-token-to-seq-in-one-buffer",
        "padded_local_token_to_seq lies in a buffer that the next call fills",
        "PLAN-22",
        "plan",
        lambda: FaultyShardedBuilder(sharded(in_one_buffer("padded_local_token_to_seq"))),
    ),
)
