"""Build wrong planners: the golden plan of changed arguments, with other cuts, or with other attributes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from conformance.plan_rules import Call
from conformance.targets.base import PLAN
from conformance.targets.models import NumpyTarget
from reference import chunks
from reference.chunks import Chunk, plan_mla_context_chunks

Planner = Callable[[Call], Any]


class FaultyPlanner(NumpyTarget):
    """Answer plan_mla_context_chunks with a function of the call."""

    capabilities = frozenset({PLAN})

    def __init__(self, planner: Planner) -> None:
        """Set `planner`; its call holds the caller's own list of context_lens."""
        super().__init__()
        self.planner = planner

    def plan_mla_context_chunks(self, *arguments: Any) -> Any:
        """Return the planner's answer."""
        return self.planner(Call(*arguments))


def a_plan(call: Call) -> list[Chunk]:
    """Return the golden plan of a call."""
    return plan_mla_context_chunks(*vars(call).values())


def instead(unless: Callable[[Call], bool] = lambda call: False, **fields: Callable[[Call], Any]) -> Planner:
    """Return a planner that replaces some arguments, except in calls for which `unless` holds."""

    def plan(call: Call) -> list[Chunk]:
        other = replace(call, **{name: get(call) for name, get in fields.items()})
        return a_plan(call if unless(call) else other)

    return plan


def refusing(when: Callable[[Call], bool]) -> Planner:
    """Return a planner that raises OverflowError in calls for which `when` holds."""

    def plan(call: Call) -> list[Chunk]:
        if when(call):
            raise OverflowError("too large, or too small")
        return a_plan(call)

    return plan


def cutting(change: Callable[[int, Any, int], int]) -> Planner:
    """Return the golden planner with other cuts: `change` of the right length, the open chunk and the alignment."""
    right = chunks._largest_piece

    def piece(rest: int, run: Any, most: int, alignment: int) -> int:
        return change(right(rest, run, most, alignment), run, alignment)

    def plan(call: Call) -> list[Chunk]:
        with patch.object(chunks, "_largest_piece", piece):
            return a_plan(call)

    return plan


def at_most(requests: int) -> Planner:
    """Return a planner that puts at most `requests` requests into a chunk."""

    def plan(call: Call) -> list[Chunk]:
        return [
            Chunk(c.request_start + k, min(c.request_end, c.request_start + k + requests), *parts)
            for c in a_plan(call)
            for k in range(0, len(c.starts), requests)
            for parts in [(c.starts[k : k + requests], c.seq_lens[k : k + requests])]
        ]

    return plan


def told(**change: Callable[[Any], Any]) -> Planner:
    """Return the golden planner with some attributes of its chunks changed by functions."""

    def plan(call: Call) -> list[Any]:
        plain = [{**vars(chunk), "is_continuation": chunk.is_continuation} for chunk in a_plan(call)]
        return [SimpleNamespace(**fields | {n: to(fields[n]) for n, to in change.items()}) for fields in plain]

    return plan
