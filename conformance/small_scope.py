"""Every geometry of a small scope, gathered call by call out of one cache into one poisoned allocation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt

from conformance.generation import Geometry, realize
from conformance.judge import Differs, Judge, NotJudged
from conformance.memory import Region
from conformance.observe import TargetError, call, look, wrong_elements
from fixtures.cases import GatherCase, packed_starts
from fixtures.placement import POISONS, Placement, place
from reference.paging import row_sources
from reference.reading import read_records
from reference.records import NVFP4_DS_MLA, RecordLayout

MOST = 4  # the largest length and the largest start

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
            self.case,
            workspace_starts=packed_starts(self.lengths[call]),
            num_rows=sum(self.lengths[call]),
            seq_starts=None if starts is None else np.array(starts, np.int32),
            origin=f"small scope, lengths {self.lengths[call]}, starts {starts}",
        )


def batches(block_size: int, requests: int, layout: RecordLayout = NVFP4_DS_MLA) -> Iterator[Batch]:
    """All lengths 0..4 and all starts 0..4 (and none) of that many requests; a batch for all starts."""
    geometry = Geometry(block_size, (2 * MOST,) * requests)
    case = realize(geometry, seed=block_size * 10 + requests, layout=layout)
    every: list[Starts] = [None, *product(range(MOST + 1), repeat=requests)]
    for lengths in product(range(MOST + 1), repeat=requests):
        yield Batch(case, (lengths,) * len(every), tuple(every))


def judge_batch(judge: Judge, batch: Batch) -> None:
    """Raise Differs at the first call that does not conform, or for a write outside of all calls' rows."""
    expected, target = expected_dst(batch), judge.target
    blank = np.full_like(expected, POISONS[0].dst)
    placements = {**place(batch.case, POISONS[0]), **_starts(batch), "dst": _packed(blank)}
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
    requests, rows = len(batch.lengths[which]), sum(batch.lengths[which])
    starts = {name: regions[name].view[which, :requests] for name in ("workspace_starts", "seq_starts")}
    if batch.starts[which] is None:
        starts["seq_starts"] = None
    try:
        call(judge.target, regions, requests, batch.case.layout, dst=regions["dst"].view[which, :rows], **starts)
    except MemoryError as error:
        raise NotJudged(f"too little memory for {batch.single(which)!r}: {error}") from error
    except TargetError as error:
        raise judge.crashed(batch.single(which), error) from error


def expected_dst(batch: Batch) -> npt.NDArray[np.uint16]:
    """The golden model's dst, uint16 [calls, rows, 576]: the rows of a call, and poison behind them."""
    case, layout = batch.case, batch.case.layout
    read = read_records(layout, case.records.reshape(-1, layout.nbytes)).reshape(*case.records.shape[:2], layout.row)
    shape = (len(batch.lengths), max(map(sum, batch.lengths)) + 1, layout.row)
    filled = np.full(shape, POISONS[0].dst, np.uint16)
    for which, (lengths, starts) in enumerate(zip(batch.lengths, batch.starts, strict=True)):
        source = row_sources(packed_starts(lengths), starts, case.block_size, sum(lengths))
        filled[which, : sum(lengths)] = read[case.block_table[source.request, source.column], source.slot]
    return filled


def _starts(batch: Batch) -> dict[str, Placement]:
    workspace = np.array([packed_starts(lengths) for lengths in batch.lengths], np.int32)
    starts = np.array([(0,) * len(batch.lengths[0]) if s is None else s for s in batch.starts], np.int32)
    slack = workspace.shape[1] + 2  # what follows each call's starts is poison
    return {
        "workspace_starts": Placement(workspace, (slack, 1), 64, 64, POISONS[0].workspace_start),
        "seq_starts": Placement(starts, (slack, 1), 64, 64, POISONS[0].seq_start),
    }


def _packed(blank: npt.NDArray[np.uint16]) -> Placement:
    rows, row = blank.shape[1:]
    return Placement(blank, (rows * row, row, 1), row, row, POISONS[0].dst)
