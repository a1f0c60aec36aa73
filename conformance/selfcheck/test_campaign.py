"""A campaign: rounds after rounds, each with cases of its own that can be drawn again, within constant memory."""

from __future__ import annotations

import argparse
import gc
import json
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from conformance.drawing import asking, for_each, seed_of_round
from conformance.judge import Judge
from conformance.remarks import remarks
from conformance.reports.campaign import Meter, campaign_as_json, slice_of
from conformance.reports.campaign_report import MOST_LINES, campaign_in_markdown, campaign_lines, joined
from conformance.running.campaign import _minutes, _round
from conformance.selfcheck.running import gate
from conformance.strategies import gather_cases
from conformance.targets.models import NumpyTarget

NUMBERS = st.integers(0, 1 << 60)
MIB = 1 << 20


class Rounds(Meter):
    """Notes what each round draws, and stops the clock after some of them."""

    def __init__(self, most: int, clock: list[float]) -> None:
        super().__init__()
        self.most, self.clock, self.drawn = most, clock, [list[int]()]

    def case(self, case: int) -> None:
        self.drawn[-1].append(case)

    def round(self, seconds: float) -> None:
        self.rounds += 1
        self.drawn.append([])
        if self.rounds == self.most:
            self.clock[0] = 100.0


@pytest.fixture
def campaign(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[list[int]]]:
    """What rounds draw until, after `most` of them, the time is over."""

    def drawn(most: int, first_round: int = 1, check: Callable[[int], None] = lambda number: None) -> list[list[int]]:
        clock = [0.0]
        monkeypatch.setattr("conformance.drawing.time.monotonic", lambda: clock[0])
        meter = Rounds(most, clock)
        with asking(seconds=50.0, meter=meter, first_round=first_round):
            for_each(NUMBERS, 20, 7, check)
        return meter.drawn[:-1]

    return drawn


def test_rounds_go_on_until_the_time_is_over(campaign: Callable[..., list[list[int]]]) -> None:
    rounds = campaign(5)
    assert [len(cases) for cases in rounds] == [20] * 5
    assert len({tuple(cases) for cases in rounds}) == 5


def test_the_first_round_is_what_a_run_without_a_campaign_draws(campaign: Callable[..., list[list[int]]]) -> None:
    alone: list[int] = []
    for_each(NUMBERS, 20, 7, alone.append)
    assert campaign(3)[0] == alone


def test_a_round_can_be_drawn_again(campaign: Callable[..., list[list[int]]]) -> None:
    assert campaign(1, first_round=3)[0] == campaign(4)[2]


def test_a_test_has_one_round_at_least() -> None:
    meter = Meter()
    with asking(meter=meter):
        for_each(NUMBERS, 20, 7, lambda number: None)
    assert (meter.rounds, meter.cases) == (1, 20)


def test_a_failure_says_its_round_and_how_to_repeat_it(campaign: Callable[..., list[list[int]]]) -> None:
    wanted = campaign(4)[2][-1]

    def check(number: int) -> None:
        assert number != wanted

    with pytest.raises(AssertionError) as raised:
        campaign(9, check=check)
    own = seed_of_round(7, 3)
    assert own != 7
    assert remarks(raised.value) == [f"it is of round 3, drawn with seed {own}: --round 3 starts there"]
    with pytest.raises(AssertionError):
        campaign(1, first_round=3, check=check)


def test_a_failure_of_the_first_round_needs_no_remark_and_its_time_counts() -> None:
    def check(number: int) -> None:
        raise AssertionError

    meter = Meter()
    with pytest.raises(AssertionError) as raised, asking(meter=meter, seconds=50.0):
        for_each(NUMBERS, 20, 7, check)
    assert remarks(raised.value) == []
    assert meter.rounds == 1 and meter.cases == 0 and meter.seconds > 0


def test_what_is_asked_is_over_with_its_context() -> None:
    meter = Meter()
    with pytest.raises(KeyError), asking(meter=meter):
        raise KeyError
    for_each(NUMBERS, 5, 7, lambda number: None)
    assert meter.rounds == 0


def test_the_time_is_divided_among_tests_and_multiplied_by_workers() -> None:
    assert slice_of(2, 1, 10) == 12.0
    assert slice_of(2, 4, 10) == 48.0
    assert slice_of(2, 1, 0) == 120.0


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "an hour", ""])
def test_minutes_that_are_none_are_a_usage_error(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=rf"--minutes is '{text}'; allowed is a number above 0"):
        _minutes(text)
    with pytest.raises(argparse.ArgumentTypeError, match=rf"--round is '{text}'; allowed is a whole number from 1 on"):
        _round(text)


def told(worker: str, cases: int, seconds: float) -> dict[str, Any]:
    """What a worker tells that has drawn `cases` gathers."""
    meter = Meter(rounds=2)
    if cases:
        with asking(meter=meter):
            for_each(gather_cases(with_starts=True), cases, 1, lambda case: None)
    meter.seconds = seconds
    return meter.told(worker, 70)


