"""The installed vLLM as a target: what that release really has, found by looking, and nothing by its version."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from conformance.memory import ArrayMemory
from conformance.targets.base import PLAN, Target

PLANNERS = ("vllm.model_executor.layers.attention.mla_attention",)
"""Modules that have had plan_mla_context_chunks; tried on 0.33.0."""


class VllmTarget(Target):
    """vLLM, as far as it runs on this machine: the planner, for now."""

    name = "vllm"
    is_gpu_code = False

    def __init__(self) -> None:
        """Imports nothing yet."""
        self.memory = ArrayMemory()

    @property
    def capabilities(self) -> frozenset[str]:  # type: ignore[override]
        """What was found."""
        return frozenset({PLAN} if self._planner else ())

    def unavailable(self) -> str | None:
        """See Target."""
        return None if importlib.util.find_spec("vllm") else "vllm cannot be imported"

    def describe(self) -> str:
        """See Target."""
        try:
            return f"vLLM {version('vllm')}"
        except PackageNotFoundError:
            return "a vLLM that is not installed as a distribution"

    def receipt(self) -> dict[str, Any]:
        """See Target."""
        planner = self._planner
        return {"vllm": self.describe(), "plan": f"{planner.__module__}.{planner.__qualname__}" if planner else None}

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
        chunks: Sequence[Any] = self._planner(
            list(context_lens), row_budget, max_context_chunk, split_alignment, padded_rows
        )
        return chunks

    @cached_property
    def _planner(self) -> Callable[..., Any] | None:
        for name in PLANNERS if importlib.util.find_spec("vllm") else ():
            try:
                found = getattr(importlib.import_module(name), "plan_mla_context_chunks", None)
            except ImportError:
                continue
            if found is not None:
                planner: Callable[..., Any] = found
                return planner
        return None
