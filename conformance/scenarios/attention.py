"""Compare attention over gathered context with one softmax over the golden records of each prompt."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from conformance.close import must_be_close
from conformance.context_generation import Batch, PagedCache, numbers
from conformance.generation import Random
from conformance.judge import Judge
from conformance.merging_through import merge_of
from conformance.metadata import MetadataCase
from conformance.one_softmax import Arithmetic, attend_whole, error_bounds
from conformance.scenarios.golden import SCALE, alone
from conformance.scenarios.scheduler import Piece
from fixtures.context_cases import ContextCase
from reference.context import compute_prefill_context
from reference.scalars import Bf16Bits, Floats
from reference.writing import FORMATS, LATENT, ROPE

HEADS, NOPE, VALUE = 2, 16, 16
MOST_QUERIES = 4
"""Query tokens of a request that attend. More are not needed: all rows were compared before."""


def attend(
    judge: Judge,
    pieces: Sequence[Piece],
    planned: MetadataCase,
    rows: Sequence[Bf16Bits],
    kv_cache_dtype: str,
    origin: str,
) -> None:
    """Check that the loop over chunks, with the target's merge, gives one softmax (ATTEND-2, ATTEND-3).

    `rows` are the gathered rows of each chunk, uint16 bf16 encodings [N, 576]. `origin` names the step in a failure.
    Raises Differs if output or LSE is outside of its bounds.
    """
    batch = _batch(judge, pieces, planned, kv_cache_dtype, origin)
    whole, chunks, gathered = attend_whole(batch), batch.case.chunked_context, iter(rows)
    result = compute_prefill_context(
        batch.q,
        lambda chunk: next(gathered),
        chunks,
        batch.kv_b_proj,
        whole.softmax_scale,
        np.float32,
        merge_of(judge, np.float32),
    )
    must_be_close(judge, batch, whole, result, error_bounds(whole, chunks, Arithmetic(1)))


def _batch(judge: Judge, pieces: Sequence[Piece], planned: MetadataCase, kv_cache_dtype: str, origin: str) -> Batch:
    """Return the step as a batch in which each request has its golden records in one block."""
    form, longest = FORMATS[kv_cache_dtype], max(planned.context_lens)
    cache = np.zeros((len(pieces), longest, form.width), form.dtype)
    for own, piece in zip(cache, pieces, strict=True):
        own[: piece.start] = alone(piece.request, kv_cache_dtype, judge.target.profile).records[: piece.start]
    queries = tuple(min(piece.end - piece.start, MOST_QUERIES) for piece in pieces)
    case = ContextCase(
        planned.context_lens,
        queries,
        planned.block_size,
        planned.workspace_rows,
        planned.align_chunk_to_block,
        kv_cache_dtype=kv_cache_dtype,
        heads=HEADS,
        qk_nope_head_dim=NOPE,
        v_head_dim=VALUE,
        origin=origin,
    )
    table = np.arange(len(pieces), dtype=np.int32)[:, None]
    q = numbers(Random(sum(queries)), (sum(queries), HEADS, NOPE + ROPE))
    return Batch(case, (PagedCache(cache, table),), SCALE, q, _kv_b_proj())


@lru_cache
def _kv_b_proj() -> Floats:
    return numbers(Random(65), (HEADS, NOPE + VALUE, LATENT))
