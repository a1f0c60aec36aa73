"""SERVE-1, SERVE-2: a right target conforms, and each faulty one is seen."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

import pytest

from conformance.contexts import CONTEXTS, Context, GatherCall
from conformance.judge import Crashed, Differs, Judge, Unsupported
from conformance.selfcheck.running import gate
from conformance.selfcheck.servers import Answering, Changed, Server, dispatches, fail, red, startups
from conformance.serving import judge_message, judge_operator, judge_refusal, judge_rows, judge_start
from conformance.startups import RULES
from conformance.targets.base import Target
from reference.serving import Serving


def test_a_right_server_conforms() -> None:
    assert red(Server(), dispatches() + startups()) == set()


GENERIC = "gather_and_maybe_dequant_cache"
COPY = "cp_gather_cache"
NVFP4 = "cp_gather_and_upconvert_nvfp4_kv_cache"

GATHERING = {
    "nvfp4 to the generic gather": (
        Changed(lambda call, _: replace(call, operator=GENERIC, kv_cache_dtype="nvfp4_ds_mla"), "nvfp4_ds_mla"),
        {"SERVE-1"},
    ),
    "fp8_ds_mla to the nvfp4 gather": (
        Changed(lambda call, _: replace(call, operator=NVFP4), "fp8_ds_mla"),
        {"SERVE-1"},
    ),
    "per-tensor fp8 copied into bf16": (
        Changed(lambda call, _: replace(call, operator="cp_gather_cache"), "fp8"),
        {"SERVE-1"},
    ),
    "the generic gather told another format": (
        Changed(lambda call, _: replace(call, kv_cache_dtype="auto"), "fp8"),
        {"SERVE-1"},
    ),
    "starts not passed": (Changed(lambda call, _: replace(call, seq_starts=None)), {"SERVE-2"}),
    "starts of another chunk": (
        Changed(lambda call, calls: replace(call, seq_starts=(*(calls[-1].seq_starts or ()), 0, 0, 0))),
        {"SERVE-2"},
    ),
    "starts of the first chunk": (
        Changed(lambda call, calls: replace(call, seq_starts=(calls[0].seq_starts or ()) + (0,) * 9)),
        {"SERVE-2"},
    ),
    "the block table of the whole batch": (
        Changed(lambda call, calls: replace(call, block_table=calls[0].block_table)),
        {"SERVE-2"},
    ),
    "a row more": (Changed(lambda call, _: replace(call, rows=call.rows + 1)), {"SERVE-2"}),
    "a row less": (Changed(lambda call, _: replace(call, rows=call.rows - 1)), {"SERVE-2"}),
    "not into the first rows": (Changed(lambda call, _: replace(call, first_row=1)), {"SERVE-2"}),
    "a request less": (Changed(lambda call, _: replace(call, requests=call.requests - 1)), {"SERVE-2"}),
    "rows of another owner": (Changed(lambda call, _: replace(call, owners=(0,) * call.rows)), {"SERVE-2"}),
    "ends instead of starts": (
        Changed(lambda call, _: replace(call, workspace_starts=call.workspace_starts[1:])),
        {"SERVE-2"},
    ),
    "starts wrong from chunk 4 on": (
        Changed(lambda call, calls: replace(call, seq_starts=(0,)) if call in calls[3:] else call),
        {"SERVE-2"},
    ),
    "starts floored to a block": (
        Changed(lambda call, _: replace(call, seq_starts=tuple(s // 64 * 64 for s in call.seq_starts or ()))),
        {"SERVE-2"},
    ),
    "batch_size is the length of cu_seq_lens": (
        Changed(lambda call, _: replace(call, requests=len(call.workspace_starts))),
        {"SERVE-2"},
    ),
    "batch_size is the whole batch's": (
        Answering(lambda calls, case: [replace(call, requests=len(case.context_lens)) for call in calls]),
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
    "no gather into fp8": (Answering(lambda calls, case: [] if case.workspace == "fp8" else calls), {"SERVE-2"}),
    "no gather for some batches": (
        Answering(lambda calls, case: None if len(case.context_lens) == 6 else calls),
        {"SERVE-1", "SERVE-2"},
    ),
    "a gather without context": (
        Answering(lambda calls, case: calls or [GatherCall(COPY, 1, case.block_table, (0, 0), 1, (0,))]),
        {"SERVE-1", "SERVE-2"},
    ),
    "stops without context": (
        Answering(lambda calls, case: calls if max(case.context_lens) else fail(IndexError())),
        {"SERVE-1", "SERVE-2"},
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
def test_a_faulty_dispatch_is_seen_under_its_clause_alone(server: Target, clauses: set[str]) -> None:
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
