"""Servers as they should be and as they should not, and the clauses of SERVE that they are red in."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NoReturn

from conformance.contexts import FP8_SITES, SITES, Context, GatherCall, batches, cumulated
from conformance.judge import Crashed, Differs, Judge, NotJudged
from conformance.memory import ArrayMemory
from conformance.serving import judge_message, judge_operator, judge_refusal, judge_rows, judge_start
from conformance.startups import RULES, STARTS
from conformance.targets.base import SERVE_DISPATCH, SERVE_STARTUP, Target
from reference.serving import GATHERS, PER_TENSOR, Serving, check_startup, gathers_for


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


class Answering(Server):
    """Answers that are changed, by the batch."""

    def __init__(self, change: Callable[[list[GatherCall], Context], Any]) -> None:
        self.change = change

    def context_gathers(self, site: str, kv_cache_dtype: str, case: Context) -> Sequence[GatherCall] | None:
        changed: Sequence[GatherCall] | None = self.change(
            list(super().context_gathers(site, kv_cache_dtype, case) or ()), case
        )
        return changed


def fail(error: BaseException) -> NoReturn:
    raise error


class Starting(Server):
    """A server that starts, or refuses, otherwise."""

    def __init__(self, otherwise: Callable[[Serving], object]) -> None:
        self.otherwise = otherwise

    def start(self, config: Serving) -> None:
        self.otherwise(config)


Asked = list[tuple[str, Callable[..., None], tuple[object, ...]]]


def dispatches() -> Asked:
    """What the gate asks of the sites."""
    return [
        (clause, by, (site, replace(case, workspace=workspace), dtype))
        for workspace, sites, dtypes in (("bf16", SITES, tuple(GATHERS)), ("fp8", FP8_SITES, PER_TENSOR))
        for site in sites
        for case in batches(site)
        for dtype in dtypes
        for clause, by in (("SERVE-1", judge_operator), ("SERVE-2", judge_rows))
    ]


def startups() -> Asked:
    """What the gate asks of the startup."""
    asked: Asked = [("SERVE-10", judge_start, (config,)) for config in STARTS]
    for clause, rule in RULES.items():
        asked += [(clause, judge_refusal, (clause, config)) for config in rule.configs + rule.also]
        asked += [("SERVE-9", judge_message, (clause, config)) for config in rule.configs]
    return asked


def red(target: Target, asked: Asked) -> set[str]:
    """The clauses that a target is red in."""
    found = set()
    for clause, ask, arguments in asked:
        try:
            ask(Judge(target, [clause]), *arguments)
        except (Differs, Crashed):
            found.add(clause)
        except NotJudged:
            pass
    return found
