"""SERVE-1, SERVE-2: a right target conforms, and each faulty one is seen."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

import pytest

from conformance.contexts import CONTEXTS
from conformance.faults import servers
from conformance.faults.defect import Defect
from conformance.faults.servers import Answering, Changed, Server, fail
from conformance.judge import Judge
from conformance.selfcheck.running import gate
from conformance.selfcheck.servers import dispatches, red, startups
from conformance.serving import judge_message, judge_operator, judge_refusal, judge_rows, judge_start
from conformance.startups import RULES
from conformance.targets.base import Target
from conformance.verdict import Crashed, Differs, Unsupported
from fixtures.serve_cases import Context, GatherCall
from reference.serving import Serving


def test_a_right_server_conforms() -> None:
    assert red(Server(), dispatches() + startups()) == set()


BOTH = {"no-gather-for-some-batches", "gather-without-context", "serving-stops-without-context"}
"""Those that leave nothing to judge the operator by."""


@pytest.mark.parametrize("defect", servers.DEFECTS, ids=lambda defect: defect.name)
def test_a_faulty_dispatch_is_seen_under_its_clause_alone(defect: Defect) -> None:
    assert red(defect.target(), dispatches()) == ({"SERVE-1", "SERVE-2"} if defect.name in BOTH else {defect.clause})


COPY = "cp_gather_cache"

GATHERING = {
    "starts of another chunk": (
        Changed(lambda call, calls: replace(call, seq_starts=(*(calls[-1].seq_starts or ()), 0, 0, 0))),
        {"SERVE-2"},
    ),
    "a row less": (Changed(lambda call, _: replace(call, rows=call.rows - 1)), {"SERVE-2"}),
    "a request less": (Changed(lambda call, _: replace(call, requests=call.requests - 1)), {"SERVE-2"}),
    "starts wrong from chunk 4 on": (
        Changed(lambda call, calls: replace(call, seq_starts=(0,)) if call in calls[3:] else call),
        {"SERVE-2"},
    ),
    "fp8 copied without starts": (
        Changed(lambda call, _: replace(call, seq_starts=None) if call.operator == COPY else call, "fp8", "fp8_e4m3"),
        {"SERVE-2"},
    ),
    "fp8 copied into other rows": (
        Changed(lambda call, _: replace(call, first_row=7) if call.operator == COPY else call, "fp8", "fp8_e4m3"),
        {"SERVE-2"},
    ),
    "stops for blocks of 16": (
        Answering(lambda calls, case: calls if case.block_size == 64 else fail(AssertionError())),
        {"SERVE-1", "SERVE-2"},
    ),
    "stops for one short request": (
        Answering(lambda calls, case: calls if case.context_lens != (40,) else fail(IndexError())),
        {"SERVE-1", "SERVE-2"},
    ),
    "wrong on 4 ranks": (
        Answering(
            lambda calls, case: (
                [replace(call, seq_starts=None) for call in calls] if case.sharding.ranks == 4 else calls
            )
        ),
        {"SERVE-2"},
    ),
    "global starts on 2 ranks": (
        Answering(
            lambda calls, case: (
                [replace(call, seq_starts=tuple(2 * s for s in call.seq_starts or ())) for call in calls]
                if case.sharding.ranks == 2
                else calls
            )
        ),
        {"SERVE-2"},
    ),
    "calls that stop while they are read": (
        Answering(lambda calls, case: (fail(SystemExit(call)) for call in calls)),
        {"SERVE-1", "SERVE-2"},
    ),
    "lengths of the whole context, not of one rank": (
        Changed(
            lambda call, _: replace(call, seq_starts=tuple(2 * start for start in call.seq_starts or ())),
        ),
        {"SERVE-2"},
    ),
}


@pytest.mark.parametrize(("server", "clauses"), GATHERING.values(), ids=GATHERING)
def test_a_dispatch_that_is_wrong_in_places_is_seen_under_its_clause_alone(server: Target, clauses: set[str]) -> None:
    assert red(server, dispatches()) == clauses


def test_a_site_that_nothing_comes_to_is_no_fault_but_for_dense_prefill() -> None:
    class Elsewhere(Server):
        def context_gathers(self, site: str, kv_cache_dtype: str, case: Context) -> Sequence[GatherCall] | None:
            return super().context_gathers(site, kv_cache_dtype, case) if kv_cache_dtype in self.formats else None

        formats: tuple[str, ...] = ("auto",)

    class Nowhere(Elsewhere):
        formats = ()

    (case, *_) = CONTEXTS.values()
    judge = Judge(Elsewhere())
    judge_operator(judge, "sparse_masked", case, "fp8_ds_mla")
    assert judge.count.cases == 0
    with pytest.raises(Unsupported, match="no context of any kv_cache_dtype comes to site sparse_masked"):
        judge_operator(Judge(Nowhere()), "sparse_masked", case, "fp8_ds_mla")
    with pytest.raises(Differs, match="no gather at all"):
        judge_operator(Judge(Elsewhere()), "dense", case, "fp8_ds_mla")


WAYS_OUT = {
    "skip": lambda: pytest.skip("not today"),
    "xfail": lambda: pytest.xfail("known"),
    "exit": lambda: fail(SystemExit("no")),
}


@pytest.mark.parametrize("out", WAYS_OUT.values(), ids=WAYS_OUT)
def test_what_a_target_raises_is_no_way_out_of_a_verdict(out: Callable[[], object]) -> None:
    class Leaving(Server):
        def context_gathers(self, site: str, kv_cache_dtype: str, case: Context) -> Sequence[GatherCall] | None:
            out()
            return None

        def start(self, config: Serving) -> None:
            out()

    judge, clause = Judge(Leaving()), "SERVE-3"
    (case, *_), (config, *_) = CONTEXTS.values(), RULES[clause].configs
    asked: list[Callable[[], None]] = [
        lambda: judge_operator(judge, "dense", case, "auto"),
        lambda: judge_rows(judge, "sparse_topk", case, "fp8_ds_mla"),
        lambda: judge_start(judge, Serving()),
        lambda: judge_refusal(judge, clause, config),
        lambda: judge_message(judge, clause, config),
    ]
    for ask in asked:
        with pytest.raises(Crashed, match="crashed"):
            ask()


def test_a_target_that_does_not_claim_to_serve_is_not_asked() -> None:
    class Idle(Server):
        capabilities: ClassVar[frozenset[str]] = frozenset()

    with pytest.raises(Unsupported):
        judge_start(Judge(Idle()), Serving())
    done = gate("conformance/gate/test_serve.py", "--target", "numpy")
    assert done.returncode == 5, done.stdout  # no test is left
