"""The clauses of SPEC.md."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

SPEC = Path(__file__).parents[1] / "SPEC.md"


@cache
def clauses() -> tuple[str, ...]:
    """The ids of all clauses, in the order of SPEC.md."""
    return tuple(re.findall(r"^\*\*([A-Z]+-\d+)\*\*", SPEC.read_text(), re.MULTILINE))
