"""What else fixtures may hold: calls of planners, builders and servers, which are nothing but numbers and names."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.metadata import MetadataCase
from conformance.plans import PlanCase
from conformance.workspaces import WorkspaceCase, golden
from fixtures.serve_cases import SITES, DispatchCase
from fixtures.store import register
from fixtures.stored_kinds import plain
from reference.chunks import plan_mla_context_chunks
from reference.serving import Serving, gathers_for

MOST_CHUNKS = 1 << 14
"""Chunks of a plan, each of which is some hundred bytes."""
MOST_TOKENS = 1 << 24
"""Context tokens of a batch, for each of which a builder's arrays have an entry."""
MOST_SHARES = 1 << 20
"""Requests or chunks times ranks, for each of which they have one, too."""


def check_plan(case: PlanCase) -> None:
    """Raise ValueError for a call that is not legal, or a plan of too many chunks."""
    _at_least_one(case, "split_alignment", "padding", "ranks", "max_context_chunk")
    piece = min(case.max_context_chunk, case.row_budget * case.ranks - case.padding)
    _must_be_few_chunks(case.context_lens, piece // case.split_alignment * case.split_alignment)
    plan_mla_context_chunks(*case.arguments)


def check_metadata(case: MetadataCase) -> None:
    """Raise ValueError for a batch of too much; what a builder refuses (PLAN-11) is a case, too."""
    _at_least_one(case, "block_size", "dcp_world_size", "interleave")
    requests, boundaries = len(case.context_lens), len(case.query_start_loc)
    if boundaries != requests + 1:
        raise ValueError(f"query_start_loc has {boundaries} entries; allowed are {requests + 1}")
    piece = case.workspace_rows // case.alignment * case.alignment
    _must_be_few_tokens(case.context_lens)
    _must_be_few_chunks(case.context_lens, piece, case.dcp_world_size)


def check_dispatch(case: DispatchCase) -> None:
    """Raise ValueError for a site or a kv_cache_dtype that there is not, and for contexts that no table holds."""
    context, sharding = case.context, case.context.sharding
    if case.site not in SITES:
        raise ValueError(f"site is {case.site!r:.40}; allowed are {', '.join(SITES)}")
    gathers_for(case.kv_cache_dtype, context.workspace)
    _at_least_one(context, "block_size")
    _at_least_one(sharding, "ranks", "interleave")
    counts = [len(each) for each in (context.context_lens, context.query_lens, context.block_table)]
    if len(set(counts)) != 1:
        raise ValueError(f"context_lens, query_lens and block_table have {counts} entries; allowed are as many of each")
    _must_be_few_tokens((*context.context_lens, *context.query_lens))
    lengths = [sum(each) for each in zip(context.context_lens, context.query_lens, strict=True)]
    alignment = sharding.alignment(context.block_size)
    _must_be_few_chunks(lengths, context.workspace_rows // alignment * alignment, sharding.ranks)
    for request, (length, row) in enumerate(zip(lengths, context.block_table, strict=True)):
        if sharding.padded_rows(length) > len(row) * context.block_size:
            raise ValueError(f"block_table[{request}] has {len(row)} entries; {length} tokens need more")
    context.chunks(case.site)


def _must_be_few_tokens(lengths: Sequence[int]) -> None:
    if min(lengths, default=0) < 0:
        raise ValueError(f"there are {min(lengths)} tokens of a request; allowed is at least 0")
    if sum(lengths) > MOST_TOKENS:
        raise ValueError(f"there are {sum(lengths):,} tokens; allowed are {MOST_TOKENS:,}")


def _must_be_few_chunks(lengths: Sequence[int], piece: int, ranks: int = 1) -> None:
    chunks = len(lengths) + sum(length // max(1, piece) for length in lengths)
    if chunks > MOST_CHUNKS or chunks * ranks > MOST_SHARES:
        raise ValueError(f"there may be {chunks:,} chunks; allowed are {MOST_CHUNKS:,}, {MOST_SHARES:,} over all ranks")


def _at_least_one(case: object, *names: str) -> None:
    for name in names:
        if getattr(case, name) < 1:
            raise ValueError(f"{name} is {getattr(case, name)}; allowed is at least 1")


register("plan", plain(PlanCase, check_plan))
register("metadata", plain(MetadataCase, check_metadata))
register("workspace", plain(WorkspaceCase, golden))
register("dispatch", plain(DispatchCase, check_dispatch))
register("startup", plain(Serving))
