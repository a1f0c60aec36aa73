"""What one instruction makes of the registers, lane by lane. What these rules do not know is unknown afterwards."""

import re
from collections.abc import Callable, Sequence

from kernels.disassembly import Instruction
from kernels.lanes.operands import (
    Registers,
    base_name,
    behind,
    inputs,
    length_of_result,
    read,
    read_predicate,
    split,
)
from kernels.lanes.values import LANE, SCATTERED, UNIFORM, Value, choice, constant, known, opaque, product, total

# What they give to a lane depends on that lane's operands, and on memory, alone. Some of them have a twin with a U.
_LANEWISE = re.compile(
    "BMSK|BREV|F2FP|F2I|FADD|FCHK|FFMA|FLO|FMNMX|FMUL|FSEL|FSETP|HADD2|HFMA2|HMNMX2|HMUL2|HSETP2|I2F|I2FP|I2I|IABS"
    "|IADD|IADD3|IMAD|IMNMX|ISETP|LDC|LDCU|LDG|LDS|LEA|LOP3|MOV|MUFU|PLOP3|POPC|PRMT|R2UR|S2UR|SEL|SGXT|SHF|SHL|SHR"
    "|VIADD|VIADDMNMX|VIMNMX|VIMNMX3"
)
# What they give to a lane depends on other lanes, or on what is nowhere in the registers.
_NOT_LANEWISE = re.compile("ATOM|ATOMG|ATOMS|LD|LDL|LDSM|MATCH|P2R|REDUX|SHFL|VOTE")
_WITHOUT_RESULT = re.compile("BAR|CCTL|DEPBAR|ERRBAR|MEMBAR|NOP|RED|ST|STG|STL|STS|WARPSYNC|YIELD")
_SAME_IN_A_WARP = ("SR_TID.Y", "SR_TID.Z", "SR_CTAID.", "SR_NTID", "SR_NCTAID")
_MOST_REGISTERS = 8
_PREDICATES = [f"P{number}" for number in range(7)]


def step(instruction: Instruction, registers: Registers) -> None:
    """Change `registers` as the instruction does; it is none that branches."""
    if _WITHOUT_RESULT.fullmatch(base_name(instruction)):
        return
    chooser = read_predicate(instruction.predicate, registers)
    for register, value in _results(instruction, registers).items():
        if register.endswith(("Z", "T")):
            continue
        if instruction.predicate and register in registers:
            value = choice(value, registers[register], chooser)
        registers[register] = value


def _results(instruction: Instruction, registers: Registers) -> Registers:
    operands = split(instruction)
    name, length = base_name(instruction), length_of_result(instruction)
    if name == "R2P":  # all predicates from the bits of a register
        return dict.fromkeys(_PREDICATES, SCATTERED)
    first, others = _by_rule(instruction, operands.sources, registers), SCATTERED
    if name in ("S2R", "CS2R"):
        others = _special(operands.sources[0])
    elif _LANEWISE.fullmatch(name):
        others = opaque(inputs(instruction, operands.sources, registers))
    elif not _NOT_LANEWISE.fullmatch(name):
        length = _MOST_REGISTERS
    results = dict.fromkeys(operands.predicates, others)
    for register in operands.results:
        results |= {behind(register, place): others for place in range(length)}
        if first is not None:
            results[register] = first
    return results


def _special(register: str) -> Value:
    if register == "SRZ":
        return constant(0)
    if register in ("SR_TID.X", "SR_LANEID"):
        return LANE
    return UNIFORM if register.startswith(_SAME_IN_A_WARP) else SCATTERED


# A rule returns the first register of a result, or None if the sources do not let it.
_Sources = Sequence[Value | None]
_Rule = Callable[[Instruction, _Sources], Value | None]


def _by_rule(instruction: Instruction, sources: Sequence[str], registers: Registers) -> Value | None:
    rule, modifiers = _RULES.get(base_name(instruction), (None, ""))
    if rule is None or not set(instruction.modifiers) <= set(modifiers.split()):
        return None
    return rule(instruction, [read(source, registers) for source in sources])


