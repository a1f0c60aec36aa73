"""The clauses of SPEC.md."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

SPEC = Path(__file__).parents[1] / "SPEC.md"


@cache
def spec_text() -> str:
    """Return the text of SPEC.md."""
    return SPEC.read_text()


def clauses_in(text: str) -> tuple[str, ...]:
    """Return the ids of all clauses of a text such as SPEC.md, in its order."""
    return tuple(re.findall(r"^\*\*([A-Z]+-\d+)\*\*", text, re.MULTILINE))


@cache
def clauses() -> tuple[str, ...]:
    """Return the ids of all clauses, in the order of SPEC.md."""
    return clauses_in(spec_text())


def in_short(some: Iterable[str]) -> str:
    """Ids of clauses in the order of SPEC.md, three and more in a row as "PLAN-3 to PLAN-7"."""
    runs: list[list[str]] = []
    for clause in some:
        chapter, _, number = clause.partition("-")
        if runs and runs[-1][-1] == f"{chapter}-{int(number) - 1}":
            runs[-1].append(clause)
        else:
            runs.append([clause])
    return " ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else " ".join(run) for run in runs)
