"""ATTEND-1 and ATTEND-7: what a target gathers for each chunk of a batch, and what attention makes of it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.close import must_be_close
from conformance.context_generation import Batch, PagedCache, realize
from conformance.judge import Judge
from conformance.memory import Region
from conformance.merging_through import merge_of
from conformance.observe import TargetError, invoke, look
from conformance.one_softmax import Arithmetic, Whole, attend_whole, error_bounds
from conformance.sighting import Alike, Make
from conformance.targets.base import GATHERS
from conformance.targets.models import NumpyTarget
from conformance.verdict import Differs, NotJudged
from fixtures.context_cases import ContextCase
from fixtures.placement import POISONS, Poison, placement
from reference.context import Gather, Seen, compute_prefill_context
from reference.context_metadata import ContextChunk, ShardedContextChunk
from reference.scalars import Bf16Bits
from reference.shards import interleaved

Array = npt.NDArray[Any]

LEFTOVERS = (0x7FC1, 0x3A5C, None)
"""What a workspace holds before a chunk, in turn: NaN, a number, and whatever is left of the chunk before."""


Log = list[Any]
"""Workspaces as they are after each chunk, rank by rank; then strays and changed inputs, rank by rank."""


class Workspace:
    """One rank's memory in a target: its cache and table, and the one workspace that its chunks are gathered into."""

    def __init__(self, judge: Judge, batch: Batch, cache: PagedCache, poison: Poison, log: Log) -> None:
        """The workspace has as many rows as one rank may use; what is seen of it goes into `log`."""
        self.judge, self.batch, self.poison, self.chunks, self.log = judge, batch, poison, 0, log
        self.takes_starts = GATHERS[batch.case.kv_cache_dtype][1] in judge.target.capabilities
        rows = batch.case.workspace_rows // batch.case.sharding.ranks
        columns = cache.block_table.shape[1] + 3
        self.leftover = np.full((rows, 576), poison.dst, np.uint16)
        self.regions = {
            "dst": self._place(self.leftover, (576, 1), poison.dst),
            "src_cache": self._place(cache.kv_cache, _packed(cache.kv_cache.shape), poison.cache),
            "block_table": self._place(cache.block_table, (columns, 1), -1),
        }
        self.scale = self._place(np.array([batch.scale], np.float32), (1,), 0)

    def rows(self, chunk: ContextChunk, starts: Array, cu_seq_lens: Array, token_to_seq: Array) -> Bf16Bits:
        """Gather a chunk's own rows; raise Differs if another row changes."""
        target, count = self.judge.target, int(cu_seq_lens[-1])
        leftover = LEFTOVERS[self.chunks % len(LEFTOVERS)]
        if leftover is not None:
            self.leftover = np.full_like(self.leftover, leftover)
            target.memory.write(self.regions["dst"], self.leftover)
        arguments = self._arguments(chunk, starts, cu_seq_lens, token_to_seq, count)
        try:
            invoke(target, getattr(target, GATHERS[self.batch.case.kv_cache_dtype][-1]), arguments)
            target.memory.synchronize()
        except MemoryError as error:
            raise NotJudged(f"too little memory for {self.batch.case!r}: {error}") from error
        except TargetError as error:
            raise self.judge.crashed(self.batch.case, error) from error
        seen = target.memory.read(self.regions["dst"])
        self.log.append(seen)
        if (seen[count:] != self.leftover[count:]).any():
            raise Differs(self.judge.text("differs", [f"rows behind the {count} of chunk {self.chunks} were written"]))
        self.chunks, self.leftover = self.chunks + 1, seen
        return seen[:count].copy()

    def must_be_as_it_was(self) -> None:
        """Raise Differs if something but the workspace was written."""
        seen = look(self.judge.target, self.regions, self.poison)
        self.log.append((seen.strays, seen.changed))
        if seen.strays or seen.changed:
            raise Differs(self.judge.text("differs", [f"written: {seen.strays} {seen.changed}", repr(self.batch.case)]))

    def _arguments(
        self, chunk: ContextChunk, starts: Array, cu_seq_lens: Array, token_to_seq: Array, count: int
    ) -> dict[str, Any]:
        numbers = {
            name: self._place(values, (1,), 0).view
            for name, values in (("seq_starts", starts), ("cu_seq_lens", cu_seq_lens), ("token_to_seq", token_to_seq))
        }
        arguments = {
            "src_cache": self.regions["src_cache"].view,
            "block_table": self.regions["block_table"].view[chunk.request_slice],
            "seq_starts": numbers["seq_starts"] if self.takes_starts else None,
        }
        if self.batch.case.kv_cache_dtype in ("auto", "fp8"):
            of_rows = {"cu_seq_lens": numbers["cu_seq_lens"], "token_to_seq": numbers["token_to_seq"]}
            told = {"num_tokens": count, "kv_cache_dtype": self.batch.case.kv_cache_dtype, "scale": self.scale.view}
            return {**arguments, "dst": self.regions["dst"].view, **of_rows, **told}
        rest = {"workspace_starts": numbers["cu_seq_lens"], "batch_size": len(starts)}
        return {**arguments, "dst": self.regions["dst"].view[:count], **rest}

    def _place(self, data: Array, strides: tuple[int, ...], poison: int) -> Region:
        return self.judge.target.memory.place(placement(data, strides, poison))