def _add(instruction: Instruction, sources: _Sources) -> Value | None:
    terms = [(1, value) for value in sources if value is not None]
    return total(terms) if len(terms) == len(sources) else None


def _multiply_add(instruction: Instruction, sources: _Sources) -> Value | None:
    left, right, *addends = sources
    if left is None or right is None:
        return None
    return _add(instruction, [product(left, right), *addends])


def _shift_left_add(instruction: Instruction, sources: _Sources) -> Value | None:
    value, addend, *others = sources
    if "HI" not in instruction.modifiers:
        return _add(instruction, [_shift_left(value, others[0]), addend])
    # The high word of 64 bits shifted left; with SX32 their own high word is the sign of the low one.
    extended = "SX32" in instruction.modifiers
    high, places, *carry = [_signs(value), *others] if extended else others
    back = None if places is None else total([(1, constant(32)), (-1, places)])
    return _add(instruction, [_shift_right(value, back, high), addend, *carry])


def _signs(value: Value | None) -> Value | None:
    return _shift_right(value, constant(31), value, signed=True, word=1)


def _shift_left(value: Value | None, places: Value | None) -> Value | None:
    if value is None or places is None or not places.known or max(places.offsets) > 31:
        return None
    return product(value, known(1 << place for place in places.offsets))


def _shift(instruction: Instruction, sources: _Sources) -> Value | None:
    low, places, high = sources
    modifiers = set(instruction.modifiers)
    if "L" in modifiers:
        return None if "HI" in modifiers else _shift_left(low, places)
    return _shift_right(low, places, high, signed=not modifiers.isdisjoint({"S32", "S64"}), word=int("HI" in modifiers))


def _shift_right(
    low: Value | None, places: Value | None, high: Value | None, signed: bool = False, word: int = 0
) -> Value | None:
    """One word, 0 or 1, of 64 bits shifted right by up to 32 places."""
    if low is None or places is None or high is None or not (low.known and places.known and high.known):
        return None
    if max(places.offsets) > 32:
        return None
    return known(
        (upper << 32 | lower) - ((signed and upper >> 31) << 64) >> place + 32 * word
        for lower, place, upper in zip(low.offsets, places.offsets, high.offsets, strict=True)
    )


def _logic(instruction: Instruction, sources: _Sources) -> Value | None:
    first, second, third, table = sources[:4]
    if first is None or second is None or third is None or table is None:
        return None
    if not (first.known and second.known and third.known and table.known):
        return None
    # Bit 4a + 2b + c of the table is what three bits a, b, c give.
    minterms = [bits for bits in range(8) if table.offsets[0] >> bits & 1]
    numbers = []
    for triple in zip(first.offsets, second.offsets, third.offsets, strict=True):
        number = 0
        for bits in minterms:
            a, b, c = (word if bits >> place & 1 else ~word for word, place in zip(triple, (2, 1, 0), strict=True))
            number |= a & b & c
        numbers.append(number)
    return known(numbers)


def _move(instruction: Instruction, sources: _Sources) -> Value | None:
    return sources[0]


def _select(instruction: Instruction, sources: _Sources) -> Value | None:
    first, second, chooser = sources
    return None if first is None or second is None or chooser is None else choice(first, second, chooser)


# With the modifiers that each knows; HI of IMAD is none of them, nor are 16 bits at a time.
_RULES: dict[str, tuple[_Rule, str]] = {
    "IADD": (_add, "X 64"),
    "IADD3": (_add, "X 64"),
    "VIADD": (_add, ""),
    "IMAD": (_multiply_add, "IADD MOV SHL U32 WIDE X"),
    "LEA": (_shift_left_add, "HI X SX32"),
    "SHF": (_shift, "L R HI U32 S32 U64 S64"),
    "LOP3": (_logic, "LUT"),
    "MOV": (_move, "64 U32"),
    "SEL": (_select, "64"),
}
