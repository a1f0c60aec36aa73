"""Define the classes of random merges, plans, metadata, workspaces and workloads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import numpy.typing as npt

from conformance.merge_generation import KINDS as MERGE_KINDS
from conformance.metadata import MetadataCase
from conformance.plans import PlanCase
from conformance.reports.classes_of_numbers import CONTIGUOUS, sized
from conformance.reports.coverage import Domain, Hit, pairs
from conformance.scenarios.scenario import Scenario
from conformance.workspaces import WorkspaceCase
from fixtures.merge_cases import NARROW, WIDE, MergeCase

YES_NO = ("yes", "no")

TOKENS, _tokens = sized(1, 2, 5)
HEADS, _heads = sized(1, 2)
LSES = ("finite", "-inf", "+inf")
SLACK = ("outer", "inner", "turned", "shift")
OUTPUTS = ("output", "prefix_output", "suffix_output")
OUTPUT_LSES = ("output_lse", "prefix_lse", "suffix_lse", "None")


def yes(whether: object) -> str:
    """Return a truth value as a value of YES_NO."""
    return "yes" if whether else "no"


def merge_hits(case: MergeCase) -> Iterator[Hit]:
    """Yield the classes of a merge: sizes, places of results, LSEs, memory."""
    tokens, heads, size = case.shape
    yield "tokens", _tokens(tokens)
    yield "heads", _heads(heads)
    yield "16-byte units a head", "whole" if size * case.dtype.itemsize % 16 == 0 else "not whole"
    yield "output in", case.output_in
    yield "output_lse in", str(case.lse_in)
    states = np.unique(3 * _states(case.prefix_lse) + _states(case.suffix_lse)).tolist()
    yield from (("prefix and suffix LSE", _LSE_PAIRS[state]) for state in states)
    slack = [f"{name} {how}" for name, each in case.arrangement.items() for how in SLACK if getattr(each, how)]
    yield from (("memory", each) for each in slack or (CONTIGUOUS,))


def _states(lse: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    return np.where(np.isinf(lse), np.where(lse > 0, 2, 1), 0)


_LSE_PAIRS = pairs(LSES, LSES)
OF_A_MERGE = {
    "tokens": TOKENS,
    "heads": HEADS,
    "16-byte units a head": ("whole", "not whole"),
    "output in": OUTPUTS,
    "output_lse in": OUTPUT_LSES,
    "prefix and suffix LSE": _LSE_PAIRS,
    "memory": (CONTIGUOUS, *(f"{name} {how}" for name, how in product((*WIDE, *NARROW), SLACK))),
}

CONTEXTS = ("0", "below the budget", "the budget", "above the budget")
REQUESTS, _requests = sized(0, 1, 2)
RANKS, _ranks = sized(1, 2, 3)


def context_class(context: int, budget: int) -> str:
    """Return the class of a request's context, compared with the rows of a chunk."""
    if context in (0, budget):
        return "the budget" if context else "0"
    return "below the budget" if context < budget else "above the budget"


def plan_hits(case: PlanCase) -> Iterator[Hit]:
    """Yield the classes of a plan."""
    yield "requests", _requests(len(case.context_lens))
    budget = case.row_budget * case.ranks
    yield from (("context", context_class(context, budget)) for context in case.context_lens)
    yield "ranks", _ranks(case.ranks)
    yield "padding", yes(case.padding > case.ranks)
    yield "alignment beyond the padding", yes(case.split_alignment > case.padding)


OF_A_PLAN = {
    "requests": REQUESTS,
    "context": CONTEXTS,
    "ranks": RANKS,
    "padding": YES_NO,
    "alignment beyond the padding": YES_NO,
}


def metadata_hits(case: MetadataCase) -> Iterator[Hit]:
    """Yield the classes of a metadata case."""
    yield "requests", _requests(len(case.context_lens))
    yield from (("context", context_class(context, case.workspace_rows)) for context in case.context_lens)
    yield "block size", str(case.block_size)
    yield "chunks aligned to blocks", yes(case.align_chunk_to_block)
    yield "ranks", _ranks(case.dcp_world_size)
    yield "interleave", str(case.interleave)
    queries = np.diff(case.query_start_loc).tolist()
    yield from (("query", _queries(tokens)) for tokens in queries)


QUERIES, _queries = sized(0, 1, 2)
OF_METADATA = {
    "requests": REQUESTS,
    "context": CONTEXTS,
    "block size": ("1", "2", "3", "16", "48", "64"),
    "chunks aligned to blocks": YES_NO,
    "ranks": RANKS,
    "interleave": ("1", "2", "3", "16"),
    "query": QUERIES,
}


def workspace_hits(case: WorkspaceCase) -> Iterator[Hit]:
    """Yield the classes of a workspace case."""
    yield "builder", case.builder
    yield "ranks", _ranks(case.dcp_world_size)
    yield "interleave above 1", yes(case.interleave > 1)


OF_A_WORKSPACE = {"builder": ("dense", "sparse"), "ranks": RANKS, "interleave above 1": YES_NO}


def workload_hits(case: Scenario) -> Iterator[Hit]:
    """Yield the classes of a workload."""
    yield "requests", _requests(len(case.requests))
    yield "block size", str(case.block_size)
    yield "prefix caching", yes(case.prefix_caching)
    yield "chunks aligned to blocks", yes(case.align_chunk_to_block)
    yield "dummy batches", yes(case.dummy_every)
    yield "padded batches", yes(case.pad_to > 1)
    yield "slack between blocks", yes(case.block_slack)
    yield "queries that do not gather", yes(case.decode_threshold)


OF_A_WORKLOAD = {
    "requests": REQUESTS[1:],
    "block size": ("1", "4", "5", "16"),
    "prefix caching": YES_NO,
    "chunks aligned to blocks": YES_NO,
    "dummy batches": YES_NO,
    "padded batches": YES_NO,
    "slack between blocks": YES_NO,
    "queries that do not gather": YES_NO,
}

DOMAINS: tuple[Domain, ...] = (
    *(Domain(f"merge {kind}", OF_A_MERGE, merge_hits) for kind in MERGE_KINDS),
    Domain("plan", OF_A_PLAN, plan_hits),
    Domain("metadata", OF_METADATA, metadata_hits),
    Domain("workspace", OF_A_WORKSPACE, workspace_hits),
    Domain("workload", OF_A_WORKLOAD, workload_hits),
)
