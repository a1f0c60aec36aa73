"""Read gate.json back and check that it is a complete report of this schema."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from textwrap import shorten
from typing import Any

FILE = "gate.json"
SCHEMA_FILE = Path(__file__).with_name("gate.schema.json")
MOST_CHARACTERS = 200
"""The most characters in the line on one problem."""

DEEPEST = 100
"""The most levels of lists and objects in a report. A receipt may be as deep as its target makes it."""

Json = dict[str, Any]


class NoReport(ValueError):
    """Report a file that cannot be used. `lines` name the file, the fault and what is allowed."""

    def __init__(self, lines: Sequence[str]) -> None:
        """Take at least one line."""
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


def file_of(path: Path) -> Path:
    """Return the report file of a path: the path itself, or gate.json in it if it is a folder."""
    return path / FILE if path.is_dir() else path


def read(path: Path) -> Json:
    """Return the report in a file. Raises NoReport if gate.schema.json does not allow the content."""
    try:
        report = json.loads(path.read_bytes(), parse_constant=_refuse, parse_float=_finite)
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
    """Yield one line for each violation of gate.schema.json: the place, what was found, what is allowed."""
    for error in _validator().iter_errors(report):
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)
        yield shorten(f"report{place}: {error.message}", MOST_CHARACTERS, placeholder=" ...")


@cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator  # which takes a while

    return Draft202012Validator(json.loads(SCHEMA_FILE.read_text()), format_checker=Draft202012Validator.FORMAT_CHECKER)


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is no finite number")
    return number


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


def _depth(report: Any) -> int:
    depth, level = 0, [report]
    while level and depth <= DEEPEST:
        nested = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        depth, level = depth + 1, [child for children in nested for child in children]
    return depth
