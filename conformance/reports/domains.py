"""List all domains of random cases, and map each case to its domain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.merge_generation import KINDS
from conformance.metadata import MetadataCase
from conformance.plans import PlanCase
from conformance.reports import classes_of_gathers, classes_of_others, classes_of_writes
from conformance.reports.coverage import Coverage
from conformance.scenarios.scenario import Scenario
from conformance.workspaces import WorkspaceCase
from fixtures.cases import GatherCase
from fixtures.merge_cases import MergeCase
from fixtures.write_cases import WriteCase

DOMAINS = {
    domain.name: domain
    for domain in (*classes_of_gathers.DOMAINS, *classes_of_writes.DOMAINS, *classes_of_others.DOMAINS)
}

_MERGES = {dtype: f"merge {kind}" for kind, dtype in KINDS.items()}

NAME_OF: dict[type, Callable[[Any], str]] = {
    GatherCase: classes_of_gathers.domain_of,
    WriteCase: classes_of_writes.domain_of,
    MergeCase: lambda case: _MERGES[case.dtype],
    PlanCase: lambda case: "plan",
    MetadataCase: lambda case: "metadata",
    WorkspaceCase: lambda case: "workspace",
    Scenario: lambda case: "workload",
}
"""The function from a case to the name of its domain, by type of case."""


def domain_of(case: Any) -> str:
    """Return the name of a case's domain, "" if it has no domain."""
    name = NAME_OF.get(type(case))
    return name(case) if name else ""


def nothing_yet() -> Coverage:
    """Return empty counters of all domains."""
    return Coverage(DOMAINS, domain_of)
