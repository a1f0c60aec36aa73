"""The walk through a kernel's code, over every branch, until nothing new is learnt of the registers anywhere."""

from collections.abc import Callable
from dataclasses import dataclass

from kernels.cache import BuildError
from kernels.lanes.flow import Flow, conditions
from kernels.lanes.operands import Registers, read_predicate
from kernels.lanes.steps import step
from kernels.lanes.values import choice


@dataclass(frozen=True)
class State:
    """What the registers hold, and whether lanes may have come to it by different ways."""

    registers: Registers
    parted: bool

    def merged(self, other: "State") -> "State":
        """Return what holds of both, for lanes that come from the same of the two."""
        registers = self.registers | other.registers
        for register, value in self.registers.items():
            if registers[register] != value:
                registers[register] = choice(value, registers[register])
        return State(registers, self.parted or other.parted)


Visitor = Callable[[int, State], None]
"""Told of a place and the state before it. Of what it is told of one place, the last holds."""


def walk(flow: Flow, visit: Visitor | None = None, entry: int = 0, start: State | None = None) -> State | None:
    """Walk from `entry` with the state `start`; return the state in which the code returns, None if it does not.

    Raises BuildError for a branch that cannot be followed.
    """
    before = {entry: start or State({}, parted=False)}
    waiting = {entry}
    returned: State | None = None
    while waiting:
        place = min(waiting)
        waiting.remove(place)
        now = before[place]
        while True:
            if visit is not None:
                visit(place, now)
            now = _behind(flow, place, now)
            if flow.code[place].name == "RET":
                returned = now if returned is None else returned.merged(now)
            if flow.targets(place) != [place + 1] or place + 1 in flow.meeting_places:
                break
            place += 1
        for target in flow.targets(place):
            merged = now if target not in before else before[target].merged(now)
            if merged != before.get(target):
                before[target] = merged
                waiting.add(target)
    return returned


def _behind(flow: Flow, place: int, now: State) -> State:
    line = flow.code[place]
    if not line.branches:
        registers = dict(now.registers)
        step(line, registers)
        return State(registers, now.parted)
    together = all(read_predicate(condition, now.registers).uniform for condition in conditions(line))
    if (subroutine := flow.subroutine(place)) is not None:
        if (returned := walk(flow, None, subroutine, now)) is None:
            raise BuildError(f"a call that does not return: {line}")
        now, ways = (returned.merged(now), 2) if line.predicate else (returned, 1)
    else:
        ways = len(flow.targets(place))
    return State(now.registers, now.parted or (ways > 1 and not together))
