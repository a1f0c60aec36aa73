"""What the gate asks of merges, planners, servers, loops and gathers, in small, and the differences that it sees."""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from conformance import cases as gather_cases
from conformance import context_cases as contexts
from conformance import merge_cases as merges
from conformance.attend_calls import judge_attend, judge_one_after_the_other
from conformance.diagnosis.candidates import defects_of
from conformance.faults.around import Around
from conformance.faults.defect import Defect
from conformance.gate import test_attend as attend_gate
from conformance.gate import test_metadata as metadata_gate
from conformance.gate import test_plan as plan_gate
from conformance.judge import Judge
from conformance.merge_calls import MALFORMED, must_merge_anew, must_refuse_merge
from conformance.merge_generation import mixed
from conformance.merges import judge_merge
from conformance.metadata import judge_kept_metadata, judge_metadata, must_refuse
from conformance.plans import judge_kept_plans, judge_plan
from conformance.selfcheck.servers import dispatches, startups
from conformance.targets.base import (
    ATTEND,
    GATHER,
    MERGE,
    PLAN,
    PLAN_METADATA,
    PLAN_WORKSPACE,
    SERVE_DISPATCH,
    SERVE_STARTUP,
    Target,
)
from conformance.verdict import Crashed, Differs, NotJudged, Unsupported
from conformance.workspaces import WorkspaceCase, judge_workspace

Ask = Callable[[Judge], Any]


def asks(of: Callable[..., Any], cases: Iterable[Any]) -> list[Ask]:
    return [partial(_ask, of, (case,)) for case in cases]


def _ask(of: Callable[..., Any], given: tuple[Any, ...], judge: Judge) -> None:
    of(judge, *given)


def merging() -> list[Ask]:
    some = [*merges.in_place("bf16"), *merges.shapes("bf16"), mixed(2, 3, 1032), mixed(9, 3, 576)]
    some += [case for named in merges.NAMED for case in merges.cases_of(named, "bf16") if case.prefix_output.size < 1e5]
    some += [mixed(5, 3, 64, "bf16", 1, arrangement=how) for how in merges.STRIDED.values()]
    refused = [partial(_ask, must_refuse_merge, (bad, "bf16")) for bad in MALFORMED[::9]]
    return [*asks(judge_merge, some), *refused, lambda judge: must_merge_anew(judge, "bf16")]


def planning() -> list[Ask]:
    kept = [*metadata_gate.NAMED.values()]
    named, small = (
        [*plan_gate.NAMED.values()],
        [WorkspaceCase("dense", 7, 1, 16, 64), WorkspaceCase("sparse", 7, 1, 16, 1)],
    )
    large = WorkspaceCase("dense", 1 << 20, 3, 48, 64)
    return [
        *asks(judge_plan, named),
        lambda judge: judge_kept_plans(judge, named),
        *asks(judge_metadata, [*kept, *metadata_gate.SHARDED.values(), metadata_gate.LARGE["300 pieces in a chunk"]]),
        lambda judge: judge_kept_metadata(judge, [*kept, *kept[::-1]]),
        *asks(
            must_refuse, [replace(case, workspace_rows=case.alignment - 1) for case in kept if any(case.context_lens)]
        ),
        *asks(judge_workspace, [*small, large, replace(large, dcp_world_size=3), replace(large, builder="sparse")]),
        *asks(judge_workspace, [replace(large, dcp_world_size=8, interleave=5), replace(large, block_size=1000)]),
    ]


def attending() -> list[Ask]:
    own = [*attend_gate.OWN_LOOPS.values()]
    some = [*own, contexts.of(own[1], "fp8"), *[*contexts.NAMED.values()][3:6]]
    other_scale = replace(own[1], largest_score=64, seed=46)
    return [*asks(judge_attend, some), lambda judge: judge_one_after_the_other(judge, [own[1], other_scale])]


def serving() -> list[Ask]:
    return [partial(_ask, by, given) for _, by, given in dispatches() + startups()]


def gathering() -> list[Ask]:
    some = [case for named in gather_cases.NAMED for case in gather_cases.cases_of(named) if case.records.size < 1e6]
    return asks(lambda judge, case: judge(case), some)


AROUND = [each for each in defects_of(GATHER, "gather") if isinstance(each.target(), Around)]
PLANS = [each for claim in (PLAN, PLAN_METADATA, PLAN_WORKSPACE) for each in defects_of(claim, "plan")]
SERVERS = [*defects_of(SERVE_DISPATCH, "serve"), *defects_of(SERVE_STARTUP, "serve")]
FAMILIES: dict[str, tuple[int, Callable[[], list[Ask]], list[Defect]]] = {
    "merges": (6, merging, [*defects_of(MERGE, "merge")]),
    "plans, metadata and workspaces": (6, planning, PLANS),
    "servers": (4, serving, SERVERS),
    "loops": (4, attending, [*defects_of(ATTEND, "context")]),
    "what is done around a gather": (2, gathering, AROUND),
}
"""How many are chosen, and from which defects, judged by what."""

ELSEWHERE = re.compile("remember|of-the-first-call|as-memory-was")
"""Those that show what calls before them left, which is known where these are the gate's own."""


def differences(target: Target, asked: list[Ask], most: int = 1) -> list[Differs]:
    found: list[Differs] = []
    for ask in asked:
        try:
            ask(Judge(target))
        except Differs as error:
            found.append(error)
        except (Crashed, NotJudged, Unsupported):
            continue
        if len(found) == most:
            break
    return found
