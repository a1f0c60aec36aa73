"""List the known faults of gathers, each with the clause that it breaks and a model of it.

Two changes are not listed. A block table shifted by whole blocks and clamped at its last column (the abandoned design)
equals the fault start-rounded-down for every legal call: no row then needs a column beyond the right one. The request
before the last one on equal workspace_starts equals the first one: neither owns a row, so the memory of both is
poisoned alike. The inverse permutation of scales differs from the permutation (RECORD-4), so it is listed.
"""

from __future__ import annotations

from conformance.faults import finishing, generic_reading, paging, reading, sources, tile_reading
from conformance.faults.fault import Fault
from reference.records import NVFP4_DS_MLA, RecordLayout

__all__ = ["ALL", "FAULTS", "TWIN_FAULTS", "Fault", "faults_of"]

FAULTS: tuple[Fault, ...] = (*reading.FAULTS, *sources.FAULTS, *paging.FAULTS, *finishing.FAULTS)
"""Faults that a gather of nvfp4_ds_mla can have."""

TWIN_FAULTS: tuple[Fault, ...] = (*tile_reading.FAULTS, *generic_reading.FAULTS)
"""Faults that only the other gathers can have."""

ALL = FAULTS + TWIN_FAULTS


def faults_of(layout: RecordLayout) -> list[Fault]:
    """Return the faults that a gather of records with this layout can have."""
    return [fault for fault in (FAULTS if layout == NVFP4_DS_MLA else ALL) if fault.concerns(layout)]
