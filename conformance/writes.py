"""The verdict on one call of a writer: the golden model's bytes against a target's, over the whole allocation."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from conformance.explain import outside_lines
from conformance.explain_write import mismatch_lines
from conformance.judge import Judge
from conformance.observe import Observation, TargetError, around, invoke, look, settle
from conformance.targets.base import WRITES, Target
from conformance.verdict import Differs, Evidence, NotJudged, Pair
from conformance.write_generation import Slots, realize
from fixtures.placement import POISONS, ZERO, Placement, Poison
from fixtures.write_cases import WriteCase, is_huge, place_write
from reference.profiles import Profile


@dataclass(frozen=True)
class WriteSighting:
    """What the last of several writes, one after the other on the arrays of the first, left; `recipe` is declared.

    `alone` says whether one call wrote all that is seen, so that the recipe by which it was written can be found.
    """

    cases: tuple[WriteCase, ...]
    seen: Observation
    recipe: Profile
    alone: bool = True


def judge_write(judge: Judge, case: WriteCase) -> None:
    """Raise Differs, Crashed or Unsupported unless the target conforms on a case, under each poison."""
    judge.need(WRITES[case.kv_cache_dtype])
    with judge.on("write", case):
        for poison in (ZERO,) if is_huge(case) else POISONS:
            compare(judge, case, observe_write(judge, case, poison))
    judge.count.add(case.tokens, case.tokens * case.format.width)


def observe_write(judge: Judge, case: WriteCase, poison: Poison) -> Observation:
    """One call of the target's writer."""
    target = judge.target
    try:
        regions = {name: target.memory.place(placement) for name, placement in place_write(case, poison).items()}
    except MemoryError as error:
        raise NotJudged(f"too little memory for {case!r}: {error}") from error
    try:
        call_write(target, {name: region.view for name, region in regions.items()}, case.kv_cache_dtype)
        settle(target)
    except TargetError as error:
        raise judge.crashed(case, error) from error
    return look(target, regions, poison, output="kv_cache")


def call_write(target: Target, arrays: dict[str, Any], kv_cache_dtype: object) -> None:
    """The writer with these arrays; TargetError if it raises."""
    invoke(target, target.concat_and_cache_mla, {**arrays, "kv_cache_dtype": kv_cache_dtype})


def compare(judge: Judge, case: WriteCase, seen: Observation) -> None:
    """Raise Differs for a wrong byte, a byte that was not to change, a stray write or a changed input."""
    expected = case.written(seen.poison, judge.target.profile)
    if (expected != seen.dst).any() or seen.strays or seen.changed:
        raise _differs(judge, case, expected, seen)


def _differs(judge: Judge, case: WriteCase, expected: npt.NDArray[Any], seen: Observation) -> Differs:
    recipe = judge.target.profile

    def text() -> str:
        lines = mismatch_lines(case, expected, seen.dst, seen.poison) if (expected != seen.dst).any() else []
        return judge.text("differs", [*lines, *outside_lines(seen)])

    evidence = Evidence(seen.poison.name, {"cache": Pair(expected, seen.dst)}, around(seen))
    return Differs(text, [f"declared profile {recipe.name}; {case!r}"], evidence, WriteSighting((case,), seen, recipe))


def must_write_anew(judge: Judge, kv_cache_dtype: str) -> None:
    """Raise Differs unless calls on the same arrays write what they hold by then, over what was written (WRITE-22).

    The third call's tokens share slots and latents with the first one's, and nothing else.
    """
    judge.need(WRITES[kv_cache_dtype])
    first, second = (realize(Slots(40, 16, skipped=3), seed, kv_cache_dtype) for seed in (25, 26))
    third = replace(first, k_pe=second.k_pe, scale=2.5)
    memory, poison = judge.target.memory, POISONS[0]
    regions = {name: memory.place(placement) for name, placement in place_write(first, poison).items()}
    expected, made = first.blank(poison), list[WriteCase]()
    for case in (first, second, third):
        for name, placement in place_write(case, poison).items():
            if name != "kv_cache":
                memory.write(regions[name], placement.data)
        try:
            call_write(judge.target, {name: region.view for name, region in regions.items()}, kv_cache_dtype)
        except TargetError as error:
            raise judge.crashed(case, error) from error
        memory.synchronize()
        case.write_into(expected, judge.target.profile)
        made.append(case)
        found = memory.read(regions["kv_cache"])
        if (found != expected).any():
            left = look(judge.target, regions, poison, output="kv_cache")
            said = f"a write after other ones, and the golden model: {(found != expected).sum():,} elements differ"
            sighting = WriteSighting(tuple(made), left, judge.target.profile, alone=False)
            raise Differs(judge.text("differs", [said]), [repr(case)], sighting=sighting)
        judge.count.add(case.tokens, found.size)


def image_of(judge: Judge, case: WriteCase) -> npt.NDArray[Any]:
    """The cache that the target writes, once it has been judged on the case."""
    judge_write(judge, case)
    return observe_write(judge, case, POISONS[0]).dst


def must_refuse_write(judge: Judge, case: WriteCase, placements: dict[str, Placement], form: object, name: str) -> None:
    """Raise Differs unless the target refuses, names the argument and writes nothing (WRITE-9)."""
    regions = {each: judge.target.memory.place(placement) for each, placement in placements.items()}
    try:
        call_write(judge.target, {each: region.view for each, region in regions.items()}, form)
    except TargetError as error:
        if not isinstance(error.__cause__, Exception):
            raise judge.crashed(case, error) from error
        refusal = str(error)
    else:
        raise Differs(judge.text("differs", [f"{name}: accepted", repr(case)]))
    judge.target.memory.synchronize()
    seen = look(judge.target, regions, POISONS[0], output="kv_cache")
    if (seen.dst != placements["kv_cache"].data).any() or seen.strays or seen.changed:
        raise Differs(judge.text("differs", [f"{name}: refused with {refusal}, but wrote"]))
    if not re.search(rf"\b{name}\b", refusal):
        raise Differs(judge.text("differs", [f"{name}: not named in {refusal}"]))
