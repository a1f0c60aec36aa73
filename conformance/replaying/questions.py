"""What a fixture asks of a target again, by the name under which a judge noted it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.attend_calls import judge_attend
from conformance.attending import must_attend_to_its_context
from conformance.calls import must_ignore_unused_strides, refuses_or_conforms
from conformance.judge import Judge
from conformance.malformed import judge_malformed
from conformance.merges import judge_merge
from conformance.metadata import judge_metadata
from conformance.plans import judge_plan
from conformance.serving import judge_message, judge_operator, judge_refusal, judge_rows, judge_start
from conformance.workspaces import judge_workspace
from conformance.writes import judge_write

Ask = Callable[[Judge, Any], None]

ASKS: dict[str, Ask] = {
    "gather": Judge.__call__,
    "write": judge_write,
    "merge": judge_merge,
    "chunks": must_attend_to_its_context,
    "compute_prefill_context": judge_attend,
    "plan_mla_context_chunks": judge_plan,
    "build_mla_chunked_context_metadata": judge_metadata,
    "determine_chunked_prefill_workspace_size": judge_workspace,
    "operator": lambda judge, case: judge_operator(judge, case.site, case.context, case.kv_cache_dtype),
    "rows": lambda judge, case: judge_rows(judge, case.site, case.context, case.kv_cache_dtype),
    "start": judge_start,
}
ASKS_ABOUT: dict[str, Callable[[Judge, str, Any], None]] = {
    "refusal": judge_refusal,
    "message": judge_message,
    "malformed": judge_malformed,
    "misaligned": lambda judge, argument, case: refuses_or_conforms(judge, case, argument),
    "strides": must_ignore_unused_strides,
}
"""Questions of two parts, such as "refusal SERVE-3" and "malformed dst int32"."""

NOT_SHRUNK = ("malformed",)
"""Questions whose case stays as it is: smaller, a malformed call may be one that a target need not refuse."""


def ask_of(question: str) -> Ask | None:
    """Return the judge of a question such as "gather" or "refusal SERVE-3". Return None for an unknown one."""
    if question in ASKS:
        return ASKS[question]
    name, _, about = question.partition(" ")
    if name in ASKS_ABOUT:
        return lambda judge, case: ASKS_ABOUT[name](judge, about, case)
    return None


def may_shrink(question: str) -> bool:
    """Return whether a smaller case answers the same question."""
    return question.partition(" ")[0] not in NOT_SHRUNK
