"""Metadata: a small scope against the clauses themselves, and builders that are wrong in one way."""

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

import pytest

from conformance.faults import metadata, plans, shard_metadata
from conformance.faults.builders import Builder, FaultyBuilder, FaultyShardedBuilder, each, loosened, setting
from conformance.faults.defect import Defect
from conformance.gate import test_metadata as gate_cases
from conformance.gate import test_plan as gate_plans
from conformance.judge import Judge
from conformance.metadata import MetadataCase, golden, judge_metadata, must_refuse, seen_in, small_scope
from conformance.metadata_rules import violations
from conformance.plans import judge_plan
from conformance.plans import small_scope as small_plans
from conformance.selfcheck.running import gate
from conformance.targets.base import PLAN, PLAN_METADATA, Target
from conformance.targets.models import NumpyTarget
from conformance.verdict import Crashed, Differs, NotJudged, Unsupported

REDUCED = {1: 9, 2: 5, 3: 2, 4: 1}
WHOLE = {1: 9, 2: 9, 3: 9, 4: 9}
"""Requests -> the longest context; the whole scope has 2,955,260 batches, the reduced one 20,230."""
SHARES = 4


@pytest.mark.parametrize("requests", REDUCED)
@pytest.mark.parametrize("share", range(SHARES))
def test_the_metadata_of_a_small_scope_keep_every_clause(
    requests: int, share: int, pytestconfig: pytest.Config
) -> None:
    scope = WHOLE if pytestconfig.getoption("--profile") == "nightly" else REDUCED
    cases = 0
    for case in islice(small_scope(requests, scope[requests]), share, None, SHARES):
        broken = violations(case, seen_in(golden(case), case.sharded))
        assert not broken, (broken, case)
        cases += 1
    assert cases > 600


def test_the_scopes_have_as_many_batches_as_they_say() -> None:
    settings = sum(1 for _ in small_scope(1, 9)) // 10
    assert sum(settings * (longest + 1) ** requests for requests, longest in WHOLE.items()) == 2_955_260
    assert sum(1 for requests in REDUCED for _ in small_scope(requests, REDUCED[requests])) == 20_230


def verdicts_on(target: Target, cases: Iterable[MetadataCase]) -> list[str]:
    """What the judge says of each of some cases on which a target differs."""
    said = []
    for case in cases:
        try:
            judge_metadata(Judge(target, ["PLAN"]), case)
        except Differs as error:
            said.append(str(error))
        except Crashed:
            continue  # a builder may be so wrong that it builds nothing at all
    return said


def names(clause: str, said: list[str]) -> bool:
    """Whether a predicate names the clause, beside the fields that differ from the golden model's."""
    predicate = clause if ":" in clause else f"{clause}: "  # a field that differs has no colon behind its clause
    return any(re.search(rf"^  {predicate}.*\n(.*\n)*.*expected", text, re.MULTILINE) for text in said)


SAYS = {
    "metadata-cut-unaligned": "PLAN-9: PLAN-3",
    "empty-metadata": "PLAN-8: the contexts are",
    "requests-counted-among-those-with-context": "PLAN-9: PLAN-1",
    "max-query-len-of-the-batch": "PLAN-15: chunk .* max_query_len",
    "max-seq-len-of-the-batch": "PLAN-15: chunk .* max_seq_len",
    "row-budget-undivided": "SHARD-6: PLAN-2",
    "alignment-without-the-stripe": "SHARD-6: PLAN-3",
    "starts-of-the-whole-context": "SHARD-7: chunk 1: starts",
    "local-starts-of-the-whole-context": "SHARD-7: chunk 1: local_starts",
}
"""What a predicate says besides its clause, where one clause is about more."""

WITHOUT_A_PREDICATE = {"PLAN-11", "PLAN-22", "PLAN-23", "PLAN-24"}
RAISING = {"no-context-without-a-plan", "workspace-checked-without-context", "no-context-on-several-ranks"}


def with_predicates(defects: Iterable[Defect]) -> list[Defect]:
    """Those of clauses that a predicate speaks for, and that answer something."""
    return [d for d in defects if d.clause not in WITHOUT_A_PREDICATE and d.name not in RAISING]


