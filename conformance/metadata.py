"""Metadata of chunked context: what is asked of a builder, and the verdict on its answer, field by field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from operator import index
from typing import Any

from conformance.answers import Question, judge_answers, members, refuses, truth
from conformance.judge import Judge
from conformance.metadata_rules import Asked, Fields, Seen, told, violations
from conformance.targets.base import PLAN_DCP, PLAN_METADATA
from conformance.verdict import Differs
from reference.context_metadata import build_mla_chunked_context_metadata
from reference.shards import Sharding


@dataclass(frozen=True)
class MetadataCase(Asked):
    """One call of a builder, with the arguments of Asked in their order."""

    @property
    def arguments(self) -> tuple[list[int], list[int], int, int, bool, int, int]:
        """In the order of the call."""
        at = (self.workspace_rows, self.block_size, self.align_chunk_to_block, self.dcp_world_size, self.interleave)
        return (list(self.context_lens), list(self.query_start_loc), *at)


TRUTHS = {"is_continuation": "PLAN-10"}
SLICES = {"request_slice": "PLAN-10", "token_slice": "PLAN-12"}
NUMBERS = {
    "continuation_token_end": "PLAN-13",
    "max_query_len": "PLAN-15",
    "max_seq_len": "PLAN-15",
    "num_context_tokens": "PLAN-16",
}
ARRAYS = {
    "seq_lens": "PLAN-10",
    "starts": "PLAN-10",
    "query_start_loc": "PLAN-14",
    "cu_seq_lens": "PLAN-16",
    "token_to_seq": "PLAN-17",
}
LOCAL_NUMBERS = {"num_local_context_tokens": "SHARD-12"}
LOCAL_ARRAYS = {
    "starts": "SHARD-7",
    "local_starts": "SHARD-7",
    "padded_local_seq_lens": "SHARD-8",
    "padded_local_cu_seq_lens": "SHARD-9",
    "padded_local_token_to_seq": "SHARD-10",
}
INT32 = {
    "starts",
    "query_start_loc",
    "cu_seq_lens",
    "token_to_seq",
    "padded_local_cu_seq_lens",
    "padded_local_token_to_seq",
}
"""PLAN-24's."""
ALLRANKS = {"local_context_lens_allranks": "SHARD-11"}
CLAUSE_OF = {**SLICES, **TRUTHS, **NUMBERS, **ARRAYS}
LOCAL_CLAUSE_OF = {**CLAUSE_OF, **LOCAL_NUMBERS, **LOCAL_ARRAYS, **ALLRANKS}


def judge_metadata(judge: Judge, case: MetadataCase) -> None:
    """Raise Differs or Crashed unless each field of the target's metadata is what SPEC.md leaves."""
    judge_kept_metadata(judge, [case])


def judge_kept_metadata(judge: Judge, cases: Sequence[MetadataCase]) -> None:
    """Raise as judge_metadata does, reading each answer when all of them are there (PLAN-22)."""
    for case in cases:
        _need(judge, case)
    judge_answers(judge, METADATA, *cases)


def _need(judge: Judge, case: MetadataCase) -> None:
    judge.need(PLAN_METADATA)
    if case.sharded:
        judge.need(PLAN_DCP)


def must_refuse(judge: Judge, case: MetadataCase) -> None:
    """Raise Differs unless the target refuses a workspace below the alignment (PLAN-11)."""
    _need(judge, case)
    judge.count.add(0, 0)
    refused, answer = refuses(judge, case, judge.target.build_mla_chunked_context_metadata)
    if refused:
        return
    lines = [f"PLAN-11: {case.workspace_rows} rows were accepted, the alignment is {case.alignment}"]
    sighting = METADATA.sighting([case], 0, METADATA.reply(case, answer))
    raise Differs(judge.text("differs", [*lines, f"got {answer!r:.300}"]), [repr(case)], sighting=sighting)


def golden(case: MetadataCase) -> Any:
    """The golden model's answer."""
    return build_mla_chunked_context_metadata(
        case.context_lens,
        case.query_start_loc,
        case.workspace_rows,
        case.block_size,
        case.align_chunk_to_block,
        Sharding(case.dcp_world_size, case.interleave),
    )


def seen_in(answer: Any, sharded: bool) -> Seen | None:
    """An answer as numbers and tuples; an exception that says so if a field is missing or holds something else."""
    if answer is None:
        return None
    return Seen(
        _ints(answer.context_lens),
        tuple(_slice(one) for one in answer.empty_token_slices),
        tuple(_fields(chunk, sharded) for chunk in members(answer.chunks)),
    )


