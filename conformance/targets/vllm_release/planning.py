"""Plan chunks of context with vLLM's planner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from conformance.targets.base import PLAN
from conformance.targets.vllm_release import names


class Planning:
    """Serve `plan` with the planner of the installed release."""

    def planning_capabilities(self) -> frozenset[str]:
        """Return plan, if the release has a planner."""
        return frozenset({PLAN} if self._planner else ())

    def planning_receipt(self) -> dict[str, Any]:
        """Return the qualified name of the planner."""
        planner = self._planner
        return {"plan": f"{planner.__module__}.{planner.__qualname__}" if planner else None}

    def plan_mla_context_chunks(
        self,
        context_lens: Sequence[int],
        row_budget: int,
        max_context_chunk: int,
        split_alignment: int,
        padded_rows: Callable[[int], int],
    ) -> Sequence[Any]:
        """See Target."""
        assert self._planner is not None
        # The caller's own list, so that a planner which changes it is seen (PLAN-23).
        chunks: Sequence[Any] = self._planner(context_lens, row_budget, max_context_chunk, split_alignment, padded_rows)
        return chunks

    @cached_property
    def _planner(self) -> Callable[..., Any] | None:
        found: Callable[..., Any] | None = names.first_of(names.PLANNER)
        return found