def must_attend_to_its_context(judge: Judge, case: ContextCase, poison: Poison | None = None) -> None:
    """Raise Differs unless every chunk's rows, Q, K and V are right bit for bit, and so, nearly, is the result.

    A target whose gather takes no starts is judged on the batch with a workspace that holds each context whole.
    """
    without, with_starts, _ = GATHERS[case.kv_cache_dtype]
    if with_starts not in judge.target.capabilities:
        judge.need(without)
        case = in_whole_contexts(case)
    else:
        judge.need(with_starts)
    with judge.on("chunks", case):
        _attend(judge, case, poison or POISONS[case.seed % len(POISONS)])


def in_whole_contexts(case: ContextCase) -> ContextCase:
    """Return the batch with a workspace in which no context is cut, so that every chunk starts with a first token."""
    rows = case.sharding.ranks * sum(case.sharding.padded_rows(length) for length in case.context_lens)
    least = case.sharding.alignment(case.block_size if case.aligned else 1)
    return replace(case, workspace_rows=max(case.workspace_rows, rows, least))


def _attend(judge: Judge, case: ContextCase, poison: Poison) -> None:
    batch = realize(case, judge.target.profile, poison)
    whole, log = attend_whole(batch), Log()
    try:
        gathered = _through_chunks(judge, batch, whole, np.float64, gather_of(judge, batch, poison, log))
    except Differs as error:
        error.sighting = sighting_of(batch, poison, log)
        raise
    kept = iter(gathered)
    _through_chunks(judge, batch, whole, np.float32, lambda chunk: next(kept))
    judge.count.add(0, 0)


def _through_chunks(
    judge: Judge, batch: Batch, whole: Whole, dtype: type[np.floating[Any]], gather: Gather
) -> list[Bf16Bits]:
    metadata, rows = batch.case.chunked_context, list[Bf16Bits]()

    def record(seen: Seen) -> None:
        _must_be_the_context(judge, batch, whole, seen, len(rows))
        rows.append(seen.rows)

    wide = dtype is np.float64
    result = compute_prefill_context(
        batch.q,
        gather,
        metadata,
        batch.kv_b_proj,
        whole.softmax_scale,
        dtype,
        merge_of(judge, np.float64 if wide else np.float32),
        record,
    )
    if wide:
        bounds = np.full_like(whole.output, 1e-10 * whole.largest_value), 1e-10 * (1 + np.abs(whole.lse))
    else:
        bounds = error_bounds(whole, metadata, Arithmetic(1))  # k and v were rounded once
    must_be_close(judge, batch, whole, result, bounds)
    return rows


def sighting_of(batch: Batch, poison: Poison, log: Log) -> Alike:
    """Return what gathers left in all workspaces until a chunk was judged wrong.

    No target agrees if the golden gather does: then what differs is not the gather's doing.
    """

    def leaves_the_same(make: Make) -> bool:
        mine = Log()
        gather, chunks = gather_of(Judge(make()), batch, poison, mine), iter(batch.case.chunked_context.chunks)
        with suppress(Differs):
            while len(mine) < len(log) and all(map(_same, mine, log)):
                gather(next(chunks))
        return len(mine) == len(log) and all(map(_same, mine, log))

    @cache
    def is_a_gathers_doing() -> bool:
        return not leaves_the_same(NumpyTarget)

    def agrees(make: Make) -> bool:
        return is_a_gathers_doing() and leaves_the_same(make)

    return Alike(GATHERS[batch.case.kv_cache_dtype][1], ("context", "gather", "twin"), agrees)


