"""Whether a fixture's expectation is still the golden model's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.judge import expected_rows
from conformance.merges import merged
from fixtures.cases import GatherCase
from fixtures.merge_cases import MergeCase
from fixtures.placement import POISONS, ZERO
from fixtures.store import Fixture
from fixtures.stored_rows import digest
from fixtures.write_cases import WriteCase
from reference.profiles import PROFILES

Arrays = dict[str, npt.NDArray[Any]]


def changes(fixture: Fixture) -> Iterator[str]:
    """In lines, how what is expected differs from what was, when the fixture was written."""
    for name, array in expected_today(fixture).items():
        stored, now = fixture.expected.get(f"{name}.sha256"), array.reshape(-1, array.shape[-1])
        if stored is not None and not np.array_equal(digest(now), stored):
            yield f"the golden model has changed since: {name} is not as expected then{_where(fixture, name, now)}"


def _where(fixture: Fixture, name: str, now: npt.NDArray[Any]) -> str:
    """Which of the rows that were kept are others; `now` is [n, width]. What was kept may be anything."""
    rows, at = fixture.expected.get(name), fixture.expected.get(f"{name}.at")
    if rows is None or at is None:
        return ""
    numbers = at.dtype.kind == "i" and at.ndim == 1 and len(at) and at.min() >= 0 and at.max() < len(now)
    if not numbers or rows.shape != (len(at), now.shape[1]) or rows.dtype != now.dtype:
        return ", nor is its shape"
    other = at[(now[at].view(np.uint8) != np.ascontiguousarray(rows).view(np.uint8)).any(axis=1)]
    return f" (row {int(other[0])} among {len(other)})" if len(other) else " (in rows that were not kept)"


def expected_today(fixture: Fixture) -> Arrays:
    """By name, what the golden model gives for a case; nothing for those whose expectation is not kept."""
    predict: Callable[[Any, Fixture], Arrays] | None = _PREDICTED.get(type(fixture.case))
    return predict(fixture.case, fixture) if predict else {}


def _cache(case: WriteCase, fixture: Fixture) -> Arrays:
    poison = next((each for each in (*POISONS, ZERO) if each.name == fixture.poison), None)
    profile = PROFILES.get(str(fixture.about.get("profile")))
    return {"cache": case.written(poison, profile)} if poison and profile else {}


_PREDICTED: dict[type, Callable[[Any, Fixture], Arrays]] = {
    GatherCase: lambda case, fixture: {"rows": expected_rows(case)},
    WriteCase: _cache,
    MergeCase: lambda case, fixture: merged(case),
}
