"""Which registers an instruction reads and writes, and what the text of an operand stands for."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kernels.disassembly import Instruction
from kernels.lanes.values import UNIFORM, Value, constant, opaque, total

Registers = dict[str, Value]
"""Values by name: "R2", "UR4", "P0". What no instruction has written is the same in all lanes, for nothing heeds it."""

_MENTIONED = re.compile(r"\bU?(?:R(?:\d+|Z)|P(?:\d+|T))\b")
_PLAIN = re.compile(r"(?P<sign>[-~]?)(?:(?P<number>0x[0-9a-f]+)|(?P<register>U?R(?:\d+|Z)))(?:\.reuse)?")
_PREDICATE = re.compile(r"!?U?P(?:\d+|T)")
_RESULT = re.compile(r"U?R(?:\d+|Z)")
_TO_PREDICATES = frozenset({"FCHK", "FSETP", "HSETP2", "ISETP", "PLOP3"})


@dataclass(frozen=True)
class Operands:
    """The predicates and registers that an instruction writes, and what it reads, as text.

    Of a result that is several registers only the first is named here.
    """

    predicates: tuple[str, ...]
    results: tuple[str, ...]
    sources: tuple[str, ...]


def base_name(instruction: Instruction) -> str:
    """Return the name of the opcode; for one on uniform registers that of its twin for lanes, IADD3 for UIADD3."""
    return instruction.name.removeprefix("U")


def split(instruction: Instruction) -> Operands:
    """Return the operands of an instruction that has a result, by what becomes of them."""
    rest = list(instruction.operands)
    predicates: list[str] = []
    results: list[str] = []
    to_predicates = base_name(instruction) in _TO_PREDICATES
    most = 0 if to_predicates else 1
    if instruction.name == "LDG":  # 32 bytes at once come in two quads of registers
        most = next(place for place, operand in enumerate(rest) if "[" in operand)
    while rest and (_PREDICATE.fullmatch(rest[0]) or (len(results) < most and _RESULT.fullmatch(rest[0]))):
        (results if _RESULT.fullmatch(rest[0]) else predicates).append(rest.pop(0))
    if to_predicates:  # two are written, those behind them are read
        rest = predicates[2:] + rest
        del predicates[2:]
    return Operands(tuple(predicates), tuple(results), tuple(rest))


def length_of_result(instruction: Instruction) -> int:
    """Return how many consecutive registers each result of an instruction is, by its modifiers."""
    modifiers = set(instruction.modifiers)
    if "128" in modifiers or "256" in modifiers:
        return 4
    if "96" in modifiers:
        return 3
    if instruction.name == "CS2R":
        return 1 if "32" in modifiers else 2
    # Elsewhere U64 and F64 are the type of a source.
    converted = {"F2I": {"U64", "S64"}, "I2F": {"F64"}}.get(base_name(instruction), set())
    return 1 if modifiers.isdisjoint({"64", "WIDE"} | converted) else 2


def behind(register: str, places: int) -> str:
    """Return the name of the register `places` behind one; behind RZ and PT there are only they."""
    kind = register.rstrip("0123456789")
    return register if kind == register else f"{kind}{int(register[len(kind) :]) + places}"


def read(operand: str, registers: Registers) -> Value | None:
    """Return the value of a register, a number, a constant from memory or a predicate; None for any other operand."""
    if _PREDICATE.fullmatch(operand):
        return read_predicate(operand, registers)
    if (plain := _PLAIN.fullmatch(operand)) is not None:
        value = constant(int(plain["number"], 16)) if plain["number"] else _value(plain["register"], registers)
        terms = {"": [(1, value)], "-": [(-1, value)], "~": [(-1, value), (-1, constant(1))]}
        return total(terms[plain["sign"]])
    return opaque(_mentioned(operand, registers)) if "c[" in operand else None


def read_predicate(operand: str, registers: Registers) -> Value:
    """Return the value of a predicate, negated or not: an unknown that is the same in lanes where the predicate is."""
    return registers.get(operand.removeprefix("!"), UNIFORM)


def inputs(instruction: Instruction, sources: Sequence[str], registers: Registers) -> list[Value]:
    """Return the values of all registers on which the results of an instruction can depend."""
    modifiers = set(instruction.modifiers)
    first_pair = len(sources)
    if "WIDE" in modifiers:
        first_pair = 2  # the addend
    elif base_name(instruction) != "SHF" and not modifiers.isdisjoint({"64", "U64", "S64", "F64"}):
        first_pair = 0  # SHF names both halves
    return [
        value
        for place, source in enumerate(sources)
        for value in _mentioned(source, registers, pairs=place >= first_pair)
    ]


def _mentioned(operand: str, registers: Registers, pairs: bool = False) -> list[Value]:
    values = []
    for match in _MENTIONED.finditer(operand):
        pair = "P" not in match[0] and (pairs or operand[match.end() :].startswith(".64"))
        values += [_value(behind(match[0], place), registers) for place in range(1 + pair)]
    return values


def _value(register: str, registers: Registers) -> Value:
    return constant(0) if register.endswith("RZ") else registers.get(register, UNIFORM)
