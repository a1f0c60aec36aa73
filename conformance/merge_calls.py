"""Calls of merge_attn_states that must be refused, and calls on the same memory, one after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.judge import Judge
from conformance.malformed_changes import Change, contiguous_strides, with_inner_stride_two
from conformance.memory import Region
from conformance.merge_cases import INPUTS, LSES
from conformance.merge_generation import mixed
from conformance.merges import (
    Amiss,
    U,
    amiss_in_refusal,
    call_merge,
    compare,
    look_at_merge,
    regions_of,
)
from conformance.observe import LeftPending, TargetError
from conformance.roundings import BINARIES
from conformance.sighting import Alike
from conformance.targets.base import MERGE, Target
from conformance.verdict import Differs
from fixtures.merge_cases import NARROW, WIDE, MergeCase, place_merge
from fixtures.placement import POISONS, Placement
from reference.merging import merge, numbers, with_weight

OTHER_LSES = ("suffix_lse", "output_lse")


@dataclass(frozen=True)
class MalformedMerge:
    """A malformed call: the argument that is changed, what it is instead, how, and who may be named.

    `also` are changed likewise, so that no two arguments disagree.
    """

    argument: str
    found: str
    change: Change
    named: frozenset[str]
    also: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Argument and fault, such as "output of rank 2", by which a fixture names the change."""
        return f"{self.argument} {self.found}"


def _of_type(dtype: type[np.generic]) -> Change:
    # Zeros stand for poison too, which not every type has.
    return lambda p: replace(p, data=np.zeros(p.data.shape, dtype), poison=0)


