"""Drive a target through a scenario: writer, planner and gather on one cache, with each row and byte compared."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance import workspaces
from conformance.answers import answer_of, reading
from conformance.generation import Random
from conformance.judge import Judge
from conformance.metadata import METADATA, MetadataCase, differences, golden, seen_in
from conformance.metadata_rules import Fields
from conformance.scenarios.attention import attend
from conformance.scenarios.blocks import BlockPool
from conformance.scenarios.cache import Cache, takes_starts
from conformance.scenarios.golden import alone
from conformance.scenarios.scenario import Scenario
from conformance.scenarios.scheduler import Happened, Piece, Scheduler, Step
from conformance.targets.base import PLAN_METADATA, PLAN_WORKSPACE
from conformance.verdict import Differs, Unsupported
from conformance.workspaces import WorkspaceCase


@dataclass
class Tally:
    """Count the events of a scenario."""

    steps: int = 0
    tokens: int = 0
    """Written tokens."""
    padding: int = 0
    chunks: int = 0
    rows: int = 0
    """Gathered rows, all compared."""
    records: int = 0
    """Records that were read back and compared."""
    unaligned: int = 0
    """Pieces of a chunk that start within a block."""
    with_context: int = 0
    """Steps that gathered context."""
    attended: int = 0
    """Steps whose attention was compared."""
    evictions: int = 0
    reuses: int = 0
    """Blocks that were taken again."""
    happened: Happened = field(default_factory=Happened)


def serve(
    judge: Judge,
    scenario: Scenario,
    kv_cache_dtype: str = "nvfp4_ds_mla",
    scheduler: type[Scheduler] = Scheduler,
    pool: type[BlockPool] = BlockPool,
) -> Tally:
    """Serve a scenario with a target, and return the counts of events (ATTEND-8 to ATTEND-10).

    The rows of every chunk and the bytes of every record are compared, and the attention of some steps. Differs,
    Crashed and Unsupported, from the judge, pass through to the caller.

    Returns:
        The counts.

    """
    return _Engine(judge, scenario, kv_cache_dtype).run(scheduler, pool)


class _Engine:
    def __init__(self, judge: Judge, scenario: Scenario, kv_cache_dtype: str) -> None:
        self.judge, self.scenario, self.kv_cache_dtype = judge, scenario, kv_cache_dtype
        self.cache = Cache(judge, scenario, kv_cache_dtype, self._workspace_rows())
        self.table = Random(scenario.seed).permutation(scenario.max_num_seqs * scenario.max_blocks)
        self.table = self.table.reshape(scenario.max_num_seqs, -1) % scenario.num_blocks  # what other batches left
        self.tally = Tally()

    def run(self, scheduler: type[Scheduler], pool: type[BlockPool]) -> Tally:
        """Run steps until no request is left, and return the counts."""
        scenario = self.scenario
        blocks = pool(Random(scenario.seed + 1).permutation(scenario.num_blocks).tolist())
        queue = scheduler(
            scenario.requests,
            blocks,
            scenario.block_size,
            scenario.budgets,
            scenario.max_num_seqs,
            scenario.prefix_caching,
        )
        while not queue.done:
            if scenario.dummy_every and queue.number % scenario.dummy_every == 0:
                self.cache.dummy(scenario.dummy_tokens, queue.number)
            step = queue.schedule()
            for piece in step.preempted:
                self.read_back(piece, f"preempted before step {step.number}")
            self.execute(step)
            for piece in queue.update(step):
                self.read_back(piece, f"ended with step {step.number}")
            if scenario.look_every and queue.number % scenario.look_every == 0:
                for piece in queue.live():
                    self.read_back(piece, f"running after step {step.number}")
        if scenario.dummy_every:
            self.cache.dummy(scenario.dummy_tokens, queue.number)
        self.cache.finish()
        self.tally.evictions, self.tally.reuses, self.tally.happened = blocks.evictions, blocks.reuses, queue.happened
        return self.tally

    def execute(self, step: Step) -> None:
        """Write the tokens that a step computes, then gather the context of its requests."""
        self.tally.steps += 1
        if step.pieces:
            self._write(step)
        context = [piece for piece in step.pieces if self._gathers(piece)]
        if any(piece.start for piece in context):
            self._gather_context(step, context)

    def _gathers(self, piece: Piece) -> bool:
        """Return whether a piece gathers its context: no for a decode, and for a request beyond index_topk."""
        scenario = self.scenario
        if piece.end - piece.start <= scenario.decode_threshold:
            return False
        return scenario.index_topk is None or piece.end <= scenario.index_topk

    def _write(self, step: Step) -> None:
        given = [(alone(piece.request, self.kv_cache_dtype, self._profile), piece) for piece in step.pieces]
        kv_c = np.concatenate([each.kv_c[piece.start : piece.end] for each, piece in given])
        k_pe = np.concatenate([each.k_pe[piece.start : piece.end] for each, piece in given])
        slots = np.concatenate([self._slots(piece, piece.start) for piece in step.pieces])
        records = np.concatenate([each.records[piece.start : piece.end] for each, piece in given])
        self.tally.tokens += len(slots)
        self.tally.padding += self.cache.write(kv_c, k_pe, slots, records)

    def _slots(self, piece: Piece, start: int) -> npt.NDArray[np.int64]:
        """Return the slots of a piece's tokens from `start` on: int64 [end - start]."""
        column, record = np.divmod(np.arange(start, piece.end), self.scenario.block_size)
        return np.array(piece.blocks, np.int64)[column] * self.scenario.block_size + record

    def _gather_context(self, step: Step, pieces: Sequence[Piece]) -> None:
        for row, piece in enumerate(pieces):
            self.table[row, : len(piece.blocks)] = piece.blocks
        table = self.table[: len(pieces)]
        queries = tuple(accumulate((piece.end - piece.start for piece in pieces), initial=0))
        scenario, contexts = self.scenario, tuple(piece.start for piece in pieces)
        sizes = (self.cache.workspace_rows, scenario.block_size, scenario.align_chunk_to_block)
        case = MetadataCase(contexts, queries, *sizes)
        gathered = []
        for number, chunk in enumerate(self._plan(case)):
            requests = slice(*chunk["request_slice"])
            rows = self.cache.gather(table[requests], chunk["starts"], chunk["seq_lens"])
            where = f"step {step.number}, chunk {number}"
            self._compare_rows(rows, pieces[requests], chunk["starts"], chunk["seq_lens"], where)
            gathered.append(rows)
        self.tally.with_context += 1
        if scenario.attend_every and (self.tally.with_context - 1) % scenario.attend_every == 0:
            origin = f"{self._name}, step {step.number}"
            attend(self.judge, pieces, case, gathered, self.kv_cache_dtype, origin)
            self.tally.attended += 1

    def _plan(self, case: MetadataCase) -> Sequence[Fields]:
        """Return the chunks to gather: the target's, if it plans, else the golden model's.

        Returns:
            The chunks as fields by name.

        Raises:
            Differs: if the target's metadata are wrong.

        """
        expected = found = seen_in(golden(case), False)
        if PLAN_METADATA in self.judge.target.capabilities:
            answer = answer_of(self.judge, case, METADATA.operator, PLAN_METADATA)
            with reading(self.judge, case, "metadata"):
                found = seen_in(answer, False)
        if found != expected or expected is None or found is None:
            raise self._differs(differences(expected, found, False))
        return found.chunks

    def read_back(self, piece: Piece, when: str) -> None:
        """Compare a request's records, and the rows gathered from them. Raises Differs at the first difference."""
        expected = alone(piece.request, self.kv_cache_dtype, self._profile).records[: piece.end]
        found = self.cache.records(self._slots(piece, 0))
        self.tally.records += piece.end
        self.judge.count.add(piece.end, expected.size)
        if (found != expected).any():
            position, place = (int(i) for i in np.argwhere(found != expected)[0])
            want, got = int(expected[position, place]), int(found[position, place])
            wrong = int((found != expected).any(axis=1).sum())
            raise self._differs(
                [
                    self._place(piece, position, when),
                    f"element {place} of the record: expected 0x{want:02X}, got 0x{got:02X}",
                    f"{wrong:,} of {piece.end:,} records of the request differ",
                ]
            )
        most = self.cache.workspace_rows
        for start in range(0, piece.end, most):
            length = min(most, piece.end - start)
            rows = self.cache.gather(np.array([piece.blocks], np.int32), (start,), (length,))
            self._compare_rows(rows, [piece], (start,), (length,), when)

    def _compare_rows(
        self,
        rows: npt.NDArray[np.uint16],
        pieces: Sequence[Piece],
        starts: Sequence[int],
        lengths: Sequence[int],
        when: str,
    ) -> None:
        self.tally.chunks += 1
        self.tally.rows += len(rows)
        self.tally.unaligned += sum(start % self.scenario.block_size > 0 for start in starts)
        self.judge.count.add(len(rows), rows.size)
        first = 0
        for piece, start, length in zip(pieces, starts, lengths, strict=True):
            expected = alone(piece.request, self.kv_cache_dtype, self._profile).rows[start : start + length]
            found = rows[first : first + length]
            first += length
            if (found != expected).any():
                row, element = (int(i) for i in np.argwhere(found != expected)[0])
                want, got = int(expected[row, element]), int(found[row, element])
                raise self._differs(
                    [
                        f"{self._place(piece, start + row, when)}, gathered from token {start} on",
                        f"element {element} of the row: expected 0x{want:04X}, got 0x{got:04X}",
                        f"{int((found != expected).any(axis=1).sum()):,} of the request's {length:,} rows differ",
                    ]
                )

    def _place(self, piece: Piece, position: int, when: str) -> str:
        column, record = divmod(position, self.scenario.block_size)
        where = f"block {column} slot {record} -> physical block {piece.blocks[column]}"
        return f"{when}: request {piece.request.name} token {position} = {where}"

    def _differs(self, lines: list[str]) -> Differs:
        return Differs(self.judge.text("differs", [*lines, self._name]))

    @property
    def _name(self) -> str:
        return f"scenario {self.scenario.name}, {self.kv_cache_dtype}"

    def _workspace_rows(self) -> int:
        """Return the rows of the workspace. For a gather without starts they hold every context as a whole."""
        whole = self.scenario.max_num_seqs * self.scenario.longest
        rows = self._rows_of_the_scenario()
        return rows if takes_starts(self.judge, self.kv_cache_dtype) else max(rows, whole)

    def _rows_of_the_scenario(self) -> int:
        scenario = self.scenario
        if scenario.workspace_rows is not None:
            return scenario.workspace_rows
        sizes = (scenario.longest, scenario.max_num_seqs, scenario.block_size, scenario.index_topk or 1)
        case = WorkspaceCase("dense" if scenario.index_topk is None else "sparse", *sizes)
        if PLAN_WORKSPACE in self.judge.target.capabilities:
            with suppress(Unsupported):  # a target may have one builder alone
                workspaces.judge_workspace(self.judge, case)
        return workspaces.golden(case)

    @property
    def _profile(self) -> Any:
        return self.judge.target.profile
