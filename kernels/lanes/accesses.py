"""The loads and stores of global memory in a kernel, each with what a warp touches in it."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernels.disassembly import Instruction
from kernels.lanes.flow import Flow
from kernels.lanes.operands import Registers, read
from kernels.lanes.values import LANES, SCATTERED, Value, total
from kernels.lanes.walk import State, walk

_GLOBAL = {"LDG": "load", "STG": "store"}
_ADDRESS = re.compile(r"\[([^\[\]]*)\]$")


@dataclass(frozen=True)
class Access:
    """One load or store: `width` bytes for each lane at `address`, or rather at its low half.

    `parted`: lanes may have come here by different ways; then all this holds for those that came the same way.
    """

    instruction: Instruction
    kind: str
    width: int
    address: Value
    parted: bool

    @property
    def uniform(self) -> bool:
        """Whether all lanes touch the same bytes."""
        return self.address.uniform

    @property
    def followed(self) -> bool:
        """Whether anything is known of how the addresses of lanes differ."""
        return len(set(self.address.names or ())) < LANES

    @property
    def stretches(self) -> tuple[int, ...]:
        """The lengths in bytes of what the lanes touch without a gap, the longest first.

        Where one stretch lies relative to another is not always known: they may adjoin, or be the same.
        """
        names = self.address.names or (0,) * LANES
        lengths: list[int] = []
        ends: dict[int, int] = {}
        for name, offset in sorted(zip(names, map(_signed, self.address.offsets), strict=True)):
            end = offset + self.width
            if offset <= ends.get(name, offset - 1):
                lengths[-1] += max(0, end - ends[name])
            else:
                lengths.append(self.width)
            ends[name] = max(end, ends.get(name, end))
        return tuple(sorted(lengths, reverse=True))

    @property
    def pattern(self) -> str:
        """What a warp does, in words: "16-byte store of 4 x 128 bytes", "8-byte load somewhere" if not followed."""
        if not self.followed:
            return f"{self.width}-byte {self.kind} somewhere"
        counted = Counter(self.stretches).items()
        stretches = " + ".join(f"{length}" if times == 1 else f"{times} x {length}" for length, times in counted)
        return f"{self.width}-byte {self.kind} of {stretches} bytes"


def accesses(code: Sequence[Instruction], subroutines: Mapping[str, int]) -> list[Access]:
    """Return the loads and stores of global memory in a kernel's section, in its order.

    `subroutines` gives the offsets in bytes of the subroutines in it, by name. Nothing is known of the addresses of a
    subroutine's own accesses, or of those that cannot be reached. Raises BuildError for a branch that cannot be
    followed.
    """
    found: dict[int, Access] = {}

    def visit(place: int, state: State) -> None:
        line = code[place]
        if line.name in _GLOBAL:
            address = _address(line, state.registers)
            found[place] = Access(line, _GLOBAL[line.name], line.width, address, state.parted)

    for place, line in enumerate(code):
        if line.name in _GLOBAL:
            found[place] = Access(line, _GLOBAL[line.name], line.width, SCATTERED, parted=True)
    walk(Flow(code, subroutines), visit)
    return list(found.values())


def _address(line: Instruction, registers: Registers) -> Value:
    match = next(match for operand in line.operands if (match := _ADDRESS.search(operand)))
    terms = [read(re.sub(r"\.(64|U32)$", "", term), registers) for term in match[1].split("+")]
    known = [(1, term) for term in terms if term is not None]
    return total(known) if len(known) == len(terms) else SCATTERED


def _signed(offset: int) -> int:
    return offset - ((offset >> 31) << 32)
