"""Planners, builders and workspaces that are right on usual numbers and plain types, and wrong on others.

Those that stand for a kind have a name in conformance/faults; these differ from them in a number, a type or a field.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from conformance.faults.builders import (
    Builder,
    arrays,
    changed,
    each,
    lax,
    modulo,
    planned,
    setting,
    with_case,
)
from conformance.faults.planners import Planner, at_most, instead, refusing, told
from conformance.faults.plans import contexts_in_binary32
from conformance.faults.workspaces import Rows, in_32_bits, rows_with
from conformance.metadata import MetadataCase


def one_object(chunks: Sequence[Any]) -> Any:
    """Yields one object again and again, with the fields of the next chunk."""
    one = SimpleNamespace()
    for chunk in chunks:
        vars(one).update(vars(chunk))
        yield one


PLANNERS: dict[str, Planner] = {
    "at most 32 requests": at_most(32),
    "at most 256 requests": at_most(256),
    "32 bits for all contexts": refusing(lambda call: sum(call.context_lens) >= 1 << 31),
    "32 bits for a context": refusing(lambda call: max(call.context_lens, default=0) >= 1 << 31),
    "the largest piece for the budget": instead(
        unless=lambda call: max(call.context_lens, default=0) <= call.row_budget,
        row_budget=lambda call: max(call.row_budget, call.max_context_chunk),
    ),
    "pieces no longer than the budget": instead(
        max_context_chunk=lambda call: min(call.max_context_chunk, max(call.split_alignment, call.row_budget))
    ),
    "a budget below the alignment refused": refusing(
        lambda call: call.padded_rows(call.split_alignment) > call.row_budget
    ),
    "alignments up to 64": instead(split_alignment=lambda call: min(64, call.split_alignment)),
    "starts as text": told(starts=lambda starts: [*map(str, starts)]),
    "lengths as floats": told(seq_lens=lambda lengths: [n + 0.7 for n in lengths]),
    "request_end as a float": told(request_end=lambda end: end + 0.5),
    "is_continuation as text": told(is_continuation=lambda said: "no" if said else ""),
    "a generator": lambda call: one_object(told()(call)),
}


def narrow_slice(case: MetadataCase, chunk: Any) -> slice:
    at = np.array([chunk.token_slice.start, chunk.token_slice.stop]).astype(np.int16)
    return slice(*at.tolist())


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
    "contexts through float32": planned(contexts_in_binary32),
}
SHARDED_BUILDERS: dict[str, Builder] = {
    "turns of up to 16": with_case(interleave=lambda case: min(16, case.interleave)),
    "ranks beyond the ninth": ranks_beyond(9),
    "local starts of 7 ranks": each(local_starts_of_tokens),
    "padded_local_token_to_seq int64": arrays(np.int64, "padded_local_token_to_seq"),
    "padded_local_cu_seq_lens int64": arrays(np.int64, "padded_local_cu_seq_lens"),
}


LAX: dict[str, Builder] = {
    "where blocks do not count": lax(lambda case: not case.align_chunk_to_block),
    "no rows": lax(lambda case: case.workspace_rows == 0),
    "for a block, not for a stripe": lax(lambda case: case.workspace_rows >= case.block_size),
}

ROWS: dict[str, Rows] = {
    "8 * max_model_len in 32 bits": in_32_bits("max_model_len", times=8),
    "4 * max_num_seqs * block_size in 32 bits": in_32_bits("max_num_seqs", "block_size", times=4),
    "index_topk up to 4,096": rows_with(index_topk=lambda case: min(4_096, case.index_topk)),
    "up to 9 ranks": rows_with(dcp_world_size=lambda case: case.dcp_world_size if case.dcp_world_size < 10 else 1),
    "turns of up to 70": rows_with(interleave=lambda case: case.interleave if case.interleave <= 70 else 1),
}
