"""Build metadata that are wrong in one way: change the arguments or the answer of the golden model."""

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
    """Answer build_mla_chunked_context_metadata with a function of the case."""

    capabilities = frozenset({PLAN_METADATA})

    def __init__(self, builder: Builder) -> None:
        """Set `builder`, which returns None or an object with the attributes that PLAN names."""
        super().__init__()
        self.builder = builder

    def build_mla_chunked_context_metadata(self, *arguments: Any) -> Any:
        """Return the builder's answer. The case holds the caller's own sequences, not copies."""
        return self.builder(MetadataCase(*arguments))


class FaultyShardedBuilder(FaultyBuilder):
    """Claim metadata for several ranks too."""

    capabilities = frozenset({PLAN_METADATA, PLAN_DCP})


def loosened(case: MetadataCase) -> Any:
    """Return the golden metadata with fields that can be changed, or None if no request has context."""
    answer = golden(case)
    if answer is None:
        return None
    chunks = [SimpleNamespace(**{n: getattr(c, n) for n in LOCAL_CLAUSE_OF if hasattr(c, n)}) for c in answer.chunks]
    return SimpleNamespace(**{**vars(answer), "chunks": chunks})


def changed(change: Callable[[MetadataCase, Any], None]) -> Builder:
    """Return a builder of the golden metadata, to which `change` was applied."""

    def build(case: MetadataCase) -> Any:
        answer = loosened(case)
        if answer is not None:
            change(case, answer)
        return answer

    return build


def each(change: Callable[[MetadataCase, Any], None]) -> Builder:
    """Return a builder of the golden metadata; `change` was applied to each chunk."""

    def change_all(case: MetadataCase, answer: Any) -> None:
        for chunk in answer.chunks:
            change(case, chunk)

    return changed(change_all)


def setting(**values: Callable[[MetadataCase, Any], Any]) -> Builder:
    """Return a builder that sets fields of each chunk; a value is a function of the case and the chunk."""
    return each(lambda case, chunk: vars(chunk).update({name: get(case, chunk) for name, get in values.items()}))


def batch_setting(**values: Callable[[MetadataCase, Any], Any]) -> Builder:
    """Return a builder that sets fields of the batch; a value is a function of the case and the metadata."""
    return changed(lambda case, answer: vars(answer).update({name: get(case, answer) for name, get in values.items()}))


def arrays(dtype: Any, name: str) -> Builder:
    """Return a builder whose array field `name` has another dtype. The shape stays."""
    return setting(**{name: lambda case, chunk: np.asarray(getattr(chunk, name)).astype(dtype)})


def modulo(most: int, name: str) -> Builder:
    """Return a builder whose field `name` is a list of the numbers modulo `most`."""
    return setting(**{name: lambda case, chunk: [int(n) % most for n in getattr(chunk, name)]})


def with_case(**fields: Callable[[MetadataCase], Any]) -> Builder:
    """Return a builder that calls the golden model with some arguments replaced."""
    return lambda case: golden(replace(case, **{name: get(case) for name, get in fields.items()}))


def planned(planner: Planner) -> Builder:
    """Return a builder that makes the golden metadata from the plan of another planner."""

    def plan(*arguments: Any) -> Any:
        return planner(Call(*arguments))

    def build(case: MetadataCase) -> Any:
        with patch.object(context_metadata, "plan_mla_context_chunks", plan):
            return golden(case)

    return build


def lax(accepts: Callable[[MetadataCase], bool]) -> Builder:
    """Return a builder that accepts a workspace below the alignment where `accepts` holds."""

    def build(case: MetadataCase) -> Any:
        few = case.workspace_rows < case.alignment and accepts(case)
        return golden(replace(case, workspace_rows=case.alignment) if few else case)

    return build


def raising(when: Callable[[MetadataCase], bool]) -> Builder:
    """Return a builder that raises IndexError where `when` holds. Else it returns the golden metadata."""

    def build(case: MetadataCase) -> Any:
        if when(case):
            raise IndexError("list index out of range")
        return golden(case)

    return build


def unsharded_defect(name: str, clause: str, builder: Builder, sentence: str, source: str = "") -> Defect:
    """Return the defect of a builder that claims one rank only."""
    return Defect(name, sentence, clause, "plan", partial(FaultyBuilder, builder), source)


def sharded_defect(name: str, clause: str, builder: Builder, sentence: str, source: str = "") -> Defect:
    """Return the defect of a builder that claims one rank and several ranks."""
    return Defect(name, sentence, clause, "plan", partial(FaultyShardedBuilder, builder), source)