def _reshaped(shape_of: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Change:
    def change(p: Placement) -> Placement:
        shape = shape_of(p.data.shape)
        return replace(p, data=np.zeros(shape, p.data.dtype), strides=contiguous_strides(shape))

    return change


def _with_strides(*strides: int) -> Change:
    return lambda p: replace(p, strides=strides)


def _without_heads(p: Placement) -> Placement:
    return _reshaped(lambda s: (s[0], 0, s[2]) if len(s) == 3 else (0, s[1]))(p)


def _table() -> list[MalformedMerge]:
    wide, everything = frozenset(WIDE), frozenset((*WIDE, *NARROW))
    rows: list[MalformedMerge] = []

    def add(
        argument: str, found: str, change: Change, others: frozenset[str] = frozenset(), also: tuple[str, ...] = ()
    ) -> None:
        rows.append(MalformedMerge(argument, found, change, others | {argument, *also}, also))

    for name in WIDE:
        for dtype in (np.int16, np.int32, np.uint8, np.float64):
            # Another type is one that the others do not have either.
            add(name, np.dtype(dtype).name, _of_type(dtype), wide)
        add(name, "of the next type", lambda p: _of_type(_NEXT[p.data.dtype.name])(p), wide)
        add(name, "of rank 2", _reshaped(lambda s: (s[0], s[1] * s[2])), everything)
        add(name, "of rank 4", _reshaped(lambda s: (s[0], s[1], 1, s[2])), everything)
        add(name, "of a token more", _reshaped(lambda s: (s[0] + 1, *s[1:])), everything)
        add(name, "of a token less", _reshaped(lambda s: (s[0] - 1, *s[1:])), everything)
        add(name, "of a head more", _reshaped(lambda s: (s[0], s[1] + 1, s[2])), everything)
        add(name, "of a head less", _reshaped(lambda s: (s[0], s[1] - 1, s[2])), everything)
        add(name, "of heads and tokens exchanged", _reshaped(lambda s: (s[1], s[0], s[2])), everything)
        add(name, "of longer heads", _reshaped(lambda s: (*s[:2], 2 * s[2])), wide)
        add(name, "of shorter heads", _reshaped(lambda s: (*s[:2], s[2] // 2)), wide)
        add(name, "of every other element", with_inner_stride_two)
    add("output", "of heads that overlap", _with_strides(3 * 64, 48, 1))
    add("output", "of tokens that overlap", _with_strides(2 * 64, 64, 1))
    add("output", "of one row for all tokens", _with_strides(0, 64, 1))
    add("output", "of one row for all heads", _with_strides(64, 0, 1))
    for name in NARROW:
        for other in (np.float16, np.float64, np.int32, np.uint16):
            add(name, np.dtype(other).name, _of_type(other))
        add(name, "of rank 1", _reshaped(lambda s: (s[0] * s[1],)), everything)
        add(name, "of rank 3", _reshaped(lambda s: (*s, 1)), everything)
        add(name, "of a token more", _reshaped(lambda s: (s[0], s[1] + 1)), everything)
        add(name, "of a token less", _reshaped(lambda s: (s[0], s[1] - 1)), everything)
        add(name, "of a head more", _reshaped(lambda s: (s[0] + 1, s[1])), everything)
        add(name, "of a head less", _reshaped(lambda s: (s[0] - 1, s[1])), everything)
        add(name, "[T, H]", _reshaped(lambda s: (s[1], s[0])), everything)
    add("output_lse", "of one row for all heads", _with_strides(0, 1))
    add("output_lse", "of one element for all tokens", _with_strides(1, 0))
    for wide_type in (np.int32, np.uint8, np.float64):
        add("output", f"{np.dtype(wide_type).name}, as the inputs are", _of_type(wide_type), also=INPUTS)
    for narrow_type in (np.float16, np.float64):
        add("prefix_lse", f"{np.dtype(narrow_type).name}, as the others are", _of_type(narrow_type), also=OTHER_LSES)
    add("prefix_lse", "[T, H], as the others are", _reshaped(lambda s: (s[1], s[0])), everything, OTHER_LSES)
    add("prefix_lse", "of a token less, as the others", _reshaped(lambda s: (s[0], s[1] - 1)), everything, OTHER_LSES)
    add("output", "of no element, as the inputs", _reshaped(lambda s: (*s[:2], 0)), also=INPUTS)
    add("output", "of no head, as all others", _without_heads, also=(*INPUTS, *NARROW))
    return rows


_NEXT: dict[str, type[np.generic]] = {"uint16": np.float16, "float16": np.float32, "float32": np.uint16}
"""Another type that an output may have, but for the others' sake."""

MALFORMED = _table()


def must_refuse_merge(judge: Judge, malformed: MalformedMerge, kind: str) -> None:
    """Raise Differs unless the target refuses, names an argument and writes nothing (MERGE-10).

    Without output_lse too, if the call is malformed without it.
    """
    for lse_in in ("output_lse", None) if malformed.argument != "output_lse" else ("output_lse",):
        must_refuse_merge_call(judge, malformed, mixed(5, 3, 64, kind, 13, lse_in=lse_in))


def must_refuse_merge_call(judge: Judge, malformed: MalformedMerge, case: MergeCase) -> None:
    """Raise Differs unless the target refuses one malformed call, names an argument and writes nothing.

    `case` is the call before the change.
    """
    judge.need(MERGE)
    with judge.on(f"malformed {malformed.name}", case):
        _must_refuse(judge, malformed, case)
    judge.count.add(0, 0)


def _must_refuse(judge: Judge, malformed: MalformedMerge, case: MergeCase) -> None:
    placements = place_merge(case, POISONS[0])
    for name in placements.keys() & {malformed.argument, *malformed.also}:
        placements[name] = malformed.change(placements[name])

    def ask(target: Target) -> Amiss | None:
        regions = regions_of(replace(judge, target=target), case, placements)
        try:
            call_merge(target, case, regions)
        except TargetError as error:
            if isinstance(error, LeftPending) or not isinstance(error.__cause__, Exception):
                raise judge.crashed(case, error) from error
            return amiss_in_refusal(target, regions, str(error), set(malformed.named))
        return Amiss(("accepted",), (f"{malformed.argument} {malformed.found}: accepted",))

    if amiss := ask(judge.target):
        raise Differs(
            judge.text("differs", list(amiss.told)),
            [repr(case)],
            sighting=Alike(MERGE, ("merge",), lambda make: ask(make()) == amiss),
        )


def must_merge_anew(judge: Judge, kind: str) -> None:
    """Raise Differs unless calls on the same arrays merge what they hold by then, over what was written (MERGE-11)."""
    judge.need(MERGE)
    first, second = (mixed(9, 4, 64, kind, seed) for seed in (14, 15))
    third = replace(first, suffix_lse=second.prefix_lse, suffix_output=second.prefix_output)
    regions = regions_of(judge, first, place_merge(first, POISONS[0]))
    made: list[MergeCase] = []
    for case in (first, second, third):
        for name in (*INPUTS, *LSES):
            judge.target.memory.write(regions[name], getattr(case, name))
        _merge_legally(judge, case, regions)
        now = place_merge(case, POISONS[0])
        held = {name: replace(region, placement=now[name]) for name, region in regions.items()}
        seen = look_at_merge(judge.target, case, held, POISONS[0])
        compare(judge, case, seen, made)
        made.append(case)
        for name, result in (("output", seen.output), ("output_lse", seen.lse)):
            assert result is not None
            judge.target.memory.write(regions[name], result)  # looking for strays took it away
        judge.count.add(case.shape[0], int(np.prod(case.shape)))


def must_accumulate(judge: Judge, kind: str) -> None:
    """Raise Differs unless partials that are merged in place one by one are one merge of them all (MERGE-6).

    A merge weighs what has been merged by a number between 0 and 1, so that errors of output do not grow. An error e of
    its LSE, which is at most the sum of MERGE-2's so far, moves that weight by at most e / 4 and the result by at most
    e max / 2, where max is the largest magnitude of all. MERGE-1 adds 32 u max, and rounding to the type half a unit of
    its last place.
    """
    judge.need(MERGE)
    pairs = ((0.5, 1.5), (3.0, 2.75), (-1.0, -4.0), (2.0, 2.0), (-np.inf, 1.0), (0.25, np.inf), (-np.inf, np.inf))
    parts = [mixed(6, 4, 64, kind, seed, pairs) for seed in range(16, 20)]
    form = BINARIES[parts[0].dtype]
    whole = parts[0].partials[0]
    case = replace(parts[0], output_in="prefix_output", lse_in="prefix_lse")
    regions = regions_of(judge, case, place_merge(case, POISONS[0]))
    most = np.zeros(case.shape)
    lse_error, error = np.zeros(whole.lse.shape), np.zeros(case.shape)
    for partial in (whole, *(part.partials[1] for part in parts)):
        counts = with_weight(partial.lse).T[..., None]
        most = np.maximum(most, np.abs(partial.output), where=counts, out=most)
    for part in parts:
        judge.target.memory.write(regions["suffix_output"], part.suffix_output)
        judge.target.memory.write(regions["suffix_lse"], part.suffix_lse)
        _merge_legally(judge, case, regions)
        whole = merge(whole, part.partials[1])
        error += 32 * U * most + 2.0**-148 + lse_error.T[..., None] * most / 2
        error += most * 2.0**-form.digits + 2.0 ** (form.least - 1)
        lse_error += U * (np.abs(np.where(np.isinf(whole.lse), 0, whole.lse)) + 32)
    output = numbers(judge.target.memory.read(regions["prefix_output"]))
    lse = judge.target.memory.read(regions["prefix_lse"]).astype(np.float64)
    _near(judge, case, output, whole.output, error, "output")
    _near(judge, case, lse, whole.lse, lse_error, "output_lse")
    judge.count.add(case.shape[0], output.size * len(parts))


def _near(judge: Judge, case: MergeCase, found: Any, exact: Any, error: npt.NDArray[np.float64], what: str) -> None:
    with np.errstate(invalid="ignore"):
        wrong = ~((found == exact) | (np.abs(found - exact) <= error))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        text = (
            f"{what}{list(at)} after four merges in place: {exact[at]:.9g} within {error[at]:.3g}, got {found[at]:.9g}"
        )
        raise Differs(judge.text("differs", [text, f"{wrong.sum():,} of {wrong.size:,} elements differ", repr(case)]))


def _merge_legally(judge: Judge, case: MergeCase, regions: dict[str, Region]) -> None:
    try:
        call_merge(judge.target, case, regions)
    except TargetError as error:
        raise judge.crashed(case, error) from error
    judge.target.memory.synchronize()
