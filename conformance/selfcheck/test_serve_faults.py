"""SERVE: a right target conforms, and each faulty one is seen."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

import pytest

from conformance.contexts import SITES, Context, GatherCall, cumulated
from conformance.judge import Crashed, Differs, Judge, NotJudged, Unsupported
from conformance.memory import ArrayMemory
from conformance.selfcheck.running import gate
from conformance.serving import (
    CONTEXTS,
    RULES,
    SHARDED,
    STARTS,
    judge_message,
    judge_operator,
    judge_refusal,
    judge_rows,
    judge_start,
)
from conformance.targets.base import SERVE_DISPATCH, SERVE_STARTUP, Target
from reference.serving import GATHERS, Serving, check_startup, gathers_for


class Server(Target):
    """A server as it should be."""

    name = "server"
    memory = ArrayMemory()
    capabilities: ClassVar[frozenset[str]] = frozenset({SERVE_DISPATCH, SERVE_STARTUP})

    def describe(self) -> str:
        return "a stand-in"

    def context_gathers(self, site: str, kv_cache_dtype: str, case: Context) -> Sequence[GatherCall] | None:
        operator = gathers_for(kv_cache_dtype, case.workspace)[0]
        calls = []
        for chunk in case.chunks(site):
            starts, rows = case.local(chunk)
            table = case.block_table[chunk.request_start : chunk.request_end]
            told = kv_cache_dtype if operator == "gather_and_maybe_dequant_cache" else None
            workspace_starts = cumulated(rows)
            calls.append(
                GatherCall(operator, sum(rows), table, workspace_starts, len(rows), starts, kv_cache_dtype=told)
            )
        return calls

    def start(self, config: Serving) -> None:
        check_startup(config)


class Changed(Server):
    """Gathers that are changed before they are made."""

    def __init__(self, change: Callable[[GatherCall, list[GatherCall]], GatherCall], *formats: str) -> None:
        self.change, self.formats = change, formats or tuple(GATHERS)

    def context_gathers(self, site: str, kv_cache_dtype: str, case: Context) -> Sequence[GatherCall] | None:
        calls = list(super().context_gathers(site, kv_cache_dtype, case) or ())
        return [self.change(call, calls) for call in calls] if kv_cache_dtype in self.formats else calls


class Starting(Server):
    """A server that starts, or refuses, otherwise."""

    def __init__(self, otherwise: Callable[[Serving], object]) -> None:
        self.otherwise = otherwise

    def start(self, config: Serving) -> None:
        self.otherwise(config)


def red(target: Target) -> set[str]:
    """The clauses that a target is red in, each judged on all of the gate's cases."""
    found = set()
    asked: list[tuple[str, Callable[..., None], tuple[object, ...]]] = [
        (clause, by, (site, case, dtype))
        for site in SITES
        for case in (SHARDED if site == "dcp" else CONTEXTS).values()
        for dtype in GATHERS
        for clause, by in (("SERVE-1", judge_operator), ("SERVE-2", judge_rows))
    ]
    for clause, rule in RULES.items():
        for config in rule.configs:
            asked += [(clause, judge_refusal, (clause, config)), ("SERVE-9", judge_message, (clause, config))]
    asked += [("SERVE-10", judge_start, (config,)) for config in STARTS]
    for clause, ask, arguments in asked:
        try:
            ask(Judge(target, [clause]), *arguments)
        except (Differs, Crashed):
            found.add(clause)
        except NotJudged:
            pass
    return found


def test_a_right_server_conforms() -> None:
    assert red(Server()) == set()


GENERIC = "gather_and_maybe_dequant_cache"
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
    "lengths of the whole context, not of one rank": (
        Changed(
            lambda call, _: replace(call, seq_starts=tuple(2 * start for start in call.seq_starts or ())),
        ),
        {"SERVE-2"},
    ),
}


@pytest.mark.parametrize(("server", "clauses"), GATHERING.values(), ids=GATHERING)
def test_a_faulty_dispatch_is_seen_under_its_clause_alone(server: Target, clauses: set[str]) -> None:
    assert red(server) == clauses


