"""Compute the right answers with the golden model, and compare them with a second source."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from conformance.merges import expected_lse, expected_output
from conformance.targets.models import TorchTarget
from conformance.vectors import calls
from conformance.vectors.run import wrong_in
from conformance.vectors.vector import Array, Json, Vector, array_of, hexed, rows_of
from reference import gather
from reference.profiles import DEFAULT, PROFILES, Profile
from reference.reading import read_records
from reference.writing import concat_and_cache_mla

GATHERS: dict[str, Callable[..., None]] = {
    "nvfp4_ds_mla": gather.cp_gather_and_upconvert_nvfp4_kv_cache,
    "fp8_ds_mla": gather.cp_gather_and_upconvert_fp8_kv_cache,
    "auto": gather.gather_and_maybe_dequant_cache,
    "fp8": gather.gather_and_maybe_dequant_cache,
}


class Disputed(Exception):
    """Report a vector whose two sources disagree, or that differs from its description."""


def row_of(layout: str, vector: Vector) -> Json:
    """Return the row of a record as hex: bf16 [layout.row] (READ, TWIN)."""
    record = array_of(vector.input["record"], "u8")[None]
    scale = array_of(vector.input.get("scale", "0000803f"), "binary32")
    return {"row": hexed(read_records(calls.layout_of(layout, vector.input), record, scale)[0], "bf16")}


def gathered(layout: str, vector: Vector) -> Json:
    """Return dst as rows of hex, null for an unwritten row. Raises Disputed if a due refusal is missing (GATHER)."""
    call = calls.gather_call(layout, vector.input)
    return _refusal(vector, partial(GATHERS[layout], **call.arguments)) or {"dst": _result(GATHERS[layout], call)}


def written(layout: str, vector: Vector) -> Json:
    """Compute the records of kv_cache as hex, in groups of profiles that agree (WRITE).

    Returns:
        {"kv_cache": groups} or {"refused": names}. An unwritten record is null.

    Raises:
        Disputed: if a due refusal is missing.

    """
    call = calls.write_call(layout, vector.input)
    if refusal := _refusal(vector, partial(concat_and_cache_mla, **call.arguments)):
        return refusal
    groups: list[Json] = []
    for profile in PROFILES.values():
        records = _result(partial(concat_and_cache_mla, profile=profile), call)
        same = [group for group in groups if group["records"] == records]
        if same:
            same[0]["profiles"].append(profile.name)
        else:
            groups.append({"profiles": [profile.name], "records": records})
    return {"kv_cache": groups}


def merged(vector: Vector) -> Json:
    """Return the least and the largest right number of each element as hex, in the result's type (MERGE)."""
    case = calls.merge_case(vector.input)
    kind = vector.input["type"]
    output = expected_output(case)
    ends = {"low": output.low, "high": output.high}
    encoded = {end: rows_of(_encoded(numbers, kind), kind) for end, numbers in ends.items()}
    if case.lse_in is None:
        return {"output": encoded}
    lse = expected_lse(case)
    inner = {"low": _not_beyond(lse.low, -np.inf), "high": _not_beyond(lse.high, np.inf)}
    return {"output": encoded, "output_lse": {end: rows_of(numbers, "binary32") for end, numbers in inner.items()}}


def of_the_second_model(operator: str, layout: str | None, vector: Vector, expected: Json) -> list[str]:
    """Return what the torch model does differently, one line a difference, under each profile."""
    profiles = [*PROFILES.values()] if operator == "concat_and_cache_mla" else [DEFAULT]
    wrong = [(profile, wrong_in(_torch(profile), operator, layout, vector.input, expected)) for profile in profiles]
    return [f"the second model, {profile.name}: {line}" for profile, lines in wrong for line in lines]


@cache
def _torch(profile: Profile) -> TorchTarget:
    return TorchTarget(profile=profile)


def _refusal(vector: Vector, call: Callable[[], None]) -> Json | None:
    if not vector.refused:
        return None
    try:
        call()
    except ValueError as error:
        if any(name in str(error) for name in vector.refused):
            return {"refused": [*vector.refused]}
    raise Disputed(f"{vector.comment}: not refused for {vector.refused}")


def _result(operator: Callable[..., None], call: calls.Call) -> Any:
    """Return the rows of the result as hex. A row that the operator leaves is null."""
    left = []
    for before in (call.blank, ~call.blank):
        arguments = {**call.arguments, call.result: before.copy()}
        operator(**arguments)
        left.append(arguments[call.result])
    return _same(rows_of(left[0].view(np.uint8)), rows_of(left[1].view(np.uint8)))


def _same(first: Any, second: Any) -> Any:
    if isinstance(first, list):
        return [_same(*pair) for pair in zip(first, second, strict=True)]
    return first if first == second else None


def _encoded(numbers: Array, kind: str) -> Array:
    """Return numbers, of any shape, as `rows_of` takes them: uint16 for "bf16", else float32. A zero becomes +0."""
    exact = (numbers + 0.0).astype(np.float32)
    return (exact.view(np.uint32) >> 16).astype(np.uint16) if kind == "bf16" else exact


def _not_beyond(bound: Array, outwards: float) -> Array:
    """Return the float32 nearest to each bound, float64 of any shape, that is not outside of it."""
    near = bound.astype(np.float32)
    beyond = near > bound if outwards > 0 else near < bound
    return np.where(beyond, np.nextafter(near, np.float32(-outwards)), near)
