"""What the gate asks of a server, and the clauses of SERVE that one is red in."""

from collections.abc import Callable
from dataclasses import replace

from conformance.contexts import batches
from conformance.judge import Judge
from conformance.serving import judge_message, judge_operator, judge_refusal, judge_rows, judge_start
from conformance.startups import RULES, STARTS
from conformance.targets.base import Target
from conformance.verdict import Crashed, Differs, NotJudged
from fixtures.serve_cases import FP8_SITES, SITES
from reference.serving import GATHERS, PER_TENSOR

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
