"""Every geometry of a small scope, gathered call by call out of one cache into one poisoned allocation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from conformance.generation import Geometry, realize
from conformance.generics import over
from conformance.judge import Judge
from conformance.memory import Region
from conformance.observe import TargetError, call, look, wrong_elements
from conformance.verdict import Differs, NotJudged
from fixtures.cases import GatherCase, packed_starts
from fixtures.placement import POISONS, Placement, place, signature
from reference.paging import row_sources
from reference.reading import read_records
from reference.records import NVFP4_DS_MLA, RecordLayout

MOST = 4  # the largest length and the largest start
MOST_REQUESTS = 4  # of a gather without starts

Starts = tuple[int, ...] | None


@dataclass(frozen=True)
class Batch:
    """Calls that share cache and table: call i gathers `lengths[i]` rows a request from `starts[i]` on."""

    case: GatherCase
    """A case with the batch's cache and table, which needs all of both."""
    lengths: tuple[tuple[int, ...], ...]
    starts: tuple[Starts, ...]

    def single(self, call: int) -> GatherCase:
        """One call as a case of its own."""
        starts = self.starts[call]
        return replace(
            self.of_lengths(self.lengths[call]),
            seq_starts=None if starts is None else np.array(starts, np.int32),
            origin=f"small scope, lengths {self.lengths[call]}, starts {starts}",
        )

    def of_lengths(self, lengths: tuple[int, ...]) -> GatherCase:
        """The case with these lengths, without starts."""
        return self._of_lengths[lengths]

    @cached_property
    def _of_lengths(self) -> dict[tuple[int, ...], GatherCase]:
        return {
            lengths: replace(self.case, workspace_starts=packed_starts(lengths), num_rows=sum(lengths))
            for lengths in set(self.lengths)
        }

    @cached_property
    def told(self) -> dict[tuple[int, ...], dict[str, npt.NDArray[Any]]]:
        """By lengths, the arrays that say where each request's rows are."""
        told = signature(self.case.layout)
        return {
            lengths: {name: given.data for name, given in told.arrays(case, POISONS[0]).items()}
            for lengths, case in self._of_lengths.items()
        }


class Part(NamedTuple):
    """One of `parts` parts of the scope of so many requests, counted from 0: what one test judges."""

    requests: int
    number: int = 0
    parts: int = 1

    def __str__(self) -> str:
        """Return the id of its test."""
        return f"{self.requests}" if self.parts == 1 else f"{self.requests} part {self.number + 1} of {self.parts}"


PARTS = [Part(1), Part(2), *(Part(3, number, 5) for number in range(5))]
"""The whole scope: three requests are nine tenths of it, which one worker should not be left with at the end."""


def batches(block_size: int, part: Part, layout: RecordLayout = NVFP4_DS_MLA, most: int = MOST) -> Iterator[Batch]:
    """Yield the gathers of a part that have a row, of all starts from 0 to `most`: a batch for each list of lengths."""
    case, requests = _case(block_size, part.requests, layout, most), part.requests
    starts = tuple(product(range(most + 1), repeat=requests))
    for lengths in islice(product(range(most + 1), repeat=requests), part.number, None, part.parts):
        if any(lengths):
            yield Batch(case, (lengths,) * len(starts), starts)


def without_starts(block_size: int, requests: int, layout: RecordLayout = NVFP4_DS_MLA, most: int = MOST) -> Batch:
    """Return all lengths from 0 to `most`, with a row at least, without starts."""
    lengths = tuple(product(range(most + 1), repeat=requests))[1:]
    return Batch(_case(block_size, requests, layout, most), lengths, (None,) * len(lengths))


def without_rows(
    block_size: int, with_starts: bool, layout: RecordLayout = NVFP4_DS_MLA, most: int = MOST
) -> Iterator[Batch]:
    """Yield the gathers of one to three requests that have no row, with all starts from 0 to `most` or with none."""
    for requests in (1, 2, 3):
        starts = tuple(product(range(most + 1), repeat=requests)) if with_starts else (None,)
        yield Batch(_case(block_size, requests, layout, most), ((0,) * requests,) * len(starts), starts)


def _case(block_size: int, requests: int, layout: RecordLayout, most: int) -> GatherCase:
    """Return a case with blocks for `most` tokens of each request behind a start of `most`."""
    return over(realize(Geometry(block_size, (2 * most,) * requests), seed=block_size * 10 + requests), layout)


