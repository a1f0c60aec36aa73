"""The reports of shards, joined: nothing is lost or counted twice, and whatever is not the whole gate is red."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.reports.campaign import Meter, campaign_as_json
from conformance.reports.joining import join
from conformance.reports.shards import Part
from conformance.reports.verdicts import BY_SEVERITY
from conformance.selfcheck.shard_reports import OUTCOMES, WAIVERS, outcome, report, shards_of
from conformance.verdict import CONFORMS, NOT_JUDGED

Report = dict[str, Any]
CAMPAIGN = campaign_as_json(0.5, [Meter(3, 2, 1.25).told("gw0", 400)])


def parts(reports: list[Report]) -> list[Part]:
    return [Part(Path("abc"[place]), told) for place, told in enumerate(reports)]


def two() -> list[Report]:
    return shards_of(OUTCOMES, (1, 1, 2, 2), 2)


def without(told: Report, *names: str) -> Report:
    return {name: one for name, one in told.items() if name not in names}


@given(st.data())
def test_whatever_the_partition_shards_find_together_what_one_run_finds(data: st.DataObject) -> None:
    clauses = st.lists(st.sampled_from(["GATHER-1", "WRITE-1", "WRITE-2", "MERGE-1"]), min_size=1, unique=True)
    each = st.builds(outcome, st.just(0), st.sampled_from(["numpy", "torch"]), st.sampled_from(BY_SEVERITY), clauses)
    drawn = data.draw(st.lists(each, min_size=1, max_size=8))
    outcomes = [outcome(place, one.target, one.verdict, one.clauses) for place, one in enumerate(drawn)]
    of = data.draw(st.integers(1, 4))
    places = data.draw(st.lists(st.integers(1, of), min_size=len(outcomes), max_size=len(outcomes)))
    waivers = data.draw(st.sampled_from([(), WAIVERS]))
    whole = report(outcomes, waivers=waivers)
    joined = join([Part(Path(str(i)), told) for i, told in enumerate(shards_of(outcomes, places, of, waivers=waivers))])
    for name in ("verdict", "seed", "profile", "suite", "waivers", "repeat", "shard", "exit_status", "complete"):
        assert joined[name] == whole[name], name
    assert len(joined["reasons"]) == len(whole["reasons"])
    for target, expected in zip(joined["targets"], whole["targets"], strict=True):
        assert without(target, "workers", "failures") == without(expected, "workers", "failures")
        assert sorted(target["failures"], key=str) == sorted(expected["failures"], key=str)
        for what in ("cases", "rows", "elements", "calls", "launches"):
            counted, told = ([worker[what] for worker in one["workers"]] for one in (target, expected))
            assert sum(counted) == sum(told)


def test_a_whole_run_alone_is_joined_to_itself() -> None:
    whole = report(OUTCOMES, campaign=CAMPAIGN)
    assert whole["verdict"] == CONFORMS and join(parts([whole])) == whole


def test_the_campaigns_of_shards_add_up() -> None:
    joined = join(parts(shards_of(OUTCOMES, (1, 1, 2, 2), 2, campaign=CAMPAIGN)))
    assert (joined["campaign"]["cases"], joined["campaign"]["rounds"]) == (6, 4)


def test_a_shard_in_which_nothing_counts_leaves_the_verdict_to_the_others() -> None:
    reports = shards_of(OUTCOMES, (1, 1, 2, 1), 2)
    assert reports[1]["verdict"] == NOT_JUDGED and reports[1]["targets"][0]["failures"][0]["waived"] == 1
    assert join(parts(reports))["verdict"] == CONFORMS


def test_a_shard_that_is_given_twice_is_counted_once() -> None:
    first, second = two()
    assert join(parts([first, second, first]))["targets"] == join(parts([first, second]))["targets"]


def test_a_shard_without_a_case_of_a_target_that_others_judged_is_fine() -> None:
    outcomes = [*OUTCOMES, outcome(5, "torch")]
    first, second = shards_of(outcomes, (1, 1, 1, 2, 2), 2)
    assert [target["name"] for target in first["targets"]] == ["numpy"] and not first["reasons"]
    joined = join(parts([second, first]))
    assert joined["verdict"] == CONFORMS and [target["name"] for target in joined["targets"]] == ["numpy", "torch"]
    assert [worker["worker"] for worker in joined["targets"][0]["workers"]] == ["1/2 gw0", "2/2 gw0"]


def set_to(name: str, value: Any) -> Callable[[list[Report]], Any]:
    """Change the second report."""
    *outer, last = name.split(".")

    def change(reports: list[Report]) -> None:
        held = reports[1]
        for each in outer:
            held = held[each]
        held[last] = value

    return change


def of_both(name: str, value: Any) -> Callable[[list[Report]], Any]:
    return lambda reports: [told.update({name: value}) for told in reports]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (set_to("seed", 8), "seed: found 7 in shard 1/2 (a), 8 in shard 2/2 (b); allowed is the same in all"),
        (set_to("profile", "quick"), 'profile: found "ci" in shard 1/2 (a), "quick" in shard 2/2 (b)'),
        (set_to("asked_targets", ["torch"]), 'targets: found ["numpy"] in shard 1/2 (a), ["torch"] in'),
        (set_to("required", ["sm_100"]), 'required: found [] in shard 1/2 (a), ["sm_100"] in shard 2/2'),
        (set_to("shard.of", 3), "number of shards: found 2 in shard 1/2 (a), 3 in shard 2/3 (b)"),
        (set_to("shard", None), "number of shards: found 2 in shard 1/2 (a), 1 in a whole run (b)"),
        (set_to("suite.version", "0.2"), 'version of the suite: found "0.1.0" in'),
        (set_to("suite.tests", 5), "number of tests: found 4 in shard 1/2 (a), 5 in"),
        (set_to("suite.fingerprint", "0" * 16), "fingerprint of the tests: found "),
        (set_to("waivers", []), 'waivers: found ["waiver 1 (WRITE, target numpy) until 2099-01-31"] in shard 1/2'),
        (set_to("suite.asked", 1), "the reports are of 3 tests, and the run is of 4; allowed is each of them, once"),
        (set_to("complete", False), "shard 2/2 (b) did not come to its end; allowed are runs that did"),
        (set_to("shard.index", 1), "shard 1/2 is given 2 times (a, b); allowed are one whole run, or each shard"),
        (set_to("shard.index", 1), "shard 2/2 is missing"),
        (lambda reports: reports.pop(), "shard 2/2 is missing"),
        (lambda reports: reports.pop(0), "shard 1/2 is missing"),
        (lambda reports: reports.clear(), "there is no report; wanted are those of all shards of a run"),
        (lambda reports: reports.extend(two()[:1]), "shard 1/2 is given 2 times (a, c); allowed are one whole run"),
        (set_to("reasons", ["why"]), "shard 2/2: why"),
        (of_both("reasons", ["why"]), "why"),
        (of_both("targets", []), "target numpy: no test of it was run"),
        (
            lambda reports: [told["targets"][0].update(cases=0) for told in reports],
            "target numpy: no case was compared",
        ),
        (
            lambda reports: [told["waivers"][0].update(state="unused") for told in reports],
            "waiver 1 (WRITE, target numpy)",
        ),
    ],
)
def test_what_is_not_the_gate_is_red_in_words(change: Callable[[list[Report]], Any], says: str) -> None:
    reports = two()
    assert join(parts(reports))["verdict"] == CONFORMS
    change(reports)
    joined = join(parts(reports))
    assert joined["verdict"] == NOT_JUDGED and any(line.startswith(says) for line in joined["reasons"])


@pytest.mark.parametrize("name", ["shard.index", "seed", "complete"])
def test_what_is_not_all_shards_of_one_run_is_not_complete(name: str) -> None:
    reports = two()
    assert join(parts(reports))["complete"]
    set_to(name, False if name == "complete" else 1)(reports)
    assert not join(parts(reports))["complete"]


def test_of_many_missing_shards_the_first_are_named() -> None:
    reasons = join(parts(shards_of(OUTCOMES, (1, 1, 1, 1), 500)[:1]))["reasons"]
    assert len(reasons) == 11 and reasons[0] == "shard 2/500 is missing"
    assert reasons[-1] == "489 more shards are missing"


def test_a_shard_that_was_killed_before_it_knew_its_tests_is_no_whole_run() -> None:
    killed = report((), exit_status=None)
    killed["suite"] = {"version": "0.1.0", "tests": 0, "asked": 0, "fingerprint": "", "deselected": [], "spared": []}
    joined = join(parts([killed, two()[0]]))
    assert joined["verdict"] == NOT_JUDGED and joined["suite"]["tests"] == 4
    assert joined["reasons"][:2] == [
        "shard 2/2 is missing",
        "a run without tests (a) did not come to its end; allowed are runs that did",
    ]


def test_a_joined_run_took_as_long_and_ended_as_badly_as_its_worst_shard_and_its_shards_add_up() -> None:
    reports = two()
    for told, seconds, status, launches in zip(reports, (1.5, 2.5), (0, 1), (None, 4), strict=True):
        told.update(seconds=seconds, exit_status=status)
        told["targets"][0]["receipt"] = {"device": "cpu", "launches": launches}
    joined = join(parts(reports))
    assert (joined["seconds"], joined["exit_status"]) == (2.5, 1)
    assert joined["targets"][0]["receipt"] == {"device": "cpu", "launches": [None, 4]}


@pytest.mark.parametrize(
    ("states", "joined"), [("uu", "used"), ("un", "used"), ("ue", "expired"), ("ne", "expired"), ("nn", "unused")]
)
def test_a_waiver_is_used_if_a_shard_uses_it(states: str, joined: str) -> None:
    reports = two()
    for told, state in zip(reports, states, strict=True):
        told["waivers"][0]["state"] = {"u": "used", "n": "unused", "e": "expired"}[state]
    assert join(parts(reports))["waivers"][0]["state"] == joined


def test_a_waiver_that_a_part_of_the_gate_does_not_need_is_no_reason() -> None:
    reports = two()
    for told in reports:
        told["waivers"][0]["state"] = "unused"
        told.update(partial=["a part of the gate"], partial_ok=True)
    joined = join(parts(reports))
    assert (joined["verdict"], joined["partial"], joined["partial_ok"]) == (CONFORMS, ["a part of the gate"], True)
    reports[1]["partial_ok"] = False
    assert not join(parts(reports))["partial_ok"]


def builds(**hashes: str) -> dict[str, Any]:
    return {"devices": {"cuda:0": hashes}}


@pytest.mark.parametrize(
    ("name", "waived", "verdict"),
    [("sources_sha256", (), NOT_JUDGED), ("binary_sha256", (), CONFORMS), ("sources_sha256", ("receipt",), CONFORMS)],
)
def test_shards_that_ran_other_sources_are_red_unless_waived(name: str, waived: tuple[str], verdict: str) -> None:
    reports = two()
    for told, digest in zip(reports, "ab", strict=True):
        told["targets"][0]["receipt"] = builds(**{name: digest * 64})
        told["waivers"][0].update(clause=waived[0] if waived else "WRITE", state="used")
    joined = join(parts(reports))
    says = f"target numpy: shards ran different builds: devices.cuda:0.{name} is {'a' * 16} and {'b' * 16}"
    assert joined["verdict"] == verdict and joined["reasons"] == ([says] if verdict == NOT_JUDGED else [])


@pytest.mark.parametrize(
    ("devices", "required", "met"),
    [
        (("NVIDIA B200, sm_100, 0", "NVIDIA B200, sm_100, 1"), "sm_100", True),
        (("NVIDIA B200, sm_100, 0", "NVIDIA B200, sm_100, 1"), "cuda", True),
        (("NVIDIA B200, sm_100, 0", "NVIDIA B300, sm_103, 1"), "sm_100", False),
        (("NVIDIA B200, sm_100, 0", "cpu"), "sm_100", False),
        (("NVIDIA B200, sm_100, 0", "NVIDIA B200, sm_100, 1 and NVIDIA B300, sm_103, 2"), "sm_100", False),
        (("NVIDIA B200, sm_100, 0", "cpu"), "cuda", False),
        (("cpu", "cpu"), "cpu", False),
    ],
)
def test_what_is_required_has_to_be_there_in_every_shard(devices: tuple[str, str], required: str, met: bool) -> None:
    reports = two()
    for told, device in zip(reports, devices, strict=True):
        (worker,) = told["targets"][0]["workers"]
        told["targets"][0]["workers"] = [{**worker, "device": one} for one in device.split(" and ")]
    joined = join(parts(reports), [required])
    assert joined["required"] == [required] and (joined["verdict"] == CONFORMS) == met
    assert met or joined["reasons"][-1].startswith(
        f"--require {required}: shard 2/2 (b) was run without it, and judged"
    )
    for told in reports:
        told["required"] = ["vllm>=0.33"]
    assert join(parts(reports), ["vllm>=0.33"])["verdict"] == CONFORMS