def accepting(**changes: object) -> Starting:
    """A server that does not look at some of the options."""
    return Starting(lambda config: check_startup(replace(config, **changes)))  # type: ignore[arg-type]


def wordless(config: Serving) -> None:
    try:
        check_startup(config)
    except ValueError:
        raise ValueError("head_size not supported") from None


def hopper_too(config: Serving) -> None:
    major = 10 if config.compute_capability[0] == 9 else config.compute_capability[0]
    check_startup(replace(config, compute_capability=(major, 0)))


def only_the_sum(config: Serving) -> None:
    right = config.kv_lora_rank + config.qk_rope_head_dim == 576
    check_startup(replace(config, kv_lora_rank=512, qk_rope_head_dim=64) if right else config)


def plain_nvfp4_too(config: Serving) -> None:
    check_startup(replace(config, kv_cache_dtype="auto") if config.kv_cache_dtype == "nvfp4" else config)


def never(config: Serving) -> None:
    raise RuntimeError("no")


STARTUPS = {
    "accepts decode context parallelism": (accepting(decode_context_parallel_size=1), {"SERVE-7"}),
    "accepts every head size": (accepting(kv_lora_rank=512, qk_rope_head_dim=64), {"SERVE-4"}),
    "accepts every head size of 576": (Starting(only_the_sum), {"SERVE-4"}),
    "accepts every backend": (accepting(attention_backend="FLASHMLA_SPARSE"), {"SERVE-5"}),
    "accepts capability 9.0": (Starting(hopper_too), {"SERVE-6"}),
    "accepts models without MLA": (accepting(uses_mla=True), {"SERVE-3"}),
    "accepts plain nvfp4": (Starting(plain_nvfp4_too), {"SERVE-8"}),
    "a message that names nothing": (Starting(wordless), {"SERVE-9"}),
    "refuses everything": (Starting(never), {"SERVE-9", "SERVE-10"}),
    "capability 10.0 alone": (
        Starting(lambda config: never(config) if config.compute_capability == (10, 3) else check_startup(config)),
        {"SERVE-10"},
    ),
}


@pytest.mark.parametrize(("server", "clauses"), STARTUPS.values(), ids=STARTUPS)
def test_a_faulty_startup_is_seen_under_its_clause_alone(server: Target, clauses: set[str]) -> None:
    assert red(server) == clauses


def test_a_refusal_on_the_first_request_with_context_is_none_at_startup() -> None:
    class Late(Server):
        def start(self, config: Serving) -> None:
            self.config = config

        def context_gathers(self, site: str, kv_cache_dtype: str, case: Context) -> Sequence[GatherCall] | None:
            check_startup(self.config)
            return super().context_gathers(site, kv_cache_dtype, case)

    assert red(Late()) >= {"SERVE-3", "SERVE-4", "SERVE-5", "SERVE-6", "SERVE-7", "SERVE-8"}


def test_a_site_that_nothing_comes_to_is_no_fault_but_for_dense_prefill() -> None:
    class Elsewhere(Server):
        def context_gathers(self, site: str, kv_cache_dtype: str, case: Context) -> Sequence[GatherCall] | None:
            return None

    (case, *_) = CONTEXTS.values()
    judge_operator(Judge(Elsewhere()), "sparse_masked", case, "fp8_ds_mla")
    with pytest.raises(Differs, match="no gather at all"):
        judge_operator(Judge(Elsewhere()), "dense", case, "fp8_ds_mla")


def test_a_target_that_does_not_claim_to_serve_is_not_asked() -> None:
    class Idle(Server):
        capabilities: ClassVar[frozenset[str]] = frozenset()

    with pytest.raises(Unsupported):
        judge_start(Judge(Idle()), Serving())
    done = gate("conformance/gate/test_serve.py", "--target", "numpy")
    assert done.returncode == 5, done.stdout  # no test is left