BATCHES = [
    *gate_cases.NAMED.values(),
    gate_cases.LARGE["300 pieces in a chunk"],
    MetadataCase((4, 4), (0, 2, 5), 6, 4, False),  # of the small scope
]


@pytest.mark.parametrize("defect", with_predicates(metadata.DEFECTS), ids=lambda defect: defect.name)
def test_a_faulty_builder_is_caught_by_its_clause_on_a_batch_of_the_gate(defect: Defect) -> None:
    assert names(SAYS.get(defect.name, defect.clause), verdicts_on(defect.target(), BATCHES))


@pytest.mark.parametrize("defect", with_predicates(shard_metadata.DEFECTS), ids=lambda defect: defect.name)
def test_a_faulty_builder_for_ranks_is_caught_by_its_clause_on_a_batch_of_the_gate(defect: Defect) -> None:
    assert names(SAYS.get(defect.name, defect.clause), verdicts_on(defect.target(), gate_cases.SHARDED.values()))


@pytest.mark.parametrize("cases", [gate_cases.NAMED, gate_cases.SHARDED], ids=["unsharded", "sharded"])
def test_a_builder_that_is_right_passes(cases: dict[str, MetadataCase]) -> None:
    assert (
        verdicts_on(FaultyShardedBuilder(golden), cases.values())
        == verdicts_on(FaultyShardedBuilder(loosened), cases.values())
        == []
    )


@pytest.mark.parametrize(
    "name", ["cut-unaligned", "budget-a-row-more", "empty-piece-without-context", "every-request-a-share"]
)
def test_a_faulty_planner_is_caught_by_its_clause_on_a_plan_of_the_gate(name: str) -> None:
    (defect,) = (defect for defect in plans.DEFECTS if defect.name == name)
    said, target = [], defect.target()
    for case in [*gate_plans.NAMED.values(), *islice(small_plans(2, 9), 10_000)]:
        try:
            judge_plan(Judge(target, ["PLAN"]), case)
        except Differs as error:
            said.append(str(error))
        except Crashed:
            continue
    assert any(f"  {defect.clause}: " in text for text in said)


def test_metadata_worked_out_by_hand() -> None:
    case = MetadataCase((11, 0, 3), (0, 2, 3, 7), 8, 4, True)
    metadata = golden(case)
    assert metadata.empty_token_slices == (slice(2, 3),)
    first, second, third = metadata.chunks
    assert (first.seq_lens, first.is_continuation, first.max_seq_len) == ((8,), False, 8)
    assert (second.starts, second.seq_lens, second.is_continuation) == ((8,), (3,), True)
    assert (third.request_slice, third.token_slice) == (slice(2, 3), slice(3, 7))
    assert (third.query_start_loc, third.continuation_token_end, third.max_query_len) == ((0, 4), 7, 4)
    assert (third.cu_seq_lens, third.token_to_seq.tolist()) == ((0, 3), [0, 0, 0])


def test_metadata_of_two_ranks_worked_out_by_hand() -> None:
    # Tokens 0 to 10: rank 0 holds 0 1 4 5 8 9, rank 1 holds 2 3 6 7 10.
    metadata = golden(MetadataCase((11, 2), (0, 1, 2), 9, 4, True, 2, 2))
    first, second = metadata.chunks
    assert (first.seq_lens, first.padded_local_seq_lens, first.starts) == ((8,), (4,), (0,))
    assert (second.seq_lens, second.starts, second.local_starts) == ((3, 2), (4, 0), (4, 0))
    assert (second.cu_seq_lens, second.token_to_seq.tolist()) == ((0, 3, 5), [0, 0, 0, 1, 1])
    assert (second.padded_local_cu_seq_lens, second.padded_local_token_to_seq.tolist()) == ((0, 2, 4), [0, 0, 1, 1])
    assert second.local_context_lens_allranks == ((6, 5), (2, 0))


def test_turns_do_not_count_on_one_rank() -> None:
    case = MetadataCase((7, 0, 3), (0, 1, 2, 3), 8, 2, True)
    assert golden(replace(case, interleave=3)) == golden(case)


