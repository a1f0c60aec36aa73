"""What a register holds in the 32 lanes of a warp, as far as the code alone tells.

A number is an unknown one plus a known offset. Which unknown one, a lane's name for it says: lanes with the same name
add their offsets to the same unknown number, and between lanes with different names nothing is known. All arithmetic is
modulo 2^32, so that the low half of a 64-bit sum is exact without its high half.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

LANES = 32
_MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class Value:
    """One 32-bit number a lane: the unknown number that `names` names, plus `offsets`.

    Without `names` the offsets are the numbers themselves. Else names count from 0 in the order of the lanes, and the
    first lane with a name has offset 0, so that equal knowledge compares equal.
    """

    names: tuple[int, ...] | None
    offsets: tuple[int, ...]

    @property
    def known(self) -> bool:
        """Whether the numbers themselves are known."""
        return self.names is None

    @cached_property
    def uniform(self) -> bool:
        """Whether all lanes certainly hold the same number."""
        return len(set(self.offsets)) == 1 and not any(self.names or ())

    def seen(self, lane: int) -> Hashable:
        """Return what is known of one lane's number: lanes of which the same is known hold the same number."""
        return (0 if self.names is None else self.names[lane], self.offsets[lane])


def constant(number: int) -> Value:
    """Return a number that is known and the same in all lanes."""
    return Value(None, (number & _MASK,) * LANES)


def known(numbers: Iterable[int]) -> Value:
    """Return 32 known numbers."""
    return Value(None, tuple(number & _MASK for number in numbers))


def unknown(keys: Sequence[Hashable], offsets: Sequence[int] = (0,) * LANES) -> Value:
    """Return offsets to unknown numbers, the same unknown one where the keys are equal."""
    names: dict[Hashable, int] = {}
    firsts: list[int] = []
    for key, offset in zip(keys, offsets, strict=True):
        if names.setdefault(key, len(firsts)) == len(firsts):
            firsts.append(offset)
    numbers = tuple(names[key] for key in keys)
    return Value(
        numbers, tuple((offset - firsts[number]) & _MASK for number, offset in zip(numbers, offsets, strict=True))
    )


UNIFORM = Value((0,) * LANES, (0,) * LANES)
"""An unknown number, the same in all lanes."""

SCATTERED = Value(tuple(range(LANES)), (0,) * LANES)
"""Nothing is known."""

LANE = known(range(LANES))


def opaque(inputs: Sequence[Value]) -> Value:
    """Return an unknown function of each lane's inputs: it is equal where all inputs are."""
    if all(value.uniform for value in inputs):
        return UNIFORM
    return unknown([tuple(value.seen(lane) for value in inputs) for lane in range(LANES)])


def total(terms: Sequence[tuple[int, Value]]) -> Value:
    """Return the sum of factor times value over `terms`."""
    if all(value.uniform for _, value in terms):
        numbers = [factor * value.offsets[0] for factor, value in terms if value.known]
        return constant(sum(numbers)) if len(numbers) == len(terms) else UNIFORM
    offsets = [sum(factor * value.offsets[lane] for factor, value in terms) & _MASK for lane in range(LANES)]
    named = [value.names for _, value in terms if value.names is not None]
    return unknown(list(zip(*named, strict=True)), offsets) if named else Value(None, tuple(offsets))


def product(left: Value, right: Value) -> Value:
    """Return left times right."""
    for factor, value in ((left, right), (right, left)):
        if factor.known and factor.uniform:
            return total([(factor.offsets[0], value)])
    if left.known and right.known:
        return known(a * b for a, b in zip(left.offsets, right.offsets, strict=True))
    return opaque([left, right])


def choice(first: Value, second: Value, chooser: Value = UNIFORM) -> Value:
    """Return in each lane one of two values; lanes in which `chooser` is equal choose alike."""
    if first == second and first.known:
        return first
    if first.uniform and second.uniform and chooser.uniform:
        return UNIFORM
    # Lanes with the same two unknowns and the same distance between them agree on their difference, whichever is taken.
    keys = [
        (
            0 if first.names is None else first.names[lane],
            0 if second.names is None else second.names[lane],
            (first.offsets[lane] - second.offsets[lane]) & _MASK,
            chooser.seen(lane),
        )
        for lane in range(LANES)
    ]
    return unknown(keys, first.offsets)
