"""List all mutants of the CUDA sources, each with the kind of gate that judges it."""

from __future__ import annotations

from typing import NamedTuple

from conformance.faults.generic_mutants import GENERIC_MUTANTS
from conformance.faults.merge_mutants import MERGE_MUTANTS
from conformance.faults.mutants import MUTANTS as GATHER_MUTANTS
from conformance.faults.mutants import TWIN_MUTANTS, Mutant
from conformance.faults.write_mutants import WRITE_MUTANTS


class Kept(NamedTuple):
    """Pair a mutant with its kind, a key of conformance.faults.defect.PARTS."""

    mutant: Mutant
    kind: str


MUTANTS = (
    *(Kept(mutant, "gather") for mutant in GATHER_MUTANTS),
    *(Kept(mutant, "twin") for mutant in (*TWIN_MUTANTS, *GENERIC_MUTANTS)),
    *(Kept(mutant, "write") for mutant in WRITE_MUTANTS),
    *(Kept(mutant, "merge") for mutant in MERGE_MUTANTS),
)