def _fields(chunk: Any, sharded: bool) -> Fields:
    fields: dict[str, Any] = {}
    numbers, arrays = (NUMBERS | LOCAL_NUMBERS, ARRAYS | LOCAL_ARRAYS) if sharded else (NUMBERS, ARRAYS)
    rows = ALLRANKS if sharded else {}
    for names, read in ((SLICES, _slice), (TRUTHS, truth), (numbers, index), (arrays, _ints), (rows, _rows)):
        for name in names:
            try:
                field = getattr(chunk, name)
                fields[name] = read(field)
            except (AttributeError, TypeError) as error:
                raise TypeError(f"{(LOCAL_CLAUSE_OF if sharded else CLAUSE_OF)[name]}: {name}: {error}") from error
            if name in INT32 and (dtype := _type(field)) not in (None, "int32"):
                raise TypeError(f"PLAN-24: {name} is an array of {dtype}, not int32")
    return fields


def _ints(numbers: Any) -> tuple[int, ...]:
    return tuple(map(index, numbers.tolist() if hasattr(numbers, "tolist") else numbers))


def _rows(rows: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(map(_ints, rows))


def _type(array: Any) -> str | None:
    """The type of an array's elements, without the name of a library before it; None for what has none."""
    dtype = getattr(array, "dtype", None)
    return None if dtype is None else str(dtype).rpartition(".")[2]


def _slice(one: Any) -> tuple[int, int]:
    if one.step not in (None, 1):
        raise TypeError(f"{one} has a step")
    return index(one.start), index(one.stop)


def differences(expected: Seen | None, found: Seen | None, sharded: bool) -> list[str]:
    """A line for each field that differs in the first chunk where one does, with its clause, or for the batch's."""
    if expected is None or found is None:
        return [f"PLAN-8: expected {told(expected)}, got {told(found)}"]
    clauses = LOCAL_CLAUSE_OF if sharded else CLAUSE_OF
    lines = [
        f"{clause} {name}: expected {getattr(expected, name)}, got {getattr(found, name)}"
        for name, clause in (("context_lens", "PLAN-18"), ("empty_token_slices", "PLAN-19"))
        if getattr(expected, name) != getattr(found, name)
    ]
    for number, (want, got) in enumerate(zip(expected.chunks, found.chunks, strict=False)):
        wrong = [name for name in clauses if want[name] != got[name]]
        lines += [f"{clauses[name]} {name} of chunk {number}: expected {want[name]}, got {got[name]}" for name in wrong]
        if wrong:
            return lines
    if len(expected.chunks) != len(found.chunks):
        clause = "SHARD-6" if sharded else "PLAN-9"
        counts = f"expected {len(expected.chunks)} chunks, got {len(found.chunks)}"
        lines.append(f"{clause}: {counts}; those there are agree")
    return lines


METADATA = Question(
    "build_mla_chunked_context_metadata",
    PLAN_METADATA,
    "metadata",
    lambda case, answer: seen_in(answer, case.sharded),
    lambda case: seen_in(golden(case), case.sharded),
    lambda case, expected, found: [*violations(case, found), *differences(expected, found, case.sharded)],
)


def small_scope(requests: int, longest: int, most_ranks: int = 3, most_turns: int = 3) -> Iterator[MetadataCase]:
    """Every batch of requests with contexts up to `longest`, the smallest first, over workspaces and shardings.

    Up to `most_ranks` ranks take turns of up to `most_turns` tokens; requests have 2, 3, 0, 1 query tokens in turn.
    """
    queries = tuple(sum((2, 3, 0, 1)[:request]) for request in range(requests + 1))
    batches = sorted(product(range(longest + 1), repeat=requests), key=sum)
    for lengths, (size, align, ranks, turn) in product(batches, _settings(most_ranks, most_turns)):
        alignment = MetadataCase(lengths, queries, 1, size, align, ranks, turn).alignment
        for rows in _workspaces(alignment, ranks, longest):
            yield MetadataCase(lengths, queries, rows, size, align, ranks, turn)


def _settings(most_ranks: int, most_turns: int) -> list[tuple[int, bool, int, int]]:
    turns = range(1, most_turns + 1)
    blocks = ((1, True), (2, True), (3, True), (4, True), (4, False))
    several = [(ranks, turn) for ranks in range(2, most_ranks + 1) for turn in turns]
    return [(*block, *turn) for block in blocks for turn in ((1, 1), (1, most_turns), *several)]


def _workspaces(alignment: int, ranks: int, longest: int) -> list[int]:
    """A few alignments, one row more and one less, and rows that hold one or two of the longest contexts."""
    few = {alignment, alignment + 1, 2 * alignment - 1, 2 * alignment, 3 * alignment + 1}
    return sorted(few | {max(alignment, ranks * (longest + 1) + 1), max(alignment, 2 * ranks * longest)})
