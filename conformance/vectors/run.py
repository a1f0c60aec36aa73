"""Run a stored vector on a target and report its mistakes as lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import index

import numpy as np
import numpy.typing as npt

from conformance.answers import LET_THROUGH
from conformance.memory import Region
from conformance.metadata import seen_in
from conformance.observe import TargetError, invoke, settle, wrong_elements
from conformance.plans import PlanCase
from conformance.targets.base import (
    GATHERS,
    MERGE,
    PLAN,
    PLAN_DCP,
    PLAN_METADATA,
    PLAN_WORKSPACE,
    SERVE_STARTUP,
    WRITES,
    Target,
)
from conformance.vectors import calls
from conformance.vectors.answers import chunks_told, metadata_asked, metadata_told, serving_asked
from conformance.vectors.vector import Array, Json
from conformance.verdict import Unsupported
from conformance.workspaces import WorkspaceCase
from reference.merging import numbers
from reference.records import RecordLayout

Lines = list[str]


def wrong_in(target: Target, operator: str, layout: str | None, given: Json, expected: Json) -> Lines:
    """Return the mistakes of a target on a vector as lines, [] if it passes.

    Returns:
        One line a mistake.

    Raises:
        Unsupported: if the target does not have the operator, or no target has it.

    """
    if operator not in RUNNERS:
        raise Unsupported(f"no target has {operator}: it is part of others")
    return RUNNERS[operator](target, layout, given, expected)


def _need(target: Target, *capabilities: str) -> None:
    missing = [capability for capability in capabilities if capability not in target.capabilities]
    if missing:
        raise Unsupported(f"target {target.name} has no {', '.join(missing)}")


def _read(target: Target, layout: str | None, given: Json, expected: Json) -> Lines:
    call = calls.gather_of_one(str(layout), given)
    return _gather(target, layout, call, {"dst": [expected["row"]]})


def _gather(target: Target, layout: str | None, given: Json, expected: Json) -> Lines:
    plain, with_starts, operator = GATHERS[str(layout)]
    _need(target, plain, *([with_starts] if given.get("seq_starts") is not None else []))
    case = calls.gather_call(str(layout), given)
    found = _called(target, operator, case, expected)
    if isinstance(found, list):
        return found
    return _rows(found, calls.rows_or_blank(expected["dst"], case.blank), target.nan, case.layout)


def _rows(found: Array, expected: Array, nan: str, layout: RecordLayout) -> Lines:
    wrong = wrong_elements(expected, found, nan, layout)
    return [f"dst: {_first(wrong, expected, found)}"] if wrong.any() else []


def _write(target: Target, layout: str | None, given: Json, expected: Json) -> Lines:
    _need(target, WRITES[str(layout)])
    case = calls.write_call(str(layout), given)
    found = _called(target, "concat_and_cache_mla", case, expected)
    if isinstance(found, list):
        return found
    (records,) = (one["records"] for one in expected["kv_cache"] if target.profile.name in one["profiles"])
    right = calls.rows_or_blank(records, case.blank)
    return [f"kv_cache: {_first(right != found, right, found)}"] if (right != found).any() else []


def _merge(target: Target, layout: str | None, given: Json, expected: Json) -> Lines:
    _need(target, MERGE)
    case = calls.merge_call(given)
    regions = {name: target.memory.place(placement) for name, placement in case.placements.items()}
    views = {name: region.view for name, region in regions.items()}
    results = {result: views[place] for result, place in case.written.items()}
    try:
        invoke(target, target.merge_attn_states, {"output_lse": None, **views, **results})
        settle(target)
    except TargetError as error:
        return [f"raised {error}"]
    lines: Lines = []
    for result, place in case.written.items():
        found = numbers(target.memory.read(regions[place]))
        low, high = (numbers(calls.output_array(given, result, expected[result][end])) for end in ("low", "high"))
        wrong = ~((low <= found) & (found <= high))
        lines += [f"{result}: {_first(wrong, low, found)}"] if wrong.any() else []
    return [*lines, *_around(target, regions, set(case.written.values()))]


def _called(target: Target, operator: str, case: calls.Call, expected: Json) -> Array | Lines:
    """Return the result's content after a call, or the mistakes as lines if it was refused or wrote elsewhere."""
    regions = {name: target.memory.place(placement) for name, placement in case.placements.items()}
    refusal = None
    try:
        views = {name: region.view for name, region in regions.items()}
        invoke(target, getattr(target, operator), {**views, **case.others})
        settle(target)
    except TargetError as error:
        refusal = str(error)
    found: Array = target.memory.read(regions[case.result])
    if around := _around(target, regions, {case.result}):
        return around
    if "refused" not in expected:
        return [f"raised {refusal}"] if refusal else found
    if refusal is None:
        return ["was served; it is to be refused"]
    named = any(name in refusal for name in expected["refused"])
    untouched = (found == case.blank).all()
    return ([] if named else [f"{refusal} names none of {expected['refused']}"]) + ([] if untouched else ["wrote"])


