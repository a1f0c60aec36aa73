"""Means to build metadata that are wrong in one way: the golden model's answer with something done to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from conformance.faults.defect import Defect
from conformance.faults.planners import Planner
from conformance.metadata import LOCAL_CLAUSE_OF, MetadataCase, golden
from conformance.plan_rules import Call
from conformance.targets.base import PLAN_DCP, PLAN_METADATA
from conformance.targets.models import NumpyTarget
from reference import context_metadata

Builder = Callable[[MetadataCase], Any]


class FaultyBuilder(NumpyTarget):
    """A target whose metadata come from a function of the case, whose sequences are the caller's own."""

    capabilities = frozenset({PLAN_METADATA})

    def __init__(self, builder: Builder) -> None:
        """`builder` answers none, or anything with the attributes that PLAN names."""
        super().__init__()
        self.builder = builder

    def build_mla_chunked_context_metadata(self, *arguments: Any) -> Any:
        """See Target."""
        return self.builder(MetadataCase(*arguments))


class FaultyShardedBuilder(FaultyBuilder):
    """One that builds for several ranks too."""

    capabilities = frozenset({PLAN_METADATA, PLAN_DCP})


def loosened(case: MetadataCase) -> Any:
    """The right metadata, none or with fields that can be changed."""
    answer = golden(case)
    if answer is None:
        return None
    chunks = [SimpleNamespace(**{n: getattr(c, n) for n in LOCAL_CLAUSE_OF if hasattr(c, n)}) for c in answer.chunks]
    return SimpleNamespace(**{**vars(answer), "chunks": chunks})


def changed(change: Callable[[MetadataCase, Any], None]) -> Builder:
    """The right metadata, with something done to them."""

    def build(case: MetadataCase) -> Any:
        answer = loosened(case)
        if answer is not None:
            change(case, answer)
        return answer

    return build


def each(change: Callable[[MetadataCase, Any], None]) -> Builder:
    """The right metadata, with something done to each chunk."""

    def change_all(case: MetadataCase, answer: Any) -> None:
        for chunk in answer.chunks:
            change(case, chunk)

    return changed(change_all)


def setting(**values: Callable[[MetadataCase, Any], Any]) -> Builder:
    """Sets fields of each chunk."""
    return each(lambda case, chunk: vars(chunk).update({name: get(case, chunk) for name, get in values.items()}))


def batch_setting(**values: Callable[[MetadataCase, Any], Any]) -> Builder:
    """Sets fields of the batch."""
    return changed(lambda case, answer: vars(answer).update({name: get(case, answer) for name, get in values.items()}))


def arrays(dtype: Any, name: str) -> Builder:
    """An array field of another type."""
    return setting(**{name: lambda case, chunk: np.asarray(getattr(chunk, name)).astype(dtype)})


def modulo(most: int, name: str) -> Builder:
    """An array field whose numbers wrap around."""
    return setting(**{name: lambda case, chunk: [int(n) % most for n in getattr(chunk, name)]})


def with_case(**fields: Callable[[MetadataCase], Any]) -> Builder:
    """The right metadata of a call that has some arguments replaced."""
    return lambda case: golden(replace(case, **{name: get(case) for name, get in fields.items()}))


def planned(planner: Planner) -> Builder:
    """Metadata around the plan of a planner that is wrong."""

    def plan(*arguments: Any) -> Any:
        return planner(Call(*arguments))

    def build(case: MetadataCase) -> Any:
        with patch.object(context_metadata, "plan_mla_context_chunks", plan):
            return golden(case)

    return build


def lax(accepts: Callable[[MetadataCase], bool]) -> Builder:
    """Builds as for the alignment where the workspace has fewer rows, in such a case."""

    def build(case: MetadataCase) -> Any:
        few = case.workspace_rows < case.alignment and accepts(case)
        return golden(replace(case, workspace_rows=case.alignment) if few else case)

    return build


def raising(when: Callable[[MetadataCase], bool]) -> Builder:
    """Raises in such a case."""

    def build(case: MetadataCase) -> Any:
        if when(case):
            raise IndexError("list index out of range")
        return golden(case)

    return build


def unsharded_defect(name: str, clause: str, builder: Builder, sentence: str, source: str = "") -> Defect:
    """A defect of a builder for one rank."""
    return Defect(name, sentence, clause, "plan", partial(FaultyBuilder, builder), source)


def sharded_defect(name: str, clause: str, builder: Builder, sentence: str, source: str = "") -> Defect:
    """A defect of a builder for one rank and for several."""
    return Defect(name, sentence, clause, "plan", partial(FaultyShardedBuilder, builder), source)
