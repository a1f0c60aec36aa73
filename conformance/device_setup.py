"""A call on a CUDA device, made ready: its arguments there, a stream for it, and one such call behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from conformance.device_operations import Operation
from conformance.judge import Judge
from conformance.memory import Region
from conformance.observe import TargetError
from conformance.streams import Hold, capturing, new_stream, settle
from conformance.verdict import Differs, NotJudged


@dataclass
class Setup:
    """A target with the arguments of a call on the device, and a stream for it; `case` is what the arguments hold."""

    judge: Judge
    operation: Operation
    case: Any
    regions: dict[str, Region]
    stream: Any

    def call(self) -> None:
        """Make the call on the stream; Crashed if it raises."""
        memory = self.judge.target.memory
        try:
            with memory.on_stream(self.stream):
                self.operation.call(self.judge.target, self.regions, self.case)
        except TargetError as error:
            raise self.judge.crashed(self.case, error) from error

    def hold(self, case: Any) -> None:
        """Let the arguments hold another case of the same shapes, and the output poison."""
        for name, placement in self.operation.place(case).items():
            self.judge.target.memory.write(self.regions[name], placement.data)
        self.case = case
        device_synchronize()

    def blank(self) -> None:
        """Fill the output with poison."""
        region = self.output
        self.judge.target.memory.write(region, region.placement.data)
        device_synchronize()

    @property
    def output(self) -> Region:
        """Where the operator writes."""
        return self.regions[self.operation.output]

    def written(self) -> npt.NDArray[Any]:
        """What the output holds, read on another stream than the call's and the default one."""
        other = new_stream()
        with self.judge.target.memory.on_stream(other):
            found = self.judge.target.memory.read(self.output)
        other.synchronize()
        return found

    def is_blank(self) -> bool:
        """Whether no element of the output was written."""
        return bool((self.written() == self.output.placement.data).all())

    def must_be_right(self, what: str) -> None:
        """Raise Differs unless the output holds what the golden model says of the case."""
        expected = self.operation.expected(self.judge, self.case)
        self.judge.same(self.written(), expected, f"{what}, and the golden model")
        self.judge.count.add(expected.size // expected.shape[-1], expected.size)

    def differs(self, what: str) -> Differs:
        """The verdict that says what went wrong."""
        return Differs(self.judge.text("differs", [what, repr(self.case)]))


@contextmanager
def prepared(judge: Judge, operation: Operation, case: Any = None) -> Iterator[Setup]:
    """The arguments of a case, and one call behind it, so that whatever is done once is done."""
    case = operation.served(judge, case or operation.variants()[0])
    judge.need(operation.needs(case))
    memory = judge.target.memory
    try:
        regions = {name: memory.place(placement) for name, placement in operation.place(case).items()}
    except MemoryError as error:
        raise NotJudged(f"too little memory for {case!r}: {error}") from error
    setup = Setup(judge, operation, case, regions, new_stream())
    device_synchronize()
    setup.call()
    Hold(setup.stream).release()
    device_synchronize()
    setup.blank()
    try:
        yield setup
    finally:
        device_synchronize()


def device_synchronize() -> None:
    """Wait for all streams."""
    import cupy

    cupy.cuda.Device().synchronize()


def captured(setup: Setup) -> Any:
    """A graph with the call in it, of which nothing has run; Differs if it cannot be captured."""
    import cupy

    try:
        with capturing(setup.stream) as graphs:
            setup.call()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise setup.differs(f"the call cannot be captured into a graph: {error}") from error
    settle()
    if not setup.is_blank():
        raise setup.differs("rows were written while the call was captured, which is to do nothing yet")
    return graphs[0]
