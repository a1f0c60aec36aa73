"""gate.json read back: what a file holds, once it is known to be a whole report of this schema."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

FILE = "gate.json"
SCHEMA_FILE = Path(__file__).with_name("gate.schema.json")
DEEPEST = 100
"""How many levels of lists and objects a report may have; a receipt is as deep as its target likes."""

Json = dict[str, Any]


class NoReport(ValueError):
    """A file that cannot be used; `lines` name the file, what was found and what is allowed."""

    def __init__(self, lines: Sequence[str]) -> None:
        """At least one line."""
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


def file_of(path: Path) -> Path:
    """The report that a path means: itself, or gate.json in it if it is a folder."""
    return path / FILE if path.is_dir() else path


def read(path: Path) -> Json:
    """The report in a file, whose shape gate.schema.json allows; NoReport for anything else."""
    try:
        report = json.loads(path.read_bytes(), parse_constant=_refuse)
        json.dumps(report, ensure_ascii=False).encode()  # half a surrogate pair cannot be written again
    except OSError as error:
        raise NoReport([f"{path}: {error.strerror}; allowed are a gate.json and a folder that holds one"]) from error
    except (ValueError, RecursionError) as error:
        raise NoReport([f"{path}: found no JSON: {error}; allowed is a whole gate.json"]) from error
    if _depth(report) > DEEPEST:
        raise NoReport([f"{path}: found more than {DEEPEST} levels of lists and objects; allowed are no more"])
    if problems := [f"{path}: {problem}" for problem in problems_of(report)]:
        more = [f"{path}: and {len(problems) - 3} more of the kind"] if len(problems) > 3 else []
        raise NoReport([*problems[:3], *more])
    return dict(report)


def problems_of(report: Any) -> Iterator[str]:
    """What gate.schema.json does not allow about a report, a line each: the place, what was found, what is allowed."""
    yield from _problems("report", report, _schema())


@cache
def _schema() -> Json:
    return dict(json.loads(SCHEMA_FILE.read_text()))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


def _depth(report: Any) -> int:
    depth, level = 0, [report]
    while level and depth <= DEEPEST:
        nested = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        depth, level = depth + 1, [child for children in nested for child in children]
    return depth


# What follows is as much of JSON Schema as gate.schema.json makes use of: `jsonschema` is there for developers only.


def _problems(where: str, found: Any, schema: Mapping[str, Any]) -> Iterator[str]:
    for keyword, allowed in schema.items():
        problem = _CHECKS[keyword](found, allowed) if keyword in _CHECKS else ""
        if problem:
            yield f"{where} {problem}"
            return
    if "$ref" in schema:
        yield from _problems(where, found, _schema()["$defs"][schema["$ref"].rpartition("/")[2]])
    if isinstance(found, dict):
        yield from _problems_of_members(where, found, schema)
    if isinstance(found, list) and "items" in schema:
        for place, one in enumerate(found):
            yield from _problems(f"{where}[{place}]", one, schema["items"])


def _problems_of_members(where: str, found: Json, schema: Mapping[str, Any]) -> Iterator[str]:
    allowed, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    if missing := [name for name in schema.get("required", ()) if name not in found]:
        yield f"{where} lacks {', '.join(missing)}"
    if others is False and (unknown := [name for name in found if name not in allowed]):
        yield f"{where} has {_shown(', '.join(unknown))}; allowed are {', '.join(allowed)}"
    for name, one in found.items():
        yield from _problems(f"{where}.{_shown(name)}", one, allowed.get(name, others or {}))


def _shown(found: Any) -> str:
    text = found if isinstance(found, str) else json.dumps(found)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _is_number(found: Any) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda found: found is None,
    "boolean": lambda found: isinstance(found, bool),
    "integer": lambda found: isinstance(found, int) and not isinstance(found, bool),
    "number": _is_number,
    "string": lambda found: isinstance(found, str),
    "array": lambda found: isinstance(found, list),
    "object": lambda found: isinstance(found, dict),
}


def _of_type(found: Any, allowed: str | list[str]) -> str:
    names = [allowed] if isinstance(allowed, str) else allowed
    return "" if any(_TYPES[name](found) for name in names) else f"is {_shown(found)}; allowed is {' or '.join(names)}"


def _one_of(found: Any, allowed: list[Any]) -> str:
    is_one = any(found == one and type(found) is type(one) for one in allowed)
    return "" if is_one else f"is {_shown(found)}; allowed is {', '.join(_shown(one) for one in allowed)}"


def _at_least(found: Any, least: int) -> str:
    return f"is {_shown(found)}; allowed is {least} or more" if _is_number(found) and found < least else ""


def _at_most(found: Any, most: int) -> str:
    return f"is {_shown(found)}; allowed is {most} or less" if _is_number(found) and found > most else ""


def _long_enough(found: Any, least: int) -> str:
    return "is empty" if isinstance(found, str) and len(found) < least else ""


def _like(found: Any, pattern: str) -> str:
    matches = not isinstance(found, str) or re.search(pattern, found)
    return "" if matches else f"is {_shown(found)}; allowed is {pattern}"


def _in_format(found: Any, allowed: str) -> str:
    assert allowed == "date"
    try:
        date.fromisoformat(found)
    except (TypeError, ValueError):
        return f"is {_shown(found)}; allowed is a date such as 2027-01-31"
    return ""


_CHECKS: dict[str, Callable[[Any, Any], str]] = {
    "const": lambda found, allowed: _one_of(found, [allowed]),
    "enum": _one_of,
    "type": _of_type,
    "minimum": _at_least,
    "maximum": _at_most,
    "minLength": _long_enough,
    "pattern": _like,
    "format": _in_format,
}
