"""When a run is green: outcomes, receipts, selections and waivers, without pytest around them."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from conformance.reports.gate import Gate
from conformance.reports.receipts import Account
from conformance.reports.report import as_json
from conformance.reports.selection import Selection, Shard
from conformance.reports.verdicts import BY_SEVERITY, Outcome, worst
from conformance.reports.waivers import Waiver
from conformance.verdict import CONFORMS, CRASHED, DIFFERS, NOT_JUDGED, UNSUPPORTED

TODAY = date(2026, 1, 31)
GOOD = Outcome("t::a[x]", "x", ("GATHER-1",), CONFORMS, cases=2, rows=3, elements=4, worker="gw0", calls=2, launches=2)
ACCOUNT = Account("gw0", "x", {"device": "cpu"}, cases=2, rows=3, elements=4, calls=2, launches=5, device="cpu")
WAIVER = Waiver(1, "GATHER-1", "x", "reason", "link", date(2026, 1, 31))
NOT = replace(GOOD, test="t::b[x]", verdict=UNSUPPORTED, cases=0, rows=0, elements=0, calls=0, launches=0)


def gate(*outcomes: Outcome, accounts: tuple[Account, ...] = (ACCOUNT,), **more: Any) -> Gate:
    """A run that came to its end, in which all that was asked for was run."""
    selection = Selection(tests=tuple(outcome.test for outcome in outcomes))
    settings = {"asked_targets": ("x",), "exit_status": 0, "selection": selection, "today": TODAY, **more}
    return Gate(0, "quick", outcomes=list(outcomes), accounts=list(accounts), **settings)


def test_a_run_in_which_everything_conforms_and_adds_up_is_green() -> None:
    assert gate(GOOD).verdict == CONFORMS and gate(GOOD).reasons() == [] and gate(GOOD).exit_code(0) == 0


@pytest.mark.parametrize(
    ("verdict", "code"), [(CONFORMS, 0), (DIFFERS, 1), (CRASHED, 1), (UNSUPPORTED, 6), (NOT_JUDGED, 6)]
)
def test_the_worst_outcome_decides_the_exit_code_where_pytest_saw_nothing(verdict: str, code: int) -> None:
    run = gate(GOOD, replace(GOOD, test="t::b[x]", verdict=verdict, cases=0, rows=0, elements=0, calls=0, launches=0))
    assert run.verdict == verdict and run.exit_code(0) == code
    assert [run.exit_code(pytests) for pytests in (1, 2, 3, 4, 5)] == [1, 2, 3, 4, 5]


def test_every_verdict_has_its_place_and_none_at_all_is_not_judged() -> None:
    assert [worst(BY_SEVERITY[first:]) for first in range(len(BY_SEVERITY))] == list(BY_SEVERITY)
    assert worst([]) == NOT_JUDGED


WRONG = {
    "not over": ({"exit_status": None}, "the run is not over"),
    "interrupted": ({"exit_status": 2}, "the run ended with pytest's exit status 2"),
    "no selection": ({"selection": None}, "as no process came to say"),
    "not run": ({"selection": Selection(("t::a[x]", "t::c[x]"))}, "asked for and not run: t::c[x]"),
    "deselected": ({"selection": Selection(("t::a[x]",), deselected=("t::d[x]",))}, "left out are t::d[x]"),
    "part": ({"selection": Selection(("t::a[x]",), parts=("3 files",))}, "a part of the gate (--partial-ok): 3 files"),
    "no test of a target": ({"asked_targets": ("x", "y")}, "target y: no test of it was run"),
    "unmet": ({"unmet": ("--require sm_100: not there",)}, "--require sm_100: not there"),
    "other device": (
        {"required": ("cuda", "sm_100"), "accounts": (replace(ACCOUNT, device="NVIDIA H200, sm_90, 00ff"),)},
        "gw0 ran on NVIDIA H200, sm_90, 00ff, and sm_100 is required",
    ),
    "no receipt": ({"accounts": (replace(ACCOUNT, receipt={}),)}, "gw0 has no receipt"),
    "receipt raised": ({"accounts": (replace(ACCOUNT, error="OSError: gone"),)}, "gw0 has no receipt: OSError: gone"),
    "other worker": (
        {"accounts": (replace(ACCOUNT, worker="gw1"),)},
        "gw0 judged cases and left no receipt",
    ),
    "no account": ({"accounts": ()}, "gw0 judged cases and left no receipt"),
    "account of another": ({"accounts": (replace(ACCOUNT, worker="gw1"),)}, "gw0 judged cases and left no receipt"),
    "cases": ({"accounts": (replace(ACCOUNT, cases=3),)}, "gw0 counted 3 cases, and its tests told of 2"),
    "elements": ({"accounts": (replace(ACCOUNT, elements=3),)}, "gw0 counted 3 elements, and its tests told of 4"),
    "calls": ({"accounts": (replace(ACCOUNT, calls=1),)}, "gw0 counted 1 calls, and its tests told of 2"),
    "launches": ({"accounts": (replace(ACCOUNT, launches=1),)}, "gw0 counted 1 launches, and its tests told of 2"),
    "nothing launched": ({"accounts": (replace(ACCOUNT, launches=0),)}, "gw0 made 2 calls and launched nothing"),
    "on the CPU": (
        {"accounts": (replace(ACCOUNT, device="NVIDIA H200, sm_90, 00ff"),)},
        "gw0 handed arrays on NVIDIA H200, sm_90, 00ff to a target whose receipt says cpu",
    ),
    "expired": ({"waivers": (replace(WAIVER, expires=date(2026, 1, 30)),)}, "expired on 2026-01-30"),
    "unused": ({"waivers": (WAIVER,)}, "waiver 1 (GATHER-1, target x) is not needed any more"),
    "receipt waived for nothing": ({"waivers": (replace(WAIVER, clause="receipt"),)}, "is not needed any more"),
}


@pytest.mark.parametrize(("changed", "says"), WRONG.values(), ids=WRONG)
def test_a_run_is_not_green_for_reasons_beside_its_outcomes(changed: dict[str, Any], says: str) -> None:
    run = gate(GOOD, **changed)
    assert run.verdict == NOT_JUDGED and run.exit_code(0) == 6
    assert any(says in reason for reason in run.reasons()), run.reasons()


def test_a_part_may_be_green_if_that_is_said() -> None:
    part = Selection(("t::a[x]",), deselected=("t::d[x]",), parts=("3 files",))
    run = gate(GOOD, selection=part, partial_ok=True)
    assert run.verdict == CONFORMS and len(run.partial()) == 2
    assert as_json(run)["suite"]["deselected"] == ["t::d[x]"]


def test_a_target_of_which_no_case_was_compared_is_not_judged_whatever_is_waived() -> None:
    run = gate(NOT, waivers=(WAIVER,))
    assert run.verdict == NOT_JUDGED and run.reasons() == ["target x: no case was compared"]


@pytest.mark.parametrize(
    ("waiver", "verdict"),
    [
        (WAIVER, CONFORMS),
        (replace(WAIVER, clause="GATHER"), CONFORMS),
        (replace(WAIVER, target="*"), CONFORMS),
        (replace(WAIVER, test="t::b*"), CONFORMS),
        (replace(WAIVER, test="t::c*"), UNSUPPORTED),
        (replace(WAIVER, clause="GATHER-11"), UNSUPPORTED),
        (replace(WAIVER, clause="WRITE"), UNSUPPORTED),
        (replace(WAIVER, target="y"), UNSUPPORTED),
        (replace(WAIVER, expires=date(2026, 1, 30)), UNSUPPORTED),
    ],
)
def test_a_waiver_covers_its_clause_its_target_and_its_tests_until_its_day(waiver: Waiver, verdict: str) -> None:
    run = gate(GOOD, NOT, waivers=(waiver,))
    assert run.verdict == verdict and run.exit_code(0) == (0 if verdict == CONFORMS else 6)
    assert [outcome.test for outcome in run.waived_by(waiver)] == (["t::b[x]"] if verdict == CONFORMS else [])


@pytest.mark.parametrize("verdict", [DIFFERS, CRASHED])
def test_what_differs_or_crashes_is_never_waived_and_whoever_tried_is_told(verdict: str) -> None:
    run = gate(GOOD, replace(NOT, verdict=verdict), waivers=(WAIVER,))
    assert run.verdict == verdict
    assert (
        "waiver 1 (GATHER-1, target x) lets nothing stand that differs or crashed, as some of its tests did"
        in run.reasons()
    )


def test_a_missing_receipt_can_be_waived() -> None:
    run = gate(GOOD, accounts=(), waivers=(replace(WAIVER, clause="receipt"),))
    assert run.verdict == CONFORMS and run.state_of(run.waivers[0]) == "used"


def test_a_waiver_that_a_part_of_the_gate_does_not_need_may_be_needed_by_the_rest() -> None:
    for part, shard in ((("t::d[x]",), None), ((), Shard(1, 1))):
        selection = Selection(("t::a[x]",), deselected=part)
        run = gate(GOOD, waivers=(WAIVER,), selection=selection, shard=shard, partial_ok=True)
        assert run.verdict == CONFORMS and run.state_of(WAIVER) == "unused"


def test_workers_that_ran_different_builds_of_one_target_on_one_device_are_seen() -> None:
    def account(worker: str, device: str, digest: str) -> Account:
        told = {"device": device, "devices": {"cuda:0": {"sources_sha256": digest}}}
        return replace(ACCOUNT, worker=worker, device=device, receipt=told)

    outcomes = GOOD, replace(GOOD, test="t::b[x]", worker="gw1")
    same = gate(*outcomes, accounts=(account("gw0", "a", "1" * 64), account("gw1", "a", "1" * 64)))
    other_device = gate(*outcomes, accounts=(account("gw0", "a", "1" * 64), account("gw1", "b", "2" * 64)))
    other_build = gate(*outcomes, accounts=(account("gw0", "a", "1" * 64), account("gw1", "a", "2" * 64)))
    assert same.verdict == other_device.verdict == CONFORMS
    (reason,) = other_build.reasons()
    assert reason.startswith(
        "target x: workers ran different builds: devices.cuda:0.sources_sha256 is 1111111111111111"
    )


@pytest.mark.parametrize("of", [1, 2, 3, 7])
def test_shards_are_a_partition_that_no_other_test_moves(of: int) -> None:
    tests = [f"conformance/gate/test_a.py::test_{number}[host]" for number in range(500)]
    held = [[test for test in tests if Shard(index, of).holds(test)] for index in range(1, of + 1)]
    assert sorted(test for part in held for test in part) == sorted(tests)
    assert all(len(part) > 500 // of * 0.6 for part in held)
    assert Shard(1, of).holds(tests[0]) == (tests[0] in held[0])
