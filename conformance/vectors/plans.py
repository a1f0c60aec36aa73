"""Define vectors of the planner and of workspace sizes."""

from __future__ import annotations

from dataclasses import asdict

from conformance import workspaces
from conformance.plan_rules import violations
from conformance.plans import PlanCase
from conformance.vectors.answers import chunks_told, listed
from conformance.vectors.vector import THIS_SUITE, Json, Operator, Vector
from conformance.workspaces import WorkspaceCase
from reference.chunks import Chunk, plan_mla_context_chunks


def _plan(clause: str, flags: tuple[str, ...], comment: str, case: PlanCase, source: str = THIS_SUITE) -> Vector:
    return Vector(clause, flags, comment, listed(asdict(case)), source)


_PLANS = [
    _plan(
        "PLAN-1", ("Basic",), "the acceptance test of the original change", PlanCase((1000, 100, 64, 0), 512, 512, 64)
    ),
    _plan(
        "PLAN-3",
        ("UnalignedBudget",),
        "a budget that is no multiple of the alignment: cuts are, all the same",
        PlanCase((1000, 100, 64), 500, 448, 64),
        "vllm 41229",
    ),
    _plan("PLAN-6", ("NoContext",), "no request has context: no chunk", PlanCase((0, 0, 0), 64, 64, 16), "vllm 53603"),
    _plan(
        "PLAN-5",
        ("Continuation",),
        "contexts of twice the budget and 1: the second request is in neither of the first two chunks",
        PlanCase((128, 1), 64, 64, 16),
        "vllm 49294",
    ),
    _plan(
        "PLAN-6",
        ("ClosedChunk",),
        "a request without context closes the chunk, though what is behind it would fit",
        PlanCase((3, 0, 3), 64, 64),
    ),
    _plan("PLAN-7", ("LargestPiece",), "a part of the next request fills the chunk", PlanCase((5, 9), 8, 8)),
    _plan(
        "PLAN-7",
        ("LargestPiece",),
        "room for 2 rows, and pieces of 4: the chunk ends before the next request",
        PlanCase((6, 9), 8, 8, 4),
    ),
    _plan("PLAN-3", ("LargestPiece",), "pieces of at most 4 in a budget of 8", PlanCase((8, 8), 8, 4, 4)),
    _plan(
        "PLAN-3",
        ("LargestPiece",),
        "max_context_chunk 400 is no multiple of 64: pieces are of 384",
        PlanCase((1000,), 500, 400, 64),
    ),
    _plan("PLAN-2", ("LargestPiece",), "max_context_chunk is beyond the budget", PlanCase((20,), 8, 16, 4)),
    _plan("PLAN-7", ("LargestPiece",), "a budget below the alignment, in which all fits", PlanCase((3,), 3, 4, 4)),
    _plan(
        "PLAN-2",
        ("PaddedRows",),
        "two ranks: padded_rows(n) = ceil(n / 2), fewer rows than tokens",
        PlanCase((33, 1), 16, 32, 16, 2, 2),
        "vllm 28514",
    ),
    _plan(
        "PLAN-2",
        ("PaddedRows",),
        "rows are padded to 6, so that the second request has no room beside the first",
        PlanCase((7, 5), 12, 12, 6, 6),
    ),
    _plan(
        "PLAN-1",
        ("Overflow",),
        "a context beyond 2^31 tokens",
        PlanCase(((1 << 31) + 5,), 1 << 30, 1 << 30, 64),
    ),
]


def _planned(vector: Vector) -> Json:
    return {"chunks": chunks_told(plan_mla_context_chunks(*PlanCase(**vector.input).arguments))}


def _against_a_plan(vector: Vector, expected: Json) -> list[str]:
    plan = [
        Chunk(told["request_start"], told["request_end"], tuple(told["starts"]), tuple(told["seq_lens"]))
        for told in expected["chunks"]
    ]
    continues = [told["is_continuation"] for told in expected["chunks"]]
    right = [chunk.starts[0] != 0 for chunk in plan] == continues
    return violations(PlanCase(**vector.input).asked, plan) + ([] if right else [f"PLAN-5: {continues}"])


def _size(clause: str, comment: str, case: WorkspaceCase, source: str = THIS_SUITE) -> Vector:
    return Vector(clause, ("WorkspaceSize",), comment, asdict(case), source)


_SIZES = [
    _size("PLAN-20", "eight times max_model_len", WorkspaceCase("dense", 2_048, 3, 16, 2_048)),
    _size("PLAN-20", "65,536 rows at most", WorkspaceCase("dense", 131_072, 256, 64, 2_048), "vllm 25290"),
    _size("PLAN-20", "four blocks a sequence, where that is more", WorkspaceCase("dense", 7, 8, 64, 2_048)),
    _size("PLAN-20", "rounded up to blocks of 48", WorkspaceCase("dense", 100, 1, 48, 2_048)),
    _size("PLAN-20", "one block at least, beyond 65,536 too", WorkspaceCase("dense", 1, 1, 100_000, 2_048)),
    _size(
        "PLAN-21",
        "max_num_seqs * index_topk caps it, and nothing is rounded",
        WorkspaceCase("sparse", 8_192, 3, 64, 70),
    ),
    _size("PLAN-20", "65,536 rows, and then rounded up to blocks of 48", WorkspaceCase("dense", 131_072, 1, 48, 2_048)),
    _size("PLAN-21", "max_num_seqs * index_topk is 2^32", WorkspaceCase("sparse", 1 << 20, 1 << 16, 16, 1 << 16)),
    _size("PLAN-21", "no less than a block", WorkspaceCase("sparse", 8_192, 1, 64, 1)),
    _size("PLAN-21", "what is wanted, where the cap is above it", WorkspaceCase("sparse", 100, 3, 48, 2_048)),
    _size("SHARD-13", "a multiple of lcm(16, 11), on 11 ranks", WorkspaceCase("dense", 2_048, 3, 16, 1, 11, 1)),
    _size("SHARD-13", "65,536 rows rounded up, on 3 ranks", WorkspaceCase("dense", 8_192, 1, 64, 1, 3, 1)),
    _size("SHARD-13", "the sparse builder rounds over several ranks", WorkspaceCase("sparse", 8_192, 3, 64, 70, 2, 16)),
]


def _against_a_size(vector: Vector, expected: Json) -> list[str]:
    broken = workspaces.violation(WorkspaceCase(**vector.input), expected["rows"])
    return [broken] if broken else []


PLAN_NOTES = (
    "The call is plan_mla_context_chunks(context_lens, row_budget, max_context_chunk, split_alignment, "
    "padded_rows), where padded_rows(n) is ceil(n / padding) * padding / ranks. Compare all fields of all chunks."
)
SIZE_NOTES = (
    "The call is determine_chunked_prefill_workspace_size with the arguments of input in their order. Compare rows."
)

OPERATORS = [
    Operator("plan_mla_context_chunks", PLAN_NOTES, _planned, _against_a_plan, _PLANS),
    Operator(
        "determine_chunked_prefill_workspace_size",
        SIZE_NOTES,
        lambda vector: {"rows": workspaces.golden(WorkspaceCase(**vector.input))},
        _against_a_size,
        _SIZES,
    ),
]
