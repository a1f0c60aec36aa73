"""What is told of the lanes of a warp is true, and what is not certain is not told."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.cache import BuildError
from kernels.disassembly import Instruction
from kernels.lanes import Access, accesses
from kernels.lanes.operands import Registers
from kernels.lanes.steps import step
from kernels.lanes.values import LANE, LANES, SCATTERED, UNIFORM, Value, choice, constant, opaque, product, total

WORD = 1 << 32
Numbers = tuple[int, ...]
Pair = tuple[Value, Numbers]
"""What is told of 32 numbers, and the numbers."""

numbers = st.integers(0, WORD - 1) | st.integers(0, 40)
inputs = st.one_of(
    st.just((LANE, tuple(range(LANES)))),
    numbers.map(lambda number: (constant(number), (number,) * LANES)),
    numbers.map(lambda number: (UNIFORM, (number,) * LANES)),
    st.tuples(*[numbers] * LANES).map(lambda scattered: (SCATTERED, scattered)),
)


def every(function: Callable[..., int], *pairs: Pair) -> Numbers:
    return tuple(function(*lane) % WORD for lane in zip(*(pair[1] for pair in pairs), strict=True))


def computed(pairs: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    factors = st.integers(-9, 9)
    return st.one_of(
        st.tuples(factors, pairs, factors, pairs).map(
            lambda t: (total([(t[0], t[1][0]), (t[2], t[3][0])]), every(lambda a, b: t[0] * a + t[2] * b, t[1], t[3]))
        ),
        st.tuples(pairs, pairs).map(lambda t: (product(t[0][0], t[1][0]), every(lambda a, b: a * b, *t))),
        st.tuples(pairs, pairs).map(lambda t: (opaque([t[0][0], t[1][0]]), every(lambda a, b: hash((a, b)), *t))),
        st.tuples(pairs, pairs, pairs).map(
            lambda t: (choice(*(pair[0] for pair in t)), every(lambda a, b, chooser: b if chooser & 4 else a, *t))
        ),
    )


@given(st.recursive(inputs, computed, max_leaves=8))
@settings(max_examples=300, deadline=None)
def test_whatever_is_told_of_a_computed_value_is_true_of_it(pair: Pair) -> None:
    value, found = pair
    names = value.names or (0,) * LANES
    for name in set(names):
        lanes = [lane for lane in range(LANES) if names[lane] == name]
        bases = {(found[lane] - value.offsets[lane]) % WORD for lane in lanes}
        assert bases == {0} if value.known else len(bases) == 1


def line(offset: int, text: str) -> Instruction:
    predicate, _, rest = text.removeprefix("@").partition(" ") if text.startswith("@") else ("", "", text)
    opcode, _, operands = rest.partition(" ")
    branches = opcode.split(".")[0] in ("BRA", "BRX", "BSSY", "BSYNC", "EXIT")
    return Instruction(offset, predicate, opcode, tuple(operands.split(", ")) if operands else (), branches)


def seen(*lines: str) -> list[Access]:
    return accesses([line(16 * place, text) for place, text in enumerate(lines)], {})


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("IMAD.WIDE R2, R1, 0x10, R8", lambda lane: 16 * lane + 100),
        ("IADD3 R2, P0, PT, R8, -R1, RZ", lambda lane: 100 - lane),
        ("IADD3 R2, PT, PT, R8, ~R1, RZ", lambda lane: 99 - lane),
        ("IADD3.X R2, PT, PT, R8, ~R1, RZ, !PT, !PT", lambda lane: None),
        ("LEA R2, P0, R1, R8, 0x3", lambda lane: 8 * lane + 100),
        ("LEA.HI R2, R9, R1, RZ, 0x1", lambda lane: lane + 1),
        ("LEA.HI.SX32 R2, R9, R1, 0x1d", lambda lane: lane + (-5 >> 3)),
        ("SHF.L.U32 R2, R1, 0x2, RZ", lambda lane: 4 * lane),
        ("SHF.L.U64.HI R2, R1, 0x2, R9", lambda lane: None),
        ("SHF.R.U32.HI R2, RZ, 0x3, R1", lambda lane: lane >> 3),
        ("SHF.R.S32.HI R2, RZ, 0x1, R9", lambda lane: -5 >> 1),
        ("LOP3.LUT R2, R1, 0x7, RZ, 0xc0, !PT", lambda lane: lane & 7),
        ("LOP3.LUT R2, R1, R8, RZ, 0x3c, !PT", lambda lane: lane ^ 100),
        ("LOP3.LUT R2, R1, R8, R9, 0xf8, !PT", lambda lane: lane | 100 & -5),
        ("SEL R2, R1, R8, P1", lambda lane: None),
        ("FADD R2, R1, R8", lambda lane: None),
        ("SHFL.IDX PT, R2, R8, R1, 0x1f", lambda lane: None),
    ],
)
def test_an_instruction_on_known_numbers_gives_known_numbers(
    instruction: str, expected: Callable[[int], int | None]
) -> None:
    registers: Registers = {"R1": LANE, "R8": constant(100), "R9": constant(-5), "P1": SCATTERED}
    step(line(0, instruction), registers)
    told: Sequence[int | None] = registers["R2"].offsets if registers["R2"].known else [None] * LANES
    assert list(told) == [None if (number := expected(lane)) is None else number % WORD for lane in range(LANES)]


@pytest.mark.parametrize(
    ("instruction", "high"),
    [
        ("IMAD.WIDE.U32 R2, R8, 0x4, R10", UNIFORM),  # R9 is no part of a factor
        ("IMAD.WIDE.U32 R2, R1, 0x4, R10", opaque([LANE])),
        ("IADD.64 R2, R8, R10", SCATTERED),  # R9 is part of a term
        ("LDG.E.64 R2, desc[UR4][R10.64]", UNIFORM),
        ("F2I.U64.TRUNC R2, R1", opaque([LANE])),
        ("FADD R2, R8, R8", LANE),
        ("I2F.U64.RP R2, R10", LANE),
    ],
)
def test_a_result_of_two_registers_changes_the_second_too(instruction: str, high: Value) -> None:
    registers: Registers = {"R1": LANE, "R3": LANE, "R9": SCATTERED}
    step(line(0, instruction), registers)
    assert registers["R3"] == high


def test_lanes_that_met_go_on_where_their_barrier_was_set_up_to_lead() -> None:
    (store,) = seen("BSSY B0, 0x70", "BSSY B0, 0x40", "S2R R1, SR_TID.X", "BSYNC B0", "IMAD R2, R1, 0x4, R9",
                    "BSYNC B0", "EXIT", "STG.E desc[UR4][R2.64], R5", "BSSY B0, 0xa0", "BSYNC B0", "EXIT")  # fmt: skip
    assert store.pattern == "4-byte store of 128 bytes"


def test_a_loop_that_all_lanes_leave_together_keeps_their_distances() -> None:
    (store,) = seen("S2R R1, SR_TID.X", "IMAD R2, R1, 0x4, R9", "STG.E desc[UR4][R2.64], R5", "VIADD R2, R2, 0x80",
                    "ISETP.GE.AND P0, PT, R9, R7, PT", "@P0 BRA 0x20", "EXIT")  # fmt: skip
    assert (store.pattern, store.parted) == ("4-byte store of 128 bytes", False)


def test_ways_on_which_lanes_get_different_distances_leave_them_unknown() -> None:
    (load,) = seen("S2R R1, SR_TID.X", "ISETP.NE.AND P0, PT, R9, RZ, PT", "SHF.L.U32 R2, R1, 0x3, RZ",
                   "@P0 BRA 0x50", "SHF.L.U32 R2, R1, 0x2, RZ", "LDG.E R4, desc[UR4][R2.64]", "EXIT")  # fmt: skip
    assert (load.pattern, load.parted) == ("4-byte load somewhere", False)


@pytest.mark.parametrize("chosen", [["SEL R4, R8, R9, P0"], ["MOV R4, R9", "@P0 MOV R4, R8"]])
def test_a_choice_that_depends_on_the_lane_parts_those_that_choose_differently(chosen: list[str]) -> None:
    (load,) = seen("S2R R1, SR_TID.X", "LOP3.LUT R2, R1, 0x10, RZ, 0xc0, !PT", "ISETP.NE.AND P0, PT, R2, RZ, PT",
                   *chosen, "IMAD R4, R1, 0x8, R4", "LDG.E.64 R6, desc[UR4][R4.64]", "EXIT")  # fmt: skip
    assert load.pattern == "8-byte load of 2 x 128 bytes"


def test_what_is_loaded_from_addresses_of_their_own_is_unknown_to_lanes() -> None:
    first, second = seen("S2R R1, SR_TID.X", "IMAD R2, R1, 0x4, R9", "LDG.E R4, desc[UR4][R2.64]",
                         "LDG.E R6, desc[UR4][R4.64]", "EXIT")  # fmt: skip
    assert (first.pattern, second.pattern) == ("4-byte load of 128 bytes", "4-byte load somewhere")


def test_lanes_that_take_different_ways_have_parted() -> None:
    load, store = seen("S2R R1, SR_TID.X", "LDG.E R4, desc[UR4][R8.64]", "ISETP.NE.AND P0, PT, R1, RZ, PT",
                       "@P0 BRA 0x50", "VIADD R8, R8, 0x4", "STG.E desc[UR4][R8.64], R4", "EXIT")  # fmt: skip
    assert (load.parted, store.parted) == (False, True)


def test_code_that_never_ends_is_walked_once() -> None:
    (load,) = seen("S2R R1, SR_TID.X", "LDG.E R4, desc[UR4][R8.64]", "BRA 0x20")
    assert load.uniform


def test_a_branch_to_a_place_in_a_register_is_refused() -> None:
    with pytest.raises(BuildError, match="a branch that cannot be followed"):
        seen("BRX R2, -0x10", "EXIT")