def _around(target: Target, regions: Mapping[str, Region], written: set[str]) -> Lines:
    lines = []
    for name, region in regions.items():
        if name not in written:
            before, after = (
                bits.view(f"u{bits.itemsize}") for bits in (region.placement.data, target.memory.read(region))
            )
            lines += [f"{name} was changed"] if (before != after).any() else []
        if strays := target.memory.strays(region):
            lines.append(f"{name}: written outside of it, at {strays}")
    return lines


def _first(wrong: npt.NDArray[np.bool_], expected: Array, found: Array) -> str:
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{wrong.sum()} of {wrong.size} differ, first at {[*at]}: expected {expected[at]!r}, got {found[at]!r}"


def _plan(target: Target, layout: str | None, given: Json, expected: Json) -> Lines:
    _need(target, PLAN)
    arguments = PlanCase(**given).arguments
    return _answer(expected, lambda: {"chunks": chunks_told(target.plan_mla_context_chunks(*arguments))})


def _metadata(target: Target, layout: str | None, given: Json, expected: Json) -> Lines:
    case = metadata_asked(given)
    _need(target, PLAN_METADATA, *([PLAN_DCP] if case.sharded else []))
    build = target.build_mla_chunked_context_metadata
    return _answer(expected, lambda: metadata_told(seen_in(build(*case.arguments), case.sharded)))


def _workspace(target: Target, layout: str | None, given: Json, expected: Json) -> Lines:
    _need(target, PLAN_WORKSPACE)
    arguments = WorkspaceCase(**given).arguments
    return _answer(expected, lambda: {"rows": index(target.determine_chunked_prefill_workspace_size(*arguments))})


def _answer(expected: Json, answer: Callable[[], Json]) -> Lines:
    """Return the mistakes of an answer as lines. An error is right if a refusal is due. Raises LET_THROUGH only."""
    try:
        found = answer()
    except LET_THROUGH:
        raise
    except Exception as error:
        return [] if "refused" in expected else [f"raised {type(error).__name__}: {error}"]
    return [] if found == expected else [f"expected {expected}, got {found}"]


def _startup(target: Target, layout: str | None, given: Json, expected: Json) -> Lines:
    _need(target, SERVE_STARTUP)
    try:
        target.start(serving_asked(given))
    except LET_THROUGH:
        raise
    except Exception as error:
        return [] if expected["refused"] else [f"refused: {error}"]
    return [f"starts, against {expected['clauses']}"] if expected["refused"] else []


RUNNERS: dict[str, Callable[[Target, str | None, Json, Json], Lines]] = {
    "read_record": _read,
    **dict.fromkeys((operator for _, _, operator in GATHERS.values()), _gather),
    "concat_and_cache_mla": _write,
    "merge_attn_states": _merge,
    "plan_mla_context_chunks": _plan,
    "build_mla_chunked_context_metadata": _metadata,
    "determine_chunked_prefill_workspace_size": _workspace,
    "startup": _startup,
}
"""Runners by operator. A gather of one row reads a record."""
