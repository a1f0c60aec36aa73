"""Time a case on a GPU: gathers by several targets, the plain kernel, and a copy of as many bytes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.bench.devices import Device, Run, Stream
from conformance.bench.outcome import (
    FAILURES,
    Outcome,
    expected_rows,
    failed,
    measured,
    require_memory,
    wrong_bits,
)
from conformance.bench.results import Measurement
from conformance.bench.rotation import calls_needed, sets_needed
from conformance.bench.workloads import ROW, Case, Workload, rows_to_check, workload
from conformance.observe import TargetError, call
from conformance.targets.base import Target
from fixtures.placement import POISONS

GRAPH, BACK_TO_BACK = "graph", "back to back"
_WARM_UP = 50_000  # microseconds

UnderLoad = Callable[[Callable[[], object]], None]


def bench(
    device: Device,
    targets: Sequence[Target],
    plain: Target | None,
    case: Case,
    repeats: int,
    under_load: UnderLoad = lambda load: None,
) -> list[Measurement]:
    """Time a case on targets whose arrays come from one library.

    `plain` is the baseline, which need not be in `targets`, or None. `under_load` gets a function that keeps the device
    busy with gathers for some milliseconds, so that it can read the clocks meanwhile.

    Returns:
        A measurement for each of `targets`.

    """
    outcomes: dict[str, Outcome] = {}
    copies: list[float] = []
    ended = Outcome("")
    baseline = [plain] if plain and plain not in targets else []
    try:
        setup = _SetUp(device, case)
        with device.stream() as stream:
            copies += setup.copy_times(stream, repeats)
            for target in [*targets, *baseline]:
                outcomes[target.name] = setup.gather_time(target, stream, repeats, under_load)
            copies += setup.copy_times(stream, repeats)
    except FAILURES as error:
        ended = failed(error)
    return [
        _measurement(
            target,
            case,
            outcomes.get(target.name, ended),
            copy=statistics.median(copies) if copies else None,
            plain=outcomes.get(plain.name, ended).microseconds if plain else None,
        )
        for target in targets
    ]


def _measurement(target: Target, case: Case, ended: Outcome, copy: float | None, plain: float | None) -> Measurement:
    return Measurement(
        target.name,
        "device",
        **vars(case),
        **vars(ended),
        copy_microseconds=copy,
        plain_microseconds=plain,
    )


@dataclass
class _Set:
    """Hold the arrays that differ from call to call. The others are those of the workload."""

    cache: Any
    dst: Any
    copied: Any
    copy: Any


class _SetUp:
    """Hold the arrays of a case, in enough sets that the L2 cache never holds the next one."""

    def __init__(self, device: Device, case: Case) -> None:
        self.device, self.work = device, workload(case)
        count = sets_needed(case.nbytes, device.l2_bytes)
        self.calls = calls_needed(case.nbytes, count)
        require_memory(count * (self.work.set_nbytes + case.nbytes), device.free_bytes())
        self.sets = [_make_set(device, self.work, seed) for seed in range(count)]
        self.shared = {
            "block_table": device.upload(self.work.block_table),
            "workspace_starts": device.upload(self.work.workspace_starts),
            "seq_starts": device.upload(self.work.seq_starts),
        }

    def copy_times(self, stream: Stream, repeats: int) -> list[float]:
        """Time copies that read and write as many bytes as a gather: half of them are read, half written.

        The copies are not captured in a graph. A captured copy is left to a copy engine, which moves 2.7 TB/s on an
        H200; a copy on a plain stream moves 4.2 TB/s. The faster one is the baseline.

        Returns:
            Microseconds of one copy, `repeats` times.

        """

        def run() -> None:
            for i in range(self.calls):
                one = self.sets[i % len(self.sets)]
                stream.copy(one.copy, one.copied)

        _warm_up(stream, run)
        return [stream.elapsed(run) / self.calls for _ in range(repeats)]

    def gather_time(self, target: Target, stream: Stream, repeats: int, under_load: UnderLoad) -> Outcome:
        """Return the median microseconds of a call, or a verdict on wrong bits or an error.

        The bits of a first call and of the timed launches are compared with the golden model before the time is taken.

        Returns:
            The outcome.

        """
        try:
            self._blank()
            self._gather(target, 0)
            stream.synchronize()
            wrong = self._wrong_bits(target, 0, "after one call")
            if wrong:
                return wrong
            run, how = self._launches(target, stream)
            self._blank()
            run()
            stream.synchronize()
            # The graph lacks launches on another stream than the current one, and so does the measured time.
            wrong = self._wrong_bits(target, len(self.sets) - 1, f"launched as timed ({how}), on the current stream")
            if wrong:
                return wrong
            times = [stream.elapsed(run) / self.calls for _ in range(repeats)]
            under_load(lambda: stream.elapsed(run))
        except FAILURES as error:
            return failed(error)
        return measured(times, how)

    def _launches(self, target: Target, stream: Stream) -> tuple[Run, str]:
        def run() -> None:
            for i in range(self.calls):
                self._gather(target, i % len(self.sets))

        try:
            return stream.captured(run), GRAPH
        except (TargetError, RuntimeError):  # the gather synchronizes or allocates, which is allowed
            return run, BACK_TO_BACK

    def _gather(self, target: Target, number: int) -> None:
        arrays = {"src_cache": self.sets[number].cache, "dst": self.sets[number].dst, **self.shared}
        call(target, {}, batch_size=self.work.case.requests, **arrays)

    def _blank(self) -> None:
        for one in self.sets:
            self.device.fill(one.dst, POISONS[0].dst)

    def _wrong_bits(self, target: Target, number: int, when: str) -> Outcome | None:
        rows, one = rows_to_check(self.work), self.sets[number]
        expected = expected_rows(self.work, rows, lambda *at: self.device.records_of(one.cache, *at))
        return wrong_bits(expected, self.device.rows_of(one.dst, rows), rows, target.nan, when)


def _make_set(device: Device, work: Workload, seed: int) -> _Set:
    half = (work.case.nbytes // 2,)
    return _Set(
        cache=device.random_bytes(work.cache_shape, 2 * seed),
        dst=device.empty_rows(work.case.rows, ROW),
        copied=device.random_bytes(half, 2 * seed + 1),
        copy=device.random_bytes(half, 2 * seed + 1),
    )


def _warm_up(stream: Stream, run: Run) -> None:
    spent = 0.0
    while spent < _WARM_UP:  # a device that was idle raises its clocks first
        spent += max(1.0, stream.elapsed(run))
