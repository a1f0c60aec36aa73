"""Where an instruction leads: the branches of a section of code."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from kernels.cache import BuildError
from kernels.disassembly import INSTRUCTION_BYTES, Instruction

_GOES_ON = frozenset({"BMOV", "BREAK", "BSSY", "CALL", "WARPSYNC", "YIELD"})
_ENDS = frozenset({"BPT", "EXIT", "KILL", "RET"})
_PREDICATE = re.compile(r"!?U?P\d")


@dataclass(frozen=True)
class Flow:
    """A section of code, and the offsets in bytes of the subroutines in it by name. A place is an index into `code`."""

    code: Sequence[Instruction]
    subroutines: Mapping[str, int]

    @cached_property
    def meeting_places(self) -> frozenset[int]:
        """The places to which there may be more ways than one."""
        return frozenset(_target(line) for line in self.code if line.name in ("BRA", "BSSY"))

    def targets(self, place: int) -> list[int]:
        """Return the places that may come next; raise BuildError for a branch that cannot be followed."""
        line = self.code[place]
        if not line.branches or line.name in _GOES_ON:
            return [place + 1]
        if line.name == "BSYNC":
            return self._behind_barrier(place)
        behind = [place + 1] if conditions(line) else []
        if line.name in _ENDS:
            return behind
        if line.name == "BRA":
            return [*behind, _target(line)]
        raise BuildError(f"a branch that cannot be followed: {line}")

    def subroutine(self, place: int) -> int | None:
        """Return where the subroutine begins that is called at a place, None if none is; may raise BuildError."""
        line = self.code[place]
        if line.name != "CALL":
            return None
        if line.operands[-1] not in self.subroutines:
            raise BuildError(f"a call that cannot be followed: {line}")
        return self.subroutines[line.operands[-1]] // INSTRUCTION_BYTES

    def _behind_barrier(self, place: int) -> list[int]:
        # Lanes go on together where the BSSY says that set the barrier up: the innermost around this place.
        barrier = self.code[place].operands[0]
        setting_up = [
            (start, _target(line))
            for start, line in enumerate(self.code)
            if (line.name, *line.operands[:1]) == ("BSSY", barrier)
        ]
        around = [target for start, target in setting_up if start < place < target]
        return around[-1:] or [target for _, target in setting_up]


def conditions(line: Instruction) -> list[str]:
    """Return the predicates that decide where a branch leads."""
    return [operand for operand in (line.predicate, *line.operands) if _PREDICATE.fullmatch(operand)]


def _target(line: Instruction) -> int:
    try:
        return int(line.operands[-1], 16) // INSTRUCTION_BYTES
    except ValueError:
        raise BuildError(f"a branch that cannot be followed: {line}") from None
