"""What is right on usual numbers and wrong on others, or keeps nothing, or leaves by the back door, is seen red."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from conformance.faults.builders import FaultyBuilder, FaultyShardedBuilder, loosened, setting
from conformance.faults.defects import DEFECTS
from conformance.faults.planners import FaultyPlanner, told
from conformance.faults.workspaces import FaultyRows
from conformance.gate import test_metadata as gate_cases
from conformance.gate import test_plan as gate_plans
from conformance.judge import Judge
from conformance.metadata import judge_kept_metadata, judge_metadata, must_refuse
from conformance.plans import PlanCase, judge_kept_plans, judge_plan
from conformance.selfcheck.faulty_numbers import BUILDERS, LAX, PLANNERS, ROWS, SHARDED_BUILDERS
from conformance.selfcheck.running import gate
from conformance.targets.models import NumpyTarget
from conformance.verdict import Crashed, Differs
from conformance.workspaces import WorkspaceCase, judge_workspace

Verdicts = (Differs, Crashed)


def red(verdict: Callable[[Judge, Any], None], target: NumpyTarget, cases: Iterable[Any]) -> bool:
    """Whether a target is blamed for one of some cases."""
    for case in cases:
        try:
            verdict(Judge(target, ["PLAN"]), case)
        except Verdicts:
            return True
    return False


@pytest.mark.parametrize("name", PLANNERS)
def test_a_planner_that_is_wrong_on_some_numbers_is_caught_on_a_plan_of_the_gate(name: str) -> None:
    assert red(judge_plan, FaultyPlanner(PLANNERS[name]), gate_plans.NAMED.values())


@pytest.mark.parametrize("name", BUILDERS)
def test_a_builder_that_is_wrong_on_some_numbers_is_caught_on_a_batch_of_the_gate(name: str) -> None:
    cases = [*gate_cases.NAMED.values(), *gate_cases.LARGE.values()]
    assert red(judge_metadata, FaultyBuilder(BUILDERS[name]), sorted(cases, key=lambda case: sum(case.context_lens)))


@pytest.mark.parametrize("name", SHARDED_BUILDERS)
def test_a_builder_that_is_wrong_on_some_ranks_is_caught_on_a_batch_of_the_gate(name: str) -> None:
    assert red(judge_metadata, FaultyShardedBuilder(SHARDED_BUILDERS[name]), gate_cases.shardings())


@pytest.mark.parametrize("name", LAX)
def test_a_builder_that_takes_too_few_rows_is_caught_on_a_batch_of_the_gate(name: str) -> None:
    cases = [*gate_cases.REFUSED.values(), *gate_cases.REFUSED_SHARDED.values()]
    assert red(must_refuse, FaultyShardedBuilder(LAX[name]), cases)


@pytest.mark.parametrize("name", ROWS)
def test_rows_that_are_wrong_for_large_numbers_are_caught_on_a_workspace_of_the_gate(name: str) -> None:
    assert red(judge_workspace, FaultyRows(ROWS[name]), gate_cases.LARGE_WORKSPACES)


BATCH = gate_cases.batch((40, 0, 3), (2, 1, 3), 32, 16)
PLAN = PlanCase((40, 0, 3), 32, 32, 16)
SIZE = WorkspaceCase("dense", 100, 1, 16, 1)


def test_bools_integers_and_slices_of_numpy_are_as_good_as_those_of_python() -> None:
    plans = told(is_continuation=np.bool_, request_start=np.int64, starts=np.array, seq_lens=np.array)
    judge_plan(Judge(FaultyPlanner(plans)), PLAN)
    batches = setting(
        is_continuation=lambda case, c: np.bool_(c.is_continuation),
        starts=lambda case, c: np.array(c.starts, np.int32),
        token_slice=lambda case, c: slice(np.int64(c.token_slice.start), c.token_slice.stop, 1),
    )
    judge_metadata(Judge(FaultyBuilder(batches)), BATCH)


def test_nothing_is_built_without_context_whatever_the_workspace() -> None:
    def asserts(case: Any) -> Any:
        assert case.workspace_rows >= case.alignment
        return loosened(case)

    with pytest.raises(Crashed):
        judge_metadata(Judge(FaultyBuilder(asserts)), gate_cases.batch((0, 0), (4, 2), 15, 16))


def test_an_answer_that_a_later_call_changes_is_caught_on_the_plans_and_batches_of_the_gate() -> None:
    plans, overwritten = [*gate_plans.NAMED.values()], DEFECTS["plans-in-one-list"].target()
    for case in plans:
        judge_plan(Judge(overwritten), case)
    with pytest.raises(Differs, match="PLAN-22: when a later answer was there"):
        judge_kept_plans(Judge(overwritten), plans)
    for defect, batches in (
        ("token-to-seq-in-one-buffer", gate_cases.NAMED),
        ("local-token-to-seq-in-one-buffer", gate_cases.SHARDED),
    ):
        target = DEFECTS[defect].target()
        for batch in batches.values():
            judge_metadata(Judge(target), batch)
        with pytest.raises(Differs, match="PLAN-22: when a later answer was there"):
            judge_kept_metadata(Judge(target), gate_cases.and_backwards(batches.values()))


CONSUMING: list[tuple[str, Any, Any]] = [
    ("context-lens-consumed", judge_plan, PLAN),
    ("query-start-loc-consumed", judge_metadata, BATCH),
]


@pytest.mark.parametrize(("defect", "verdict", "case"), CONSUMING, ids=[row[0] for row in CONSUMING])
def test_arguments_that_a_call_changes_are_caught(defect: str, verdict: Any, case: Any) -> None:
    with pytest.raises(Differs, match="PLAN-23: after the call an argument is"):
        verdict(Judge(DEFECTS[defect].target()), case)


class Leaving(NumpyTarget):
    """Raises what is no Exception, at once or where its answer is read."""

    name = "leaving"

    def __init__(self, leave: Callable[[], Any] = lambda: pytest.skip("by the back door")) -> None:
        super().__init__()
        self.leave = leave

    def plan_mla_context_chunks(self, *arguments: Any) -> Any:
        return self.leave()

    def build_mla_chunked_context_metadata(self, *arguments: Any) -> Any:
        return self.leave()

    def determine_chunked_prefill_workspace_size(self, *arguments: Any) -> Any:
        return self.leave()


LEAVES: dict[str, Callable[[], Any]] = {
    "skip": lambda: pytest.skip("door"),
    "xfail": lambda: pytest.xfail("door"),
    "SystemExit": lambda: exec("raise SystemExit('door')"),
}
JUDGED: list[Any] = [
    (judge_plan, PLAN),
    (judge_metadata, BATCH),
    (must_refuse, gate_cases.batch((5,), (1,), 1, 16)),
    (judge_workspace, SIZE),
]


@pytest.mark.parametrize("name", LEAVES)
@pytest.mark.parametrize(("verdict", "case"), JUDGED, ids=lambda item: getattr(item, "__name__", ""))
def test_a_target_that_leaves_by_the_back_door_has_crashed(verdict: Any, case: Any, name: str) -> None:
    with pytest.raises(Crashed, match="door"):
        verdict(Judge(Leaving(LEAVES[name])), case)


def test_an_answer_that_leaves_where_it_is_read_differs() -> None:
    class Leaves:
        context_lens = property(lambda self: pytest.skip("door"))
        __len__ = __index__ = lambda self: pytest.skip("door")

    target = Leaving(Leaves)
    for verdict, case in [each for each in JUDGED if each[0] is not must_refuse]:
        with pytest.raises(Differs):
            verdict(Judge(target), case)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_what_is_no_verdict_is_let_through(error: type[BaseException]) -> None:
    def leave() -> None:
        raise error

    for verdict, case in JUDGED:
        with pytest.raises(error):
            verdict(Judge(Leaving(leave)), case)


def test_the_gate_reads_crashed_for_a_target_that_leaves_by_the_back_door() -> None:
    parts = (
        "conformance/gate/test_plan.py",
        "conformance/gate/test_metadata.py",
        "-k",
        "broke_real or refused or large",
    )
    done = gate(*parts, "--target", f"{__name__}:Leaving")
    assert done.returncode == 1 and "gate: crashed" in done.stdout and "by the back door" in done.stdout
    assert "Traceback" not in done.stdout and "skipped" not in done.stdout, done.stdout[-2000:]
