"""Build the metadata of a batch around the plan of its chunks (SPEC.md PLAN-8 to PLAN-19, SHARD-6 to SHARD-12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from reference.chunks import Chunk, plan_mla_context_chunks
from reference.shards import Sharding

Int32s = npt.NDArray[np.int32]
Numbers = tuple[int, ...]

UNSHARDED = Sharding(1)


@dataclass(frozen=True)
class ContextChunk:
    """Describe a piece of each request of request_slice, and the query tokens that attend to it (PLAN-10 to 17)."""

    request_slice: slice
    token_slice: slice
    continuation_token_end: int
    is_continuation: bool
    query_start_loc: Numbers
    max_query_len: int
    cu_seq_lens: Numbers
    starts: Numbers
    max_seq_len: int
    seq_lens: Numbers

    @property
    def num_context_tokens(self) -> int:
        """The number of tokens of all pieces (PLAN-16)."""
        return self.cu_seq_lens[-1]

    @property
    def token_to_seq(self) -> Int32s:
        """The piece of each row, int32 [num_context_tokens] (PLAN-17)."""
        return _piece_of_each_row(self.seq_lens)


@dataclass(frozen=True)
class ShardedContextChunk(ContextChunk):
    """Describe a chunk of context that several ranks hold, and the rows that each of them gathers (SHARD-7 to 12)."""

    padded_local_seq_lens: Numbers
    padded_local_cu_seq_lens: Numbers
    local_context_lens_allranks: tuple[Numbers, ...]

    @property
    def local_starts(self) -> Numbers:
        """`starts`, which a sharded chunk counts in rows of one rank (SHARD-7)."""
        return self.starts

    @property
    def num_local_context_tokens(self) -> int:
        """The number of rows of one rank, padding included (SHARD-12)."""
        return self.padded_local_cu_seq_lens[-1]

    @property
    def padded_local_token_to_seq(self) -> Int32s:
        """The piece of each row of one rank, int32 [num_local_context_tokens] (SHARD-10)."""
        return _piece_of_each_row(self.padded_local_seq_lens)


@dataclass(frozen=True)
class ContextMetadata:
    """Hold the chunks of a batch, and the query tokens that attend to no chunk (PLAN-18, PLAN-19)."""

    context_lens: Numbers
    empty_token_slices: tuple[slice, ...]
    chunks: tuple[ContextChunk, ...]


def build_mla_chunked_context_metadata(
    context_lens: Sequence[int],
    query_start_loc: Sequence[int],
    workspace_rows: int,
    block_size: int,
    align_chunk_to_block: bool,
    sharding: Sharding = UNSHARDED,
) -> ContextMetadata | None:
    """Build the metadata of the context of R requests.

    context_lens: R numbers of tokens; query_start_loc: the R + 1 boundaries of the query tokens. A chunk is gathered
    into `workspace_rows` rows.

    Returns:
        The metadata, or None if no request has context (PLAN-8).

    Raises:
        ValueError: If a call is not legal by SPEC.md, for example PLAN-11. Names the argument, its value and what is
            allowed.

    """
    _check(context_lens, query_start_loc, block_size, sharding)
    if sharding.ranks == 1:
        sharding = UNSHARDED  # there are no turns to take
    if not any(context_lens):
        return None
    alignment = sharding.alignment(block_size if align_chunk_to_block else 1)  # SHARD-6
    if workspace_rows < alignment:
        raise ValueError(
            f"workspace_rows is {workspace_rows}; allowed is at least the alignment {alignment}"
        )  # PLAN-11
    plan = plan_mla_context_chunks(
        context_lens,
        workspace_rows // sharding.ranks,
        workspace_rows // alignment * alignment,
        alignment,
        sharding.padded_rows,
    )
    return ContextMetadata(
        tuple(context_lens),
        tuple(
            slice(query_start_loc[request], query_start_loc[request + 1])
            for request, length in enumerate(context_lens)
            if length == 0
        ),
        tuple(_context_chunk(chunk, context_lens, query_start_loc, sharding) for chunk in plan),
    )


def _context_chunk(
    chunk: Chunk, context_lens: Sequence[int], query_start_loc: Sequence[int], sharding: Sharding
) -> ContextChunk:
    requests = slice(chunk.request_start, chunk.request_end)
    boundaries = query_start_loc[chunk.request_start : chunk.request_end + 1]
    first = boundaries[0]
    whole = ContextChunk(
        request_slice=requests,
        token_slice=slice(first, boundaries[-1]),
        continuation_token_end=boundaries[1],
        is_continuation=chunk.is_continuation,
        query_start_loc=tuple(boundary - first for boundary in boundaries),
        max_query_len=max(end - start for start, end in pairwise(boundaries)),
        cu_seq_lens=(0, *accumulate(chunk.seq_lens)),
        starts=chunk.starts,
        max_seq_len=max(chunk.seq_lens),
        seq_lens=chunk.seq_lens,
    )
    return whole if sharding.ranks == 1 else _sharded(whole, context_lens[requests], sharding)


def _sharded(whole: ContextChunk, context_lens: Sequence[int], sharding: Sharding) -> ShardedContextChunk:
    rows = tuple(sharding.padded_rows(length) for length in whole.seq_lens)
    shared = {**vars(whole), "starts": tuple(sharding.padded_rows(start) for start in whole.starts)}
    return ShardedContextChunk(
        **shared,
        padded_local_seq_lens=rows,
        padded_local_cu_seq_lens=(0, *accumulate(rows)),
        local_context_lens_allranks=tuple(
            tuple(sharding.local_length(length, rank) for rank in range(sharding.ranks)) for length in context_lens
        ),
    )


def _piece_of_each_row(rows: Numbers) -> Int32s:
    return np.repeat(np.arange(len(rows), dtype=np.int32), rows)


def _check(context_lens: Sequence[int], query_start_loc: Sequence[int], block_size: int, sharding: Sharding) -> None:
    for request, length in enumerate(context_lens):
        if length < 0:
            raise ValueError(f"context_lens[{request}] is {length}; allowed is at least 0")
    if len(query_start_loc) != len(context_lens) + 1:
        entries = f"{len(context_lens) + 1} for {len(context_lens)} context_lens"
        raise ValueError(f"query_start_loc has {len(query_start_loc)} entries; allowed are {entries}")
    if query_start_loc[0] != 0:
        raise ValueError(f"query_start_loc[0] is {query_start_loc[0]}; allowed is 0")
    for request in range(len(context_lens)):
        before, after = query_start_loc[request], query_start_loc[request + 1]
        if after < before:
            raise ValueError(f"query_start_loc[{request + 1}] is {after}; allowed is at least {before}, the one before")
    for name, number in (("block_size", block_size), ("ranks", sharding.ranks), ("interleave", sharding.interleave)):
        if number < 1:
            raise ValueError(f"{name} is {number}; allowed is at least 1")
