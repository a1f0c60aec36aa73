"""What a fixture asks of a target again, by the name under which a judge noted it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.attend_calls import judge_attend
from conformance.attending import must_attend_to_its_context
from conformance.judge import Judge
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
OF_A_CLAUSE: dict[str, Callable[[Judge, str, Any], None]] = {"refusal": judge_refusal, "message": judge_message}


def ask_of(question: str) -> Ask | None:
    """What judges a case under that name, "gather", or "refusal SERVE-3"; None for a name that is none."""
    if question in ASKS:
        return ASKS[question]
    name, _, clause = question.partition(" ")
    if name in OF_A_CLAUSE:
        return lambda judge, case: OF_A_CLAUSE[name](judge, clause, case)
    return None