def judge_batch(judge: Judge, batch: Batch) -> None:
    """Raise Differs at the first call that does not conform, or for a write outside of all calls' rows."""
    expected, target = expected_dst(batch), judge.target
    blank = np.full_like(expected, POISONS[0].dst)
    placements = {**place(batch.case, POISONS[0]), **_by_call(batch), "dst": _packed(blank)}
    regions = {name: target.memory.place(placement) for name, placement in placements.items()}
    for which in range(len(batch.lengths)):
        _gather(judge, batch, which, regions)
    target.memory.synchronize()
    seen = look(target, regions, POISONS[0])
    wrong = wrong_elements(expected, seen.dst, target.nan, batch.case.layout)
    if wrong.any():
        single = batch.single(int(np.argwhere(wrong)[0][0]))
        judge(single)
        raise Differs(judge.text("differs", [f"rows beyond T were written: {single!r}"]))
    if seen.strays or seen.changed:
        raise Differs(judge.text("differs", [f"written outside of all calls' rows: {seen.strays} {seen.changed}"]))
    rows = sum(sum(lengths) for lengths in batch.lengths)
    judge.count.add(rows, rows * batch.case.layout.row, cases=len(batch.lengths))


def _gather(judge: Judge, batch: Batch, which: int, regions: dict[str, Region]) -> None:
    lengths, layout = batch.lengths[which], batch.case.layout
    told = signature(layout)
    sizes = {**{name: len(array) for name, array in batch.told[lengths].items()}, "seq_starts": len(lengths)}
    arguments = {name: regions[name].view[which, :size] for name, size in sizes.items()}
    if batch.starts[which] is None:
        arguments["seq_starts"] = None
    rows = slice(None) if told.spare_rows else slice(sum(lengths))
    arguments["dst"] = regions["dst"].view[which, rows]
    if judge.before:
        judge.before("gather", batch.single(which))
    try:
        call(judge.target, regions, layout, **arguments, **told.others(batch.of_lengths(lengths)))
    except MemoryError as error:
        raise NotJudged(f"too little memory for {batch.single(which)!r}: {error}") from error
    except TargetError as error:
        judge.asked = "gather", batch.single(which)
        raise judge.crashed(batch.single(which), error) from error


def expected_dst(batch: Batch) -> npt.NDArray[np.uint16]:
    """The golden model's dst, uint16 [calls, rows, 576]: the rows of a call, and poison behind them."""
    case, layout = batch.case, batch.case.layout
    records = case.records.reshape(-1, layout.nbytes)
    read = read_records(layout, records, case.scale).reshape(*case.records.shape[:2], layout.row)
    shape = (len(batch.lengths), max(map(sum, batch.lengths)) + 1, layout.row)
    filled = np.full(shape, POISONS[0].dst, np.uint16)
    for which, (lengths, starts) in enumerate(zip(batch.lengths, batch.starts, strict=True)):
        source = row_sources(packed_starts(lengths), starts, case.block_size, sum(lengths))
        filled[which, : sum(lengths)] = read[case.block_table[source.request, source.column], source.slot]
    return filled


def _by_call(batch: Batch) -> dict[str, Placement]:
    """What differs from call to call: a row for each call, with poison behind its entries."""
    starts = np.array([(0,) * len(batch.lengths[0]) if s is None else s for s in batch.starts], np.int32)
    placements = {"seq_starts": _with_slack(starts, POISONS[0].seq_start)}
    for name, placement in signature(batch.case.layout).arrays(batch.of_lengths(batch.lengths[0]), POISONS[0]).items():
        arrays = [batch.told[lengths][name] for lengths in batch.lengths]
        rows = np.full((len(arrays), max(map(len, arrays))), placement.poison, placement.data.dtype)
        for row, array in zip(rows, arrays, strict=True):
            row[: len(array)] = array
        placements[name] = _with_slack(rows, placement.poison)
    return placements


def _with_slack(rows: npt.NDArray[Any], poison: int) -> Placement:
    return Placement(rows, (rows.shape[1] + 2, 1), 64, 64, poison)


def _packed(blank: npt.NDArray[np.uint16]) -> Placement:
    rows, row = blank.shape[1:]
    return Placement(blank, (rows * row, row, 1), row, row, POISONS[0].dst)
