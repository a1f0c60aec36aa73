"""What SPEC.md's chapter DEVICE asks of a call: each function raises Differs or Crashed, or returns."""

from __future__ import annotations

from collections.abc import Callable

from conformance.calls import Malformed, good_call, malformed_arguments
from conformance.device_operations import GATHERING, WRITING, Operation
from conformance.device_setup import Setup, captured, device_synchronize, prepared
from conformance.generation import Geometry, realize
from conformance.judge import Judge
from conformance.memory import Region
from conformance.observe import LeftPending, TargetError, call
from conformance.streams import ALLOCATIONS, Hold, capturing, done_within, node_types, settle
from conformance.targets.base import WRITES
from conformance.verdict import Crashed, Differs
from conformance.write_calls import good_write, malformed_write
from conformance.write_generation import Slots
from conformance.write_generation import realize as realize_write
from conformance.writes import judge_write
from fixtures.placement import Placement


def must_run_on_the_callers_stream(judge: Judge, operation: Operation = GATHERING) -> None:
    """DEVICE-1: a call behind a writer of its arguments, which has not run yet when the call returns."""
    before, after, _ = operation.variants_for(judge)
    with prepared(judge, operation, before) as setup:
        memory = judge.target.memory
        written = {name: memory.place(placement) for name, placement in operation.place(after).items()}
        copied = memory.place(operation.place(after)[operation.output])
        device_synchronize()
        with Hold(setup.stream):
            with memory.on_stream(setup.stream):
                for name, region in written.items():
                    setup.regions[name].base[:] = region.base
            setup.call()
            with memory.on_stream(setup.stream):
                copied.base[:] = setup.output.base
            settle()
            if not setup.is_blank():
                raise setup.differs(
                    "rows were written before what was enqueued earlier on the caller's stream was done"
                )
        setup.stream.synchronize()
        setup.case = after
        setup.must_be_right("a call behind a writer on the same stream")
        setup.regions[operation.output] = copied
        setup.must_be_right("what a copy behind the call saw")


def must_not_need_the_default_stream(judge: Judge, operation: Operation = GATHERING) -> None:
    """DEVICE-2: a call on a non-blocking stream while the default stream is held."""
    import cupy

    with prepared(judge, operation) as setup, Hold(cupy.cuda.Stream.null) as hold:
        setup.call()
        if not hold.holds or not done_within(setup.stream, 1.0):
            raise setup.differs("the call was not done before the default stream was, on which it has no business")
        setup.must_be_right("a call while the default stream is busy")


def must_return_at_once(judge: Judge, operation: Operation = GATHERING) -> None:
    """DEVICE-3: a call on a stream that is held."""
    with prepared(judge, operation) as setup, Hold(setup.stream) as hold:
        setup.call()
        if not hold.holds:
            raise setup.differs("the call returned only when the work enqueued before it was done")
        hold.release()
        setup.stream.synchronize()
        setup.must_be_right("a call on a busy stream")


def must_be_captured_and_replayed(judge: Judge, operation: Operation = GATHERING) -> None:
    """DEVICE-4: a graph that is replayed after its arguments have changed in place."""
    with prepared(judge, operation) as setup:
        graph = captured(setup)
        for number, case in enumerate([*operation.variants_for(judge), *operation.variants_for(judge)[:1]]):
            setup.hold(case)
            graph.launch(setup.stream)
            setup.stream.synchronize()
            setup.must_be_right(f"replay {number} of a captured call, with changed arguments")


def must_not_allocate(judge: Judge, operation: Operation = GATHERING) -> None:
    """DEVICE-5: what the library and the driver say of their memory, and what is in a captured graph."""
    import cupy

    with prepared(judge, operation) as setup:
        lost = []
        with judge.target.memory.count_allocations() as seen:
            for _ in range(10):
                free = cupy.cuda.runtime.memGetInfo()[0]
                setup.call()
                lost.append(free - cupy.cuda.runtime.memGetInfo()[0])
        device_synchronize()
        setup.blank()
        try:
            found = [f"{ALLOCATIONS[kind]} in its graph" for kind in node_types(captured(setup)) if kind in ALLOCATIONS]
        except (Differs, Crashed):
            found = []  # DEVICE-4 says so
        if seen:
            found.append(f"allocations of {seen[0]:,} bytes from the library's pool")
        if min(lost) > 0:  # other processes may allocate now and then, but not during each of ten calls
            found.append(f"at least {min(lost):,} bytes of free memory fewer after each call")
        if found:
            raise setup.differs(f"a call allocates: {', '.join(found)}")
        judge.count.add(0, 0)


