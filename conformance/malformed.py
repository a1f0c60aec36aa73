"""Malformed calls that a fixture holds: the good call, and the name of what was changed in it."""

from __future__ import annotations

from typing import Any

from conformance import calls, merge_calls, write_calls
from conformance.judge import Judge
from fixtures.cases import GatherCase
from fixtures.merge_cases import MergeCase
from fixtures.write_cases import WriteCase

GATHERS = {each.name: each for each in calls.MALFORMED}
GENERIC_GATHERS = {each.name: each for each in (*calls.MALFORMED_GENERIC, *calls.OTHER_CACHE.values())}
WRITES = {each.name: each for each in (*write_calls.MALFORMED, *write_calls.MALFORMED_DTYPES.values())}
MERGES = {each.name: each for each in merge_calls.MALFORMED}
"""The changes of each operator by name, such as "dst int32"."""


def judge_malformed(judge: Judge, name: str, case: Any) -> None:
    """Raise Differs unless the target refuses a call with the change of that name, and writes nothing.

    `case` is the call before the change.

    Raises:
        ValueError: if the operator of the case has no such change.
    """
    if isinstance(case, GatherCase) and name in (table := GATHERS if case.layout.scales.count else GENERIC_GATHERS):
        calls.must_refuse_call(judge, table[name], case)
    elif isinstance(case, WriteCase) and name in WRITES:
        write_calls.must_refuse_write_call(judge, WRITES[name], case)
    elif isinstance(case, MergeCase) and name in MERGES:
        merge_calls.must_refuse_merge_call(judge, MERGES[name], case)
    else:
        raise ValueError(f"there is no malformed call {name!r:.80} of a {type(case).__name__}")