def _same(mine: Any, seen: Any) -> bool:
    return np.array_equal(mine, seen) if isinstance(seen, np.ndarray) else bool(mine == seen)


def gather_of(judge: Judge, batch: Batch, poison: Poison, log: Log) -> Gather:
    """The target's gather of a chunk, on each rank, put in the order of tokens; what is seen then goes into `log`."""
    ranks = [Workspace(judge, batch, cache, poison, log) for cache in batch.caches]
    last = batch.case.chunked_context.chunks[-1]

    def gather(chunk: ContextChunk) -> Bf16Bits:
        shards = [rank.rows(chunk, *local(chunk)) for rank in ranks]
        if chunk == last:
            for rank in ranks:
                rank.must_be_as_it_was()
        return shards[0] if len(shards) == 1 else interleaved(shards, chunk.seq_lens, batch.case.sharding)

    return gather


def local(chunk: ContextChunk) -> tuple[Array, Array, Array]:
    """A chunk's seq_starts, cu_seq_lens and token_to_seq as a rank is told them, in its own rows (SHARD-7 to 10)."""
    starts = np.array(chunk.starts, np.int32)
    if isinstance(chunk, ShardedContextChunk):
        return starts, np.array(chunk.padded_local_cu_seq_lens, np.int32), chunk.padded_local_token_to_seq
    return starts, np.array(chunk.cu_seq_lens, np.int32), chunk.token_to_seq


def _must_be_the_context(judge: Judge, batch: Batch, whole: Whole, seen: Seen, number: int) -> None:
    """Compare a chunk, bit for bit, with the slots that its tokens have."""
    chunk = seen.chunk
    requests = range(chunk.request_slice.start, chunk.request_slice.stop)
    pieces = [
        (request, slice(start, start + length))
        for request, start, length in zip(requests, _global_starts(batch, number), chunk.seq_lens, strict=True)
    ]
    expected = {
        "rows": np.concatenate([whole.requests[request].rows[piece] for request, piece in pieces]),
        "Q": np.concatenate([whole.requests[request].q for request in requests]).astype(seen.q.dtype),
        "K": np.concatenate([whole.requests[request].k[piece] for request, piece in pieces]).astype(seen.k.dtype),
        "V": np.concatenate([whole.requests[request].v[piece] for request, piece in pieces]).astype(seen.v.dtype),
    }
    found = {"rows": seen.rows, "Q": seen.q, "K": seen.k, "V": seen.v}
    for name, values in expected.items():
        wrong = _bits(values) != _bits(found[name]) if values.shape == found[name].shape else np.ones(1, np.bool_)
        if wrong.any():
            at = tuple(int(place) for place in np.argwhere(wrong)[0])
            whose = [(r, t) for r, piece in pieces for t in range(piece.start, piece.stop)]
            place = "" if name == "Q" else " = request {} token {}".format(*whose[at[0]])
            wanted, got = (
                f"0x{array[at]:04X}" if name == "rows" else str(array[at]) for array in (values, found[name])
            )
            lines = [
                f"chunk {number}, {name}, row {at[0]}{place}, element {at[1:]}: expected {wanted}, got {got}",
                f"{wrong.sum():,} of {wrong.size:,} elements in {len(np.unique(np.argwhere(wrong)[:, 0]))} rows differ",
            ]
            raise Differs(judge.text("differs", [*lines, repr(batch.case)]))
    judge.count.add(len(seen.rows), sum(values.size for values in expected.values()), cases=0)


def _global_starts(batch: Batch, number: int) -> list[int]:
    """The first token of each piece of a chunk, counted from the pieces before: no field of the chunk is believed."""
    chunks = batch.case.chunked_context.chunks
    before = [0] * len(batch.case.context_lens)
    for chunk in chunks[:number]:
        for request, length in enumerate(chunk.seq_lens, chunk.request_slice.start):
            before[request] += length
    return before[chunks[number].request_slice]


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


def _packed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
