"""Run a case on a target, in poisoned memory, and note everything that can be seen afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance import pending, tally
from conformance.memory import Region
from conformance.raised import told, where
from conformance.shortage import Shortage, is_shortage, stated
from conformance.targets.base import GATHERS, Target
from fixtures.cases import GatherCase
from fixtures.placement import POISONS, ZERO, Poison, is_huge, others, place
from reference.records import NVFP4_DS_MLA, RecordLayout
from reference.scalars import Bf16Bits


class TargetError(Exception):
    """What a target raised, as text; the exception itself is the cause. `frames` says where, a line each."""

    frames: Sequence[str] = ()

    @classmethod
    def of(cls, error: BaseException) -> TargetError:
        """Make one of what was raised."""
        made = cls(told(error))
        made.frames = where(error)
        return made


class LeftPending(TargetError):
    """A call left a CUDA error pending (DEVICE-10)."""


@dataclass
class Observation:
    """What one run left behind.

    `dst` is the output: uint16 [>= T, 576] for a gather, the cache for a writer; `strays` gives, by argument, elements
    outside its view that no longer hold poison, counted from the view's first element; `changed` gives, by input,
    indices of elements that the call overwrote.
    """

    poison: Poison
    dst: npt.NDArray[Any]
    strays: dict[str, list[int]] = field(default_factory=dict)
    changed: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)


def around(seen: Observation) -> frozenset[str]:
    """Return what a call did to memory that it may not write, a line for each array and side of it."""
    return frozenset(
        f"{name} written {'before' if place < 0 else 'between or behind'} its elements"
        for name, places in seen.strays.items()
        for place in places
    ) | {f"{name} overwritten" for name in seen.changed}


def patterns(case: GatherCase) -> tuple[Poison, ...]:
    """The poisons under which a case is run."""
    return (ZERO,) if is_huge(case) else POISONS


def observe(target: Target, case: GatherCase, poison: Poison) -> Observation:
    """One call of the target's gather; what the target raises is passed on."""
    regions = {name: target.memory.place(placement) for name, placement in place(case, poison).items()}
    call(target, regions, case.layout, **others(case))
    settle(target)
    return look(target, regions, poison)


def call(target: Target, regions: dict[str, Region], layout: RecordLayout = NVFP4_DS_MLA, **arguments: Any) -> None:
    """The gather of a layout with the regions' views, and arguments beside or instead; TargetError if it raises."""
    views = {name: region.view for name, region in regions.items()}
    invoke(target, getattr(target, GATHERS[layout.name][-1]), {**views, **arguments})


def invoke(target: Target, operator: Callable[..., None], arguments: dict[str, Any]) -> None:
    """Call an operator of a target; TargetError if it raises, LeftPending if it leaves a CUDA error behind.

    MemoryError, with the need, if it runs out of memory: that says nothing of what it does where there is more.
    """

    def call() -> None:
        with _around(target):
            operator(**{name: _handed(value) for name, value in arguments.items()})

    try:
        left = pending.call_and_take(target.memory, call)
    except (KeyboardInterrupt, Shortage):
        raise
    except BaseException as error:  # SystemExit and pytest's own skip and exit are no way out of a verdict
        raise TargetError.of(error) from error
    tally.note(target, getattr(operator, "__name__", ""), arguments)
    if left:
        raise LeftPending(f"the call returned and left a CUDA error pending: {left} (DEVICE-10)")


def _handed(value: Any) -> Any:
    """A new array object over the same memory: what a target does to the object itself reaches nobody else."""
    return value[...] if hasattr(value, "shape") and not isinstance(value, np.generic) else value


Around = Callable[[Target], AbstractContextManager[None]]


def _nothing(target: Target) -> AbstractContextManager[None]:
    return nullcontext()


_around: Around = _nothing


@contextmanager
def watching(around: Around) -> Iterator[None]:
    """Have each call of an operator made within `around(target)` for as long as the context lasts."""
    global _around
    _around = around
    try:
        yield
    finally:
        _around = _nothing


def settle(target: Target) -> None:
    """Wait for what was launched; TargetError if the device reports that it failed, MemoryError if it lacked memory."""
    try:
        target.memory.synchronize()
    except Exception as error:
        if is_shortage(error):
            raise stated(error, target.memory) from error
        raise TargetError(told(error).splitlines()[0]) from error


def lost_context(target: Target) -> str | None:
    """What the device says to everything from now on, if a call has ruined this process's CUDA context."""
    try:
        memory = target.memory if target.memory.on_device else None
    except Exception:  # a target without any memory has lost none
        return None
    try:
        if memory:
            memory.synchronize()
    except Exception as error:
        return (str(error) or type(error).__name__).splitlines()[0]
    return None


def look(target: Target, regions: dict[str, Region], poison: Poison, output: str = "dst") -> Observation:
    """Read the output back, compare every input, and look for writes outside of what may be written."""
    seen = Observation(poison, target.memory.read(regions[output]))
    for name, region in regions.items():
        if name != output:
            overwritten = _bits(target.memory.read(region)) != _bits(region.placement.data)
            if overwritten.any():
                seen.changed[name] = [tuple(int(i) for i in index) for index in np.argwhere(overwritten)[:8]]
        strays = target.memory.strays(region)
        if strays:
            seen.strays[name] = strays
    return seen


def _bits(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    # A NaN that is still there differs from itself as a number.
    return numbers.view(f"u{numbers.itemsize}")


def wrong_elements(
    expected: Bf16Bits, observed: Bf16Bits, nan: str, layout: RecordLayout = NVFP4_DS_MLA
) -> npt.NDArray[np.bool_]:
    """bool [T, 576]: where the bits differ.

    With nan "any", a NaN for a NaN is no difference (SPEC.md READ-6), but where bits are copied (TWIN-3, TWIN-8).
    """
    wrong: npt.NDArray[np.bool_] = expected != observed
    if nan == "any":
        either = _is_nan(expected) & _is_nan(observed)
        wrong[..., : layout.converted] &= ~either[..., : layout.converted]
    return wrong


def _is_nan(bits: Bf16Bits) -> npt.NDArray[np.bool_]:
    return (bits & 0x7FFF) > 0x7F80
