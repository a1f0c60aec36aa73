"""The benchmark of planners: what it times, and that a wrong plan has no speed."""

from typing import Any

import pytest
from rich.console import Console

from conformance.bench.plans import LONGEST, REQUESTS, batch, bench_plans, show
from conformance.selfcheck.running import run
from conformance.targets.models import NumpyTarget
from conformance.verdict import Differs
from reference.chunks import plan_mla_context_chunks


class Planner(NumpyTarget):
    name = "another"


class CutsOff(Planner):
    def plan_mla_context_chunks(self, *arguments: Any) -> Any:
        return plan_mla_context_chunks(*arguments)[:-1]


def test_each_planner_is_timed_on_each_batch_beside_the_model() -> None:
    planned = bench_plans([Planner()], repeats=1)
    assert [(each.target, each.longest) for each in planned] == [
        (name, longest) for longest in LONGEST for name in ("numpy", "another")
    ]
    assert all(each.microseconds > 0 and each.chunks > 1 for each in planned)
    console = Console(width=120, record=True, quiet=True)
    show(planned, console)


def test_a_wrong_plan_has_no_speed() -> None:
    with pytest.raises(Differs, match="PLAN-1"):
        bench_plans([CutsOff()], repeats=1)


@pytest.mark.parametrize("longest", LONGEST)
def test_a_batch_is_of_a_thousand_requests_some_without_context(longest: int) -> None:
    lengths = batch(longest).context_lens
    assert len(lengths) == REQUESTS and max(lengths) <= longest and 0 in lengths


def test_the_command_prints_a_table_with_a_ratio() -> None:
    done = run("conformance", "bench-plans")
    assert done.returncode == 0 and "ms a plan" in done.stdout and "1.00" in done.stdout


def test_a_target_that_does_not_plan_is_told_so() -> None:
    done = run("conformance", "bench-plans", "--target", "host")
    assert done.returncode == 125 and "target host lacks plan" in done.stdout
