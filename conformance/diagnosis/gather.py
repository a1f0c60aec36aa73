"""Find the known faults of a gather from all that a call left: its rows, writes elsewhere, changed inputs."""

from __future__ import annotations

from conformance.diagnosis.candidates import defects_of, explain_by
from conformance.diagnosis.explanation import Explanation
from conformance.diagnosis.gather_rows import explain
from conformance.faults.around import Around
from conformance.judge import GatherSighting
from conformance.observe import observe
from conformance.sighting import Make
from conformance.targets.base import GATHERS
from fixtures.placement import is_huge

MOST_ROWS = 1 << 15
"""The largest T for which faults of a whole call are tried. Each takes a call, and its arrays are read back."""


def explain_call(sighting: GatherSighting) -> list[Explanation]:
    """Return the known faults, of what is read and of what is done around it, that leave all that was observed."""
    case, seen = sighting.case, sighting.seen
    rows = explain(case, seen, sighting.nan) if sighting.rows_differ else []
    if not sighting.whole or any(each.exact for each in rows) or is_huge(case) or case.num_rows > MOST_ROWS:
        return rows

    def agrees(make: Make) -> bool:
        left = observe(make(), case, seen.poison)
        return (left.dst.tobytes(), left.strays, left.changed) == (seen.dst.tobytes(), seen.strays, seen.changed)

    capability = GATHERS[case.layout.name][case.seq_starts is not None]
    candidates = (each for each in defects_of(capability, "gather", "twin") if isinstance(each.target(), Around))
    return explain_by(candidates, agrees) or rows