@pytest.mark.parametrize(
    ("says", "case"),
    [
        (r"context_lens\[1\] is -1; allowed is at least 0", MetadataCase((3, -1), (0, 1, 2), 64, 16, True)),
        ("query_start_loc has 2 entries; allowed are 3 for 2", MetadataCase((3, 1), (0, 1), 64, 16, True)),
        (r"query_start_loc\[0\] is 1; allowed is 0", MetadataCase((3,), (1, 2), 64, 16, True)),
        (r"query_start_loc\[2\] is 1; allowed is at least 2", MetadataCase((3, 1), (0, 2, 1), 64, 16, True)),
        ("workspace_rows is 15; allowed is at least the alignment 16", MetadataCase((3,), (0, 1), 15, 16, True)),
        ("workspace_rows is 0; allowed is at least the alignment 1", MetadataCase((3,), (0, 1), 0, 16, False)),
        ("workspace_rows is 47; .* alignment 48", MetadataCase((3,), (0, 1), 47, 16, True, 3)),
        ("block_size is 0; allowed is at least 1", MetadataCase((3,), (0, 1), 64, 0, True)),
        ("ranks is 0; allowed is at least 1", MetadataCase((3,), (0, 1), 64, 16, True, 0)),
        ("interleave is 0; allowed is at least 1", MetadataCase((3,), (0, 1), 64, 16, True, 2, 0)),
    ],
)
def test_what_nothing_can_be_built_for_is_refused_with_the_figures(says: str, case: MetadataCase) -> None:
    with pytest.raises(ValueError, match=says):
        golden(case)


def test_a_target_that_takes_a_workspace_below_the_alignment_is_caught() -> None:
    lax = FaultyBuilder(lambda case: golden(replace(case, workspace_rows=64)))
    with pytest.raises(Differs, match="PLAN-11: 15 rows were accepted, the alignment is 16"):
        must_refuse(Judge(lax, ["PLAN-11"]), MetadataCase((3,), (0, 1), 15, 16, True))


def test_a_field_that_is_missing_or_no_integer_is_named() -> None:
    case = MetadataCase((3,), (0, 1), 64, 16, True)
    for builder, says in (
        (setting(starts=lambda case, c: [0.0]), "PLAN-10: starts: 'float'"),
        (each(lambda case, c: delattr(c, "cu_seq_lens")), "PLAN-16: cu_seq_lens: .* no attribute"),
    ):
        with pytest.raises(Differs, match=says):
            judge_metadata(Judge(FaultyBuilder(builder), ["PLAN"]), case)


def test_a_builder_that_raises_has_crashed_and_one_that_cannot_run_is_not_judged() -> None:
    def raises(error: Exception) -> Builder:
        def build(case: MetadataCase) -> None:
            raise error

        return build

    for error, verdict in ((IndexError("7"), Crashed), (NotJudged("no driver"), NotJudged)):
        with pytest.raises(verdict):
            judge_metadata(Judge(FaultyBuilder(raises(error)), ["PLAN"]), MetadataCase((3,), (0, 1), 64, 16, True))


class PlansOnly(NumpyTarget):
    name = "plans-only"
    capabilities = frozenset({PLAN})


class Unsharded(NumpyTarget):
    name = "unsharded"
    capabilities = frozenset({PLAN, PLAN_METADATA})


def test_a_target_without_the_capability_is_unsupported() -> None:
    case = MetadataCase((3,), (0, 1), 64, 16, True)
    judge_metadata(Judge(Unsharded(), ["PLAN"]), case)
    for target, asked in ((PlansOnly(), case), (Unsharded(), replace(case, dcp_world_size=2))):
        with pytest.raises(Unsupported, match=r"lacks plan\."):
            judge_metadata(Judge(target, ["PLAN"]), asked)


def test_the_gate_reads_unsupported_for_a_target_that_only_plans_and_binds_none_that_does_not() -> None:
    part = ("conformance/gate/test_metadata.py", "-k", "broke_real or workspace_of_every")
    done = gate(*part, "--target", f"{__name__}:PlansOnly")
    assert done.returncode == 6 and "lacks plan.metadata" in done.stdout and "lacks plan.workspace" in done.stdout
    assert gate(*part, "--target", "torch").returncode == 5  # nothing is left to run