def test_workers_add_up() -> None:
    one = campaign_as_json(1.5, [told("gw0", 30, 2.0), told("gw1", 10, 0.5)])
    assert [one[name] for name in ("minutes", "seconds", "rounds", "cases", "cases_per_second")] == [
        1.5,
        2.5,
        6,
        40,
        35,
    ]
    assert one["peak_rss_mib"] == {"gw0": 70, "gw1": 70}
    assert sum(one["coverage"]["gather nvfp4_ds_mla: block size"].values()) == 40
    assert campaign_as_json(None, [])["cases_per_second"] == 0


def test_reports_of_shards_are_joined() -> None:
    one, other = campaign_as_json(1.0, [told("gw0", 1, 2.0)]), campaign_as_json(1.0, [told("gw0", 60, 2.0)])
    both = joined([one, other])
    assert both is not None and both["cases"] == 61 and both["peak_rss_mib"] == {"1 gw0": 70, "2 gw0": 70}
    assert set(both["never"]) == set(one["never"]) & set(other["never"])
    assert len(other["never"]) < len(one["never"]) and joined([]) is None


def test_what_one_shard_alone_has_tried_was_tried() -> None:
    writes = told("gw0", 0, 1.0)
    writes["coverage"] = {"cases": {"write auto": 1}, "counts": {"write auto": {"tokens": {"0": 1}}}}
    parts = [campaign_as_json(1.0, [writes]), campaign_as_json(1.0, [told("gw0", 1, 2.0)])]
    for both in (joined(parts), joined(parts[::-1])):
        assert both is not None and "write auto: no case" not in both["never"]
        assert "gather nvfp4_ds_mla: no case" not in both["never"] and "write auto: tokens: 1" in both["never"]


def test_a_report_says_what_was_never_tried() -> None:
    campaign = campaign_as_json(1.0, [told("main", 1, 2.0)])
    lines = campaign_lines(campaign)
    assert lines[0] == "campaign: 1 cases in 3 rounds, 0.5 a second, at most 70 MiB a worker"
    assert lines[1].startswith("  never tried: gather nvfp4_ds_mla: block size: 2; 3; 4; 5;")
    assert len(lines) <= 2 + MOST_LINES
    text = "\n".join(campaign_in_markdown(campaign))
    assert "| gather nvfp4_ds_mla: block size | 1: 1; 2: 0;" in text
    assert "never tried: any case of gather fp8_ds_mla, " in text
    assert campaign_in_markdown(None) == []


@pytest.mark.parametrize("cases", [NUMBERS, gather_cases(with_starts=True)], ids=["numbers", "gathers"])
def test_rounds_leave_nothing_behind(cases: st.SearchStrategy[Any]) -> None:
    judge, meter, held = Judge(NumpyTarget()), Meter(), dict[int, tracemalloc.Snapshot]()
    tracemalloc.start()
    try:
        for number in range(1, 31):
            with asking(meter=meter, first_round=number):
                for_each(cases, 3, 7, judge if cases is not NUMBERS else lambda case: None)
            if number in (3, 30):
                gc.collect()
                held[number] = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    assert (meter.rounds, meter.cases) == (30, 90)
    # hypothesis itself remembers up to 1,024 strategies, which gathers come to in some 30 rounds.
    assert size(held[30]) - size(held[3]) < (MIB if cases is NUMBERS else 4 * MIB)
    assert size(held[30], OURS) - size(held[3], OURS) < MIB / 4


OURS = [tracemalloc.Filter(False, "*/hypothesis/*"), tracemalloc.Filter(False, tracemalloc.__file__)]


def size(snapshot: tracemalloc.Snapshot, filters: Sequence[tracemalloc.Filter] = ()) -> int:
    """The bytes that are held, but for what filters leave out."""
    return sum(trace.size for trace in snapshot.filter_traces(filters).traces)


@pytest.mark.parametrize(("workers", "minutes"), [("0", 0.05), ("2", 0.02)])
def test_a_campaign_reports_how_much_it_drew_and_what_it_never_tried(
    workers: str, minutes: float, tmp_path: Path
) -> None:
    began = time.monotonic()
    args = ("--target", "numpy", "--minutes", str(minutes), "-n", workers, "--report-dir", str(tmp_path))
    done = gate(*args, "conformance/gate/test_random.py")
    assert done.returncode == 0, done.stdout
    assert "gate: conforms" in done.stdout
    assert time.monotonic() - began > 60 * minutes
    campaign = json.loads((tmp_path / "gate.json").read_text())["campaign"]
    assert campaign["minutes"] == minutes and campaign["rounds"] > 16  # more than one for each test
    assert campaign["cases_per_second"] > 1 and campaign["cases"] > 200
    assert set(campaign["peak_rss_mib"]) == ({"main"} if workers == "0" else {"gw0", "gw1"})
    assert sum(campaign["coverage"]["gather nvfp4_ds_mla: block size"].values()) == campaign["cases"]
    assert "write auto: no case" in campaign["never"]
    assert f"campaign: {campaign['cases']:,} cases in {campaign['rounds']:,} rounds" in done.stdout
    assert "never tried: any case of gather fp8_ds_mla, " in done.stdout
    assert "## Campaign" in (tmp_path / "gate.md").read_text()
