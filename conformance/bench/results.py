"""Hold the result of a benchmark, and read and write it as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from conformance.bench.workloads import Case

SCHEMA = 1
MEASURED, WRONG_BITS, NOT_JUDGED, CRASHED = "measured", "wrong bits", "not judged", "crashed"


class BadResult(ValueError):
    """Report a file that holds no result of this benchmark."""


@dataclass(frozen=True)
class Measurement:
    """Hold one target's gather of one case: the median microseconds of a call, or another verdict.

    `why` explains a verdict other than "measured". `how` is the way of timing: a replayed CUDA graph, calls back to
    back, or one call at a time by wall clock. The other times are of the same case and run, in microseconds, or None: a
    device copy of as many bytes, the plain kernel, and on the CPU the first measured target.
    """

    target: str
    place: Literal["device", "cpu"]
    rows: int
    block_size: int
    requests: int
    verdict: str
    why: str = ""
    how: str = ""
    microseconds: float | None = None
    copy_microseconds: float | None = None
    plain_microseconds: float | None = None
    first_microseconds: float | None = None

    @property
    def case(self) -> Case:
        """The gathered case."""
        return Case(self.rows, self.block_size, self.requests)

    def derived(self) -> dict[str, float | None]:
        """Return gb_per_s (10^9 bytes, 1,504 a row), rows_per_s, and the ratios of the other times to this one."""
        time = self.microseconds
        return {
            "gb_per_s": None if time is None else self.case.nbytes / time / 1e3,
            "rows_per_s": None if time is None else self.rows / time * 1e6,
            "ratio_to_copy": _ratio(self.copy_microseconds, time),
            "ratio_to_plain": _ratio(self.plain_microseconds, time),
            "ratio_to_first": _ratio(self.first_microseconds, time),
        }


@dataclass(frozen=True)
class TargetNote:
    """Describe a target of a run: its place or the reason that it was not judged, and its receipt."""

    name: str
    where: str
    not_judged: str | None = None
    receipt: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """Hold a run: `date` is in UTC, and `machine` comes from facts.machine_facts."""

    date: str
    machine: dict[str, Any]
    targets: list[TargetNote]
    measurements: list[Measurement]

    def of(self, place: str) -> list[Measurement]:
        """Return the measurements of a place, "device" or "cpu"."""
        return [measurement for measurement in self.measurements if measurement.place == place]

    @property
    def failed(self) -> bool:
        """True if a target gathered wrong bits or crashed."""
        return any(measurement.verdict in (WRONG_BITS, CRASHED) for measurement in self.measurements)

    def as_json(self) -> dict[str, Any]:
        """Return the result in JSON types, with derived numbers."""
        rows = [{**asdict(measurement), **measurement.derived()} for measurement in self.measurements]
        return {"schema": SCHEMA, **asdict(self), "measurements": rows}


def write(result: Result, path: Path) -> None:
    """Write a result as JSON."""
    path.write_text(json.dumps(result.as_json(), indent=1) + "\n")


def read(path: Path) -> Result:
    """Return the result in a JSON file.

    Returns:
        The result.

    Raises:
        BadResult: if the file is no JSON, or of another schema. KeyError or TypeError is raised for missing or unknown
            fields.

    """
    try:
        stored = json.loads(path.read_text())
    except ValueError as error:
        raise BadResult(f"no JSON: {error}") from error
    found = stored.get("schema") if isinstance(stored, dict) else None
    if found != SCHEMA:
        raise BadResult(f"the schema is {found!r}; allowed is {SCHEMA}, as bench --json writes it")
    return Result(
        date=stored["date"],
        machine=stored["machine"],
        targets=[TargetNote(**note) for note in stored["targets"]],
        measurements=[Measurement(**_fields(row)) for row in stored["measurements"]],
    )


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(Measurement)}
    return {name: value for name, value in row.items() if name in names}


def _ratio(other: float | None, time: float | None) -> float | None:
    return None if other is None or time is None else other / time
