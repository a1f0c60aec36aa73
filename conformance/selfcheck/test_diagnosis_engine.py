"""One engine looks for known faults, when a report asks: once for each failure, and never when one is printed."""

import gc
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from conformance.attend_calls import LoopSighting
from conformance.diagnosis import engine
from conformance.diagnosis.budget import MOST_SECONDS, SEARCHES, NotLookedInto
from conformance.diagnosis.engine import SEARCH, Search, diagnose, in_full
from conformance.diagnosis.explanation import NAMES, SENTENCES, Diagnosis, Explanation, fault_lines
from conformance.faults.defects import DEFECTS, find_defect
from conformance.judge import GatherSighting, Judge
from conformance.merge_generation import mixed
from conformance.merges import MergeSighting, judge_merge
from conformance.selfcheck.diagnosing import FAMILIES, differences
from conformance.selfcheck.meddling import Meddling, case, write
from conformance.sighting import Alike
from conformance.verdict import Crashed, Differs
from conformance.write_generation import Slots, realize
from conformance.writes import WriteSighting, judge_write, must_write_anew


def of_a_gather() -> Differs:
    with pytest.raises(Differs) as caught:
        Judge(Meddling(after=write("dst", (7, 575), 0x1234)))(case())
    return caught.value


def of_a_writer(name: str = "write-nibbles-swapped") -> Differs:
    with pytest.raises(Differs) as caught:
        judge_write(Judge(find_defect(name).target()), realize(Slots(9, 4), 5))
    return caught.value


def of_a_writer_that_remembers() -> Differs:
    with pytest.raises(Differs) as caught:
        must_write_anew(Judge(find_defect("write-remembers-slots").target()), "nvfp4_ds_mla")
    return caught.value


def of_a_merge() -> Differs:
    with pytest.raises(Differs) as caught:
        judge_merge(Judge(find_defect("merge-weights-swapped").target()), mixed(5, 3, 64))
    return caught.value


def of_family(family: str) -> Callable[[], Differs]:
    def find() -> Differs:
        _, asked, defects = FAMILIES[family]
        return next(found for defect in defects for found in differences(defect.target(), asked()))

    return find


FAILURES: dict[str, tuple[type, Callable[[], Differs]]] = {
    "a gather": (GatherSighting, of_a_gather),
    "a writer": (WriteSighting, of_a_writer),
    "a writer that remembers": (WriteSighting, of_a_writer_that_remembers),
    "a merge": (MergeSighting, of_a_merge),
    "a planner": (Alike, of_family("plans, metadata and workspaces")),
    "a server": (Alike, of_family("servers")),
    "a loop": (LoopSighting, of_family("loops")),
}


def of(sighting: object, rest: list[str] | None = None) -> Differs:
    return Differs("GATHER-1  differs", rest or [], sighting=sighting)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What has been looked into."""
    seen: list[object] = []

    def explain(sighting: object) -> list[Explanation]:
        seen.append(sighting)
        return []

    monkeypatch.setattr(engine, "SEARCH", dict.fromkeys([*SEARCH, str], Search(explain)))
    monkeypatch.setattr(SEARCHES, "seconds", 0.0)
    return seen


@pytest.mark.parametrize("name", FAILURES)
def test_printing_a_difference_calls_no_model_of_a_fault(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, fail = FAILURES[name]
    error = fail()

    def never(*given: Any, **more: Any) -> NoReturn:
        raise AssertionError("a fault was asked")

    monkeypatch.setattr(engine, "look_into", never)
    monkeypatch.setattr(engine, "SEARCH", {})
    monkeypatch.setattr("conformance.targets.models.NumpyTarget.__init__", never)
    printed = str(error)
    assert type(error.sighting) is kind
    assert repr(error) and "differs" in printed and "known fault" not in printed and "explained" not in printed


def test_a_failure_is_looked_into_once_a_report_asks_and_no_sooner(looked: list[object]) -> None:
    error = of_a_gather()
    assert str(error) and looked == []
    told = in_full(error)
    assert [told.count("no known fault explains it"), told.count("row 7")] == [1, 1]
    assert (diagnose(error).explained_by, in_full(error), looked) == ((), told, [error.sighting])


def test_each_failure_has_a_diagnosis_of_its_own(looked: list[object]) -> None:
    one, other = of("one"), of("other")
    assert [diagnose(error).lines for error in (one, other, one)] and looked == ["one", "other"]
    del one, other
    gc.collect()
    assert len(engine._known) == 0


def test_a_failure_is_told_with_its_faults_between_its_text_and_the_rest(looked: list[object]) -> None:
    assert in_full(of("seen", ["the case"])).splitlines() == [
        "GATHER-1  differs",
        "  no known fault explains it",
        "  the case",
    ]


def test_what_shows_too_little_or_is_no_difference_is_not_looked_into(looked: list[object]) -> None:
    for error in (of(None, ["the case"]), Crashed("crashed"), ValueError("7"), None):
        assert diagnose(error) == Diagnosis()
        assert error is None or in_full(error) == str(error)
    assert looked == []


def test_a_search_for_faults_that_fails_does_not_take_the_verdict_along(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(sighting: object) -> NoReturn:
        raise RuntimeError("no such fault")

    monkeypatch.setattr(engine, "SEARCH", {str: Search(fail, lambda sighting: ["a remark"])})
    error = of("seen", ["the case"])
    assert in_full(error).splitlines()[-3:] == [
        "  a remark",
        "  the search for faults failed: RuntimeError: no such fault",
        "  the case",
    ]
    assert diagnose(error).explained_by == ()


@pytest.mark.parametrize("name", FAILURES)
def test_a_process_that_has_looked_for_faults_long_enough_looks_no_more(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SEARCHES, "seconds", MOST_SECONDS + 1)
    error = FAILURES[name][1]()
    told = "known faults were not looked for: that has taken 20 s in this process already"
    assert diagnose(error) == Diagnosis(lines=(told,))
    assert in_full(error).splitlines() == [*error.text.splitlines(), f"  {told}", *(f"  {line}" for line in error.rest)]


def test_every_search_is_counted(looked: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([100.0, 107.0])
    monkeypatch.setattr("conformance.diagnosis.budget.time.monotonic", lambda: next(readings))
    diagnose(of("seen"))
    assert SEARCHES.seconds == 7


def test_why_a_search_found_nothing_is_said_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(sighting: object) -> NoReturn:
        raise NotLookedInto("not in calls of this size")

    monkeypatch.setattr(engine, "SEARCH", {str: Search(fail, lambda sighting: ["a remark"])})
    assert diagnose(of("seen")).lines == ("a remark", "not in calls of this size")


def test_a_writers_recipe_is_told_before_its_faults() -> None:
    told = diagnose(of_a_writer()).lines
    assert told[0].startswith("exactly what profile ") and told[0].endswith(" writes with nibbles high first")
    assert "explained exactly by: " in told[1] and "(fault write-nibbles-swapped)" in told[1]


def test_many_explanations_are_told_by_name() -> None:
    many = [Explanation((fault,)) for fault in DEFECTS.values()][: SENTENCES + NAMES + 1]
    told = fault_lines(many)
    assert len(told) == SENTENCES + 1 and told[-1].startswith("and by ") and told[-1].endswith(", ...")