def must_repeat_itself(judge: Judge, operation: Operation = GATHERING, times: int = 50) -> None:
    """DEVICE-6: one call again and again, over other content of dst each time."""
    with prepared(judge, operation, operation.long()) as setup:
        expected = operation.expected(judge, setup.case)
        for number in range(times):
            setup.blank()
            setup.call()
            setup.stream.synchronize()
            judge.same(setup.written(), expected, f"run {number} of the same call, and the golden model")
        judge.count.add(times * expected.size // expected.shape[-1], times * expected.size)


def must_not_disturb_a_call_on_another_stream(judge: Judge, operation: Operation = GATHERING, times: int = 20) -> None:
    """DEVICE-7: two calls that start together once both streams are released."""
    first, second, _ = operation.variants_for(judge)
    with prepared(judge, operation, first) as one, prepared(judge, operation, second) as other:
        for _ in range(times):
            one.blank()
            other.blank()
            with Hold(one.stream), Hold(other.stream):
                for setup in (one, other):
                    for _ in range(4):
                        setup.call()
            one.stream.synchronize()
            other.stream.synchronize()
            one.must_be_right("a call while another stream had one")
            other.must_be_right("a call while another stream had one")


def must_leave_nothing_pending(judge: Judge) -> None:
    """DEVICE-10: calls with rows, without rows and without requests; after each the judge looks for an error."""
    for lengths in ((5, 2), (0,), (0, 0), (), (1,)):
        for starts in (None, (3,) * len(lengths)):
            judge(judge.served(realize(Geometry(4, lengths, starts), seed=1)))


def must_leave_nothing_pending_after_a_write(judge: Judge) -> None:
    """DEVICE-10: writes with tokens, without, and with skipped ones alone."""
    for form in WRITES:
        if WRITES[form] in judge.target.capabilities:
            for slots in (Slots(5, 4), Slots(0, 4), Slots(3, 4, skipped=3)):
                judge_write(judge, realize_write(slots, 1, form))


def must_enqueue_nothing_if_refused(judge: Judge, malformed: Malformed) -> None:
    """DEVICE-11: a malformed gather in a capture, which must stay empty."""
    with prepared(judge, GATHERING, good_call()) as setup:
        placements, others = malformed_arguments(setup.case, malformed)
        what = f"{malformed.argument} {malformed.found}"
        _must_capture_nothing(setup, placements, what, lambda regions: call(judge.target, regions, **others))


def must_enqueue_nothing_if_a_write_is_refused(judge: Judge, malformed: Malformed) -> None:
    """DEVICE-11: a malformed write in a capture, which must stay empty."""
    with prepared(judge, WRITING, good_write()) as setup:
        placements = malformed_write(setup.case, malformed)
        what = f"{malformed.argument} {malformed.found}"
        _must_capture_nothing(setup, placements, what, lambda regions: WRITING.call(judge.target, regions, setup.case))


def _must_capture_nothing(
    setup: Setup, placements: dict[str, Placement], what: str, attempt: Callable[[dict[str, Region]], None]
) -> None:
    memory = setup.judge.target.memory
    regions = {name: memory.place(placement) for name, placement in placements.items()}
    device_synchronize()
    with capturing(setup.stream) as graphs, memory.on_stream(setup.stream):
        try:
            attempt(regions)
        except LeftPending as error:
            raise setup.judge.crashed(setup.case, error) from error
        except TargetError:
            pass
        else:
            raise setup.differs(f"{what}: accepted")
    if nodes := node_types(graphs[0]):
        raise setup.differs(f"{what}: refused, but {len(nodes)} nodes enqueued")
    setup.judge.count.add(0, 0)
