"""A device made of NumPy, whose clock its targets move on."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.bench.devices import Run, busy_first
from conformance.generation import Random
from conformance.targets.models import NumpyTarget


class Clock:
    """Microseconds of the device's work, and how often it copied."""

    now = 0.0
    copies = 0


class FakeStream:
    """Counts what is launched; a "graph" of it is `replayed`, or is refused if that is None."""

    def __init__(self, clock: Clock, graphs: Any) -> None:
        self.clock, self.graphs = clock, graphs

    def captured(self, run: Run) -> Run:
        if self.graphs is None:
            raise RuntimeError("operation not permitted when stream is capturing")
        replay: Run = self.graphs(run)
        return replay

    def elapsed(self, run: Run) -> float:
        marks: list[float] = []
        busy_first(run, lambda: marks.append(self.clock.now), lambda: marks.append(self.clock.now))
        return marks[1] - marks[0]

    def copy(self, destination: Any, source: Any) -> None:
        assert destination.nbytes == source.nbytes
        self.clock.copies += 1
        self.clock.now += 9_000

    def synchronize(self) -> None:
        pass


class FakeDevice:
    """See Device."""

    l2_bytes = 60 << 20

    def __init__(self, clock: Clock, graphs: Any = lambda run: run, free: int = 1 << 40) -> None:
        self.clock, self.graphs, self.free = clock, graphs, free

    def facts(self) -> dict[str, Any]:
        return {}

    def identity(self) -> str:
        return "0"

    def free_bytes(self) -> int:
        return self.free

    def upload(self, numbers: npt.NDArray[np.int32]) -> Any:
        return numbers.copy()

    def random_bytes(self, shape: tuple[int, ...], seed: int) -> Any:
        return Random(seed).bytes(shape)

    def empty_rows(self, rows: int, width: int) -> Any:
        return np.empty((rows, width), np.uint16)

    def fill(self, dst: Any, bits: int) -> None:
        dst.fill(bits)

    def rows_of(self, dst: Any, rows: npt.NDArray[np.int64]) -> Any:
        return dst[rows]

    def records_of(self, cache: Any, blocks: npt.NDArray[np.int64], slots: npt.NDArray[np.int64]) -> Any:
        return cache[blocks, slots]

    @contextmanager
    def stream(self) -> Iterator[FakeStream]:
        yield FakeStream(self.clock, self.graphs)


class Timed(NumpyTarget):
    """The golden model, which takes `cost` microseconds of the device, and gathers nothing if it is `idle`."""

    def __init__(self, clock: Clock, name: str, cost: float) -> None:
        super().__init__()
        self.clock, self.name, self.cost, self.calls = clock, name, cost, 0
        self.caches: Counter[int] = Counter()
        self.error: Exception | None = None
        self.idle = False

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        self.calls += 1
        self.caches[src_cache.ctypes.data] += 1
        self.clock.now += self.cost
        if self.error:
            raise self.error
        if not self.idle:
            super().cp_gather_and_upconvert_nvfp4_kv_cache(
                src_cache, dst, block_table, workspace_starts, batch_size, seq_starts
            )
