"""Planners, builders and workspaces that are right on usual numbers and plain types, and wrong on others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from conformance.metadata import MetadataCase, golden
from conformance.plans import PlanCase
from conformance.selfcheck.faulty_metadata import Builder, changed, each, planned, setting
from conformance.workspaces import WorkspaceCase
from conformance.workspaces import golden as golden_rows
from reference.chunks import Chunk, plan_mla_context_chunks

Planner = Callable[..., Any]


def instead(unless: Callable[[PlanCase], bool] = lambda case: False, **fields: Callable[[PlanCase], Any]) -> Planner:
    """The right plan of a call that has some fields replaced, unless it is such a case."""

    def plan(case: PlanCase) -> Any:
        other = replace(case, **{name: get(case) for name, get in fields.items()})
        return plan_mla_context_chunks(*(case if unless(case) else other).arguments)

    return plan


def refusing(when: Callable[[PlanCase], bool]) -> Planner:
    """Raises in such a case."""

    def plan(case: PlanCase) -> Any:
        if when(case):
            raise OverflowError("too large, or too small")
        return plan_mla_context_chunks(*case.arguments)

    return plan


def at_most(requests: int) -> Planner:
    """Has no more requests in a chunk."""

    def plan(case: PlanCase) -> list[Chunk]:
        return [
            Chunk(c.request_start + k, min(c.request_end, c.request_start + k + requests), *parts)
            for c in plan_mla_context_chunks(*case.arguments)
            for k in range(0, len(c.starts), requests)
            for parts in [(c.starts[k : k + requests], c.seq_lens[k : k + requests])]
        ]

    return plan


def rows_at_least_the_tokens(case: PlanCase) -> Any:
    lens, budget, most, alignment, padded_rows = case.arguments
    return plan_mla_context_chunks(lens, budget, most, alignment, lambda tokens: max(tokens, padded_rows(tokens)))


def cut_at_the_largest_piece(case: PlanCase) -> list[Chunk]:
    length, most = case.context_lens[0], case.max_context_chunk
    if len(case.context_lens) > 1 or length <= case.row_budget or most % case.split_alignment == 0:
        return plan_mla_context_chunks(*case.arguments)
    return [Chunk(0, 1, (start,), (min(most, length - start),)) for start in range(0, length, most)]


def told(**change: Callable[[Any], Any]) -> Planner:
    """The right plan, some attributes of its chunks in another form."""

    def plan(case: PlanCase) -> list[Any]:
        chunks = plan_mla_context_chunks(*case.arguments)
        plain = [{**vars(chunk), "is_continuation": chunk.is_continuation} for chunk in chunks]
        return [SimpleNamespace(**fields | {n: to(fields[n]) for n, to in change.items()}) for fields in plain]

    return plan


def one_object(chunks: Sequence[Any]) -> Any:
    """Yields one object again and again, with the fields of the next chunk."""
    one = SimpleNamespace()
    for chunk in chunks:
        vars(one).update(vars(chunk))
        yield one


PLANNERS: dict[str, Planner] = {
    "at most 32 requests": at_most(32),
    "at most 256 requests": at_most(256),
    "32 bits for all contexts": refusing(lambda case: sum(case.context_lens) >= 1 << 31),
    "32 bits for a context": refusing(lambda case: max(case.context_lens, default=0) >= 1 << 31),
    "contexts through float32": instead(context_lens=lambda case: tuple(int(np.float32(n)) for n in case.context_lens)),
    "compressing rows ignored": rows_at_least_the_tokens,
    "pieces no longer than the budget": instead(
        max_context_chunk=lambda c: min(c.max_context_chunk, max(c.split_alignment, c.row_budget))
    ),
    "cut where the largest piece ends": cut_at_the_largest_piece,
    "the largest piece for the budget": instead(
        unless=lambda case: max(case.context_lens, default=0) <= case.row_budget,
        row_budget=lambda case: max(case.row_budget, case.max_context_chunk),
    ),
    "a budget below the alignment refused": refusing(lambda case: case.row_budget < case.split_alignment // case.ranks),
    "alignments up to 64": instead(split_alignment=lambda case: min(64, case.split_alignment)),
    "starts as text": told(starts=lambda starts: [*map(str, starts)]),
    "lengths as floats": told(seq_lens=lambda lengths: [n + 0.7 for n in lengths]),
    "request_end as a float": told(request_end=lambda end: end + 0.5),
    "is_continuation as text": told(is_continuation=lambda said: "no" if said else ""),
    "a generator": lambda case: one_object(told()(case)),
}


def arrays(dtype: Any, name: str) -> Builder:
    """An array field of another type."""
    return setting(**{name: lambda case, chunk: np.asarray(getattr(chunk, name)).astype(dtype)})


def modulo(most: int, name: str) -> Builder:
    """An array field whose numbers wrap around."""
    return setting(**{name: lambda case, chunk: [int(n) % most for n in getattr(chunk, name)]})


def narrow_slice(case: MetadataCase, chunk: Any) -> slice:
    at = np.array([chunk.token_slice.start, chunk.token_slice.stop]).astype(np.int16)
    return slice(*at.tolist())


def stepping(name: str, step: int) -> Builder:
    """A slice with a step."""
    return setting(**{name: lambda case, chunk: slice(getattr(chunk, name).start, getattr(chunk, name).stop, step)})


def with_case(**fields: Callable[[MetadataCase], Any]) -> Builder:
    """The right metadata of a call that has some arguments replaced."""
    return lambda case: golden(replace(case, **{name: get(case) for name, get in fields.items()}))


def none_from(number: int) -> Builder:
    """From that chunk on, no is_continuation."""

    def change(case: MetadataCase, answer: Any) -> None:
        for chunk in answer.chunks[number:]:
            chunk.is_continuation = False

    return changed(change)


def ranks_beyond(most: int) -> Builder:
    """Those hold nothing."""

    def change(case: MetadataCase, chunk: Any) -> None:
        held = [[*row[:most], *[0] * (len(row) - most)] for row in chunk.local_context_lens_allranks]
        chunk.local_context_lens_allranks = held

    return each(change)


def local_starts_of_tokens(case: MetadataCase, chunk: Any) -> None:
    if case.dcp_world_size == 7:
        chunk.local_starts = [7 * start for start in chunk.local_starts]


def as_generator(case: MetadataCase, answer: Any) -> None:
    answer.chunks = one_object(answer.chunks)


BUILDERS: dict[str, Builder] = {
    "token_to_seq int8": arrays(np.int8, "token_to_seq"),
    "token_to_seq modulo 64": modulo(64, "token_to_seq"),
    "token_to_seq int64": arrays(np.int64, "token_to_seq"),
    "starts int64": arrays(np.int64, "starts"),
    "cu_seq_lens int64": arrays(np.int64, "cu_seq_lens"),
    "query_start_loc int64": arrays(np.int64, "query_start_loc"),
    "starts through float32": setting(starts=lambda case, c: [int(np.float32(start)) for start in c.starts]),
    "starts modulo 2^20": modulo(1 << 20, "starts"),
    "cu_seq_lens modulo 2^16": modulo(1 << 16, "cu_seq_lens"),
    "cu_seq_lens modulo 2^17": modulo(1 << 17, "cu_seq_lens"),
    "query_start_loc modulo 256": modulo(256, "query_start_loc"),
    "token_slice int16": setting(token_slice=narrow_slice),
    "max_query_len up to 9": setting(max_query_len=lambda case, c: min(9, c.max_query_len)),
    "request_slice in steps": setting(
        request_slice=lambda case, c: slice(c.request_slice.start, c.request_slice.stop, 2)
    ),
    "token_slice backwards": setting(token_slice=lambda case, c: slice(c.token_slice.start, c.token_slice.stop, -1)),
    "is_continuation a count": setting(is_continuation=lambda case, c: int(c.is_continuation)),
    "no continuation from chunk 1,000 on": none_from(1_000),
    "a generator": changed(as_generator),
    "blocks up to 64": with_case(block_size=lambda case: min(64, case.block_size)),
    "65,536 rows at most": with_case(workspace_rows=lambda case: min(65_536, case.workspace_rows)),
    "at most 128 requests": planned(at_most(128)),
    "contexts through float32": planned(PLANNERS["contexts through float32"]),
}
SHARDED_BUILDERS: dict[str, Builder] = {
    "turns of up to 16": with_case(interleave=lambda case: min(16, case.interleave)),
    "ranks beyond the ninth": ranks_beyond(9),
    "local starts of 7 ranks": each(local_starts_of_tokens),
    "padded_local_token_to_seq int64": arrays(np.int64, "padded_local_token_to_seq"),
    "padded_local_cu_seq_lens int64": arrays(np.int64, "padded_local_cu_seq_lens"),
}


def lax(accepts: Callable[[MetadataCase], bool]) -> Builder:
    """Builds as for the alignment where the workspace has fewer rows, in such a case."""

    def build(case: MetadataCase) -> Any:
        few = case.workspace_rows < case.alignment and accepts(case)
        return golden(replace(case, workspace_rows=case.alignment) if few else case)

    return build


LAX: dict[str, Builder] = {
    "where no request must be cut": lax(
        lambda case: max(map(case.padded_rows, case.context_lens)) * case.dcp_world_size <= case.workspace_rows
    ),
    "where blocks do not count": lax(lambda case: not case.align_chunk_to_block),
    "no rows": lax(lambda case: case.workspace_rows == 0),
    "for a block, not for a stripe": lax(lambda case: case.workspace_rows >= case.block_size),
}


def rows_with(**fields: Callable[[WorkspaceCase], Any]) -> Callable[[WorkspaceCase], int]:
    """The right rows of a call that has some arguments replaced."""
    return lambda case: golden_rows(replace(case, **{name: get(case) for name, get in fields.items()}))


def in_32_bits(*factors: str) -> Callable[[WorkspaceCase], int]:
    """Raises where a product of arguments leaves 32 bits."""

    def rows(case: WorkspaceCase) -> int:
        numbers = dict(zip(WorkspaceCase.__dataclass_fields__, astuple(case), strict=True))
        if np.prod([float(numbers.get(factor, factor)) for factor in factors]) >= 1 << 31:
            raise OverflowError(" * ".join(factors))
        return golden_rows(case)

    return rows


ROWS: dict[str, Callable[[WorkspaceCase], int]] = {
    "8 * max_model_len in 32 bits": in_32_bits("8", "max_model_len"),
    "4 * max_num_seqs * block_size in 32 bits": in_32_bits("4", "max_num_seqs", "block_size"),
    "max_num_seqs * index_topk in 32 bits": in_32_bits("max_num_seqs", "index_topk"),
    "index_topk up to 4,096": rows_with(index_topk=lambda case: min(4_096, case.index_topk)),
    "up to 9 ranks": rows_with(dcp_world_size=lambda case: case.dcp_world_size if case.dcp_world_size < 10 else 1),
    "turns of up to 70": rows_with(interleave=lambda case: case.interleave if case.interleave <= 70 else 1),
}
