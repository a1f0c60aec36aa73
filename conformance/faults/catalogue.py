"""The catalogue: what is known to go wrong in a gather, each with the clause it breaks and a model of it.

A block table shifted by whole blocks and clamped at its last column (the abandoned design) is, for every legal call, a
start rounded down to its block, since no row then needs a column beyond the one that is due. The request before the
last one on equal workspace_starts is as good as the first: neither owns a row, so that what belongs to them is poison
alike. The inverse of the permutation of scales is another one (RECORD-4), and a fault of its own.
"""

from __future__ import annotations

from conformance.faults import finishing, generic_reading, paging, reading, sources, tile_reading
from conformance.faults.fault import Fault
from reference.records import NVFP4_DS_MLA, RecordLayout

__all__ = ["ALL", "FAULTS", "TWIN_FAULTS", "Fault", "faults_of"]

FAULTS: tuple[Fault, ...] = (*reading.FAULTS, *sources.FAULTS, *paging.FAULTS, *finishing.FAULTS)
"""Those that the gather of nvfp4_ds_mla can have."""

TWIN_FAULTS: tuple[Fault, ...] = (*tile_reading.FAULTS, *generic_reading.FAULTS)
"""Those that the other gathers alone can have."""

ALL = FAULTS + TWIN_FAULTS


def faults_of(layout: RecordLayout) -> list[Fault]:
    """Those that a gather of such records can have."""
    return [fault for fault in (FAULTS if layout == NVFP4_DS_MLA else ALL) if fault.concerns(layout)]
