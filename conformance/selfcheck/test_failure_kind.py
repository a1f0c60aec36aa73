"""A smaller case fails in the same way as the whole one, else the whole one is kept."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance.faults.defects import find_defect
from conformance.generation import Geometry, realize
from conformance.judge import Judge
from conformance.merge_generation import mixed
from conformance.observe import TargetError
from conformance.plans import PlanCase
from conformance.replaying.dumps import Dumps
from conformance.replaying.failure_kind import FailureKind, is_empty, kind_of
from conformance.replaying.replay import DIFFERS, replay
from conformance.selfcheck.running import gate
from conformance.selfcheck.two_defects import (
    ANY_GRID,
    LARGE,
    NO_BLOCKS,
    TwoDefects,
    empty_any_grid,
    empty_grid,
    first_row_left,
    last_latent,
    last_latent_if_any,
    last_rope,
    last_row_left,
    raises,
)
from conformance.targets.base import Target
from conformance.verdict import Crashed, Differs, Evidence, Pair
from conformance.write_extremes import far_of
from conformance.write_generation import Slots
from conformance.write_generation import realize as realize_write
from conformance.writes import judge_write
from fixtures.placement import POISONS
from fixtures.store import Fixture, load
from fixtures.write_cases import is_huge

GATHER = realize(Geometry(4, (20, 21), (3, 1)), seed=1)
WRITE = realize_write(Slots(40, 4, skipped=1), 1)
DUMPED = "conformance.selfcheck.two_defects:DiffersFarAndCrashesOnNothing"

TARGETS = {
    "a difference, and a crash on no row": TwoDefects(last_latent, empty_grid),
    "a crash, and another one on no row": TwoDefects(raises("no grid of {} blocks"), empty_grid),
    "a crash, and the same one on no row": TwoDefects(raises(ANY_GRID), empty_any_grid),
    "a difference in RoPE, and one in latents": TwoDefects(last_rope, last_latent_if_any),
    "a difference of one fault, and one of another": TwoDefects(last_row_left, first_row_left),
}


def small_of(target: Target, judging: Callable[[Judge, Any], None], case: Any, folder: Path) -> Fixture:
    """Return the smaller fixture that a failure on a case leaves."""
    judge = Judge(target, ["GATHER-3"])
    with pytest.raises((Differs, Crashed)) as caught:
        judging(judge, case)
    verdict = "differs" if isinstance(caught.value, Differs) else "crashed"
    Dumps(folder, 8, "main", 0.0, {}).keep(judge, "a test", target.name, verdict, caught.value)
    return load(next(folder.glob("*-small.safetensors")))


@pytest.mark.parametrize("faulty", TARGETS.values(), ids=TARGETS)
def test_a_gather_does_not_shrink_to_another_defect(faulty: TwoDefects, tmp_path: Path) -> None:
    small = small_of(faulty, Judge.__call__, GATHER, tmp_path)
    assert small.case.num_rows == LARGE + 1


def test_a_write_does_not_shrink_to_another_defect(tmp_path: Path) -> None:
    target = TARGETS["a difference, and a crash on no row"]
    small = small_of(target, judge_write, WRITE, tmp_path)
    assert small.case.tokens == LARGE + 1 and small.about["message"].startswith("GATHER-3  differs")


def test_a_write_beyond_two_gib_stays_beyond(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    target = find_defect("write-offset-in-32-bits").target()
    write = target.concat_and_cache_mla

    def crashing(**call: Any) -> None:
        if not len(call["slot_mapping"]):
            raise RuntimeError(NO_BLOCKS)
        write(**call)

    monkeypatch.setattr(target, "concat_and_cache_mla", crashing)
    small = small_of(target, judge_write, far_of("nvfp4_ds_mla")[0], tmp_path)
    assert small.case.tokens and is_huge(small.case)


def test_a_gate_leaves_a_small_case_that_replays_with_the_same_verdict(tmp_path: Path) -> None:
    part = ("conformance/gate/test_geometry.py", "-k", "broke_real and boundaries")
    done = gate(*part, "--target", DUMPED, "--dump-dir", str(tmp_path))
    small = next(tmp_path.glob("*-small.safetensors"))
    lines: list[str] = []
    assert replay(small, DUMPED, lines.append) == DIFFERS
    assert "  differs  " in lines[0] and "no blocks" not in lines[0], lines
    assert "GatherCase" in done.stdout and load(small).case.num_rows > LARGE


def crash(message: str) -> Crashed:
    try:
        raise Crashed("heading") from TargetError(message)
    except Crashed as error:
        return error


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("ValueError: dst has 5 rows of [4, 7, 9]", "ValueError: dst has 12 rows of [3]", True),
        ("RuntimeError: at 0x7f12ab", "RuntimeError: at 0x55", True),
        ("ValueError: dst is int32", "ValueError: dst is int64", False),
        ("ValueError: no", "RuntimeError: no", False),
    ],
)
def test_a_crash_is_known_by_what_was_raised_without_its_numbers(one: str, other: str, alike: bool) -> None:
    assert kind_of(GATHER, crash(one)).covers(kind_of(GATHER, crash(other))) == alike


def test_a_difference_without_arrays_is_known_by_its_clauses_or_else_by_its_words() -> None:
    case = PlanCase((5,), 4, 4, 1)

    def ways(*lines: str) -> frozenset[str]:
        return kind_of(
            case, Differs(Judge(TARGETS["a crash, and another one on no row"]).text("differs", [*lines]))
        ).ways

    assert ways("PLAN-3: piece 1", "  PLAN-5: none", "chunk 0: 4") == {"PLAN-3", "PLAN-5"}
    assert ways("the plan cannot be read: 4", "more") == {"the plan cannot be read: #"}


def test_a_smaller_case_may_fail_in_fewer_ways_but_in_some_and_in_no_other() -> None:
    whole = FailureKind("differs", frozenset({"a", "b"}), False)
    assert whole.covers(FailureKind("differs", frozenset({"b"}), False))
    for other in (
        FailureKind("differs", frozenset({"b", "c"}), False),
        FailureKind("differs", frozenset(), False),
        FailureKind("crashed", frozenset({"b"}), False),
        FailureKind("differs", frozenset({"b"}), True),
    ):
        assert not whole.covers(other)


def test_each_kind_of_difference_has_a_name() -> None:
    poison = POISONS[0]
    want = np.zeros((1, 576), np.uint16)
    want[0, 1] = 0x7FC0
    for element, got, way in (
        (0, 0x3F80, "latent: another value"),
        (1, 0x7FC1, "latent: another NaN"),
        (3, poison.dst, "latent: never written"),
        (575, 1, "RoPE: another value"),
    ):
        seen = want.copy()
        seen[0, element] = got
        evidence = Evidence(poison.name, {"rows": Pair(want, seen, want != seen)}, frozenset({"dst overwritten"}))
        assert kind_of(GATHER, Differs("heading", evidence=evidence)).ways == {way, "dst overwritten"}
    blank = WRITE.blank(poison)
    written = blank.copy()
    written[0, 0] = 1
    for one, other, way in (
        (written, blank, "record never written"),
        (blank, written, "record written that no slot names"),
        (written, written ^ (written == 1), "record of other bytes"),
    ):
        error = Differs("heading", evidence=Evidence(poison.name, {"cache": Pair(one, other)}))
        assert kind_of(WRITE, error).ways == {way}


def test_a_call_that_has_nothing_to_do_is_known() -> None:
    assert is_empty(realize(Geometry(4, (0,), (0,)), 1)) and not is_empty(GATHER)
    assert is_empty(realize_write(Slots(0, 4), 1)) and not is_empty(WRITE)
    assert not is_empty(mixed(2, 3, 64, "bf16", 1))
    assert is_empty(PlanCase((), 4, 4, 1)) and not is_empty(PlanCase((0,), 4, 4, 1))
