"""Find the known faults of a writer from what it wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from conformance.diagnosis import budget
from conformance.diagnosis.budget import NotLookedInto, deadline, is_over
from conformance.diagnosis.explanation import Explanation
from conformance.faults.defect import Defect
from conformance.faults.write_rules import Rules
from conformance.faults.write_steps import Records, WriteCall, records, with_records
from conformance.faults.write_targets import FaultyWriter
from conformance.faults.writers import DEFECTS
from conformance.memory import ArrayMemory, Region
from conformance.observe import Observation, look
from conformance.writes import WriteSighting
from fixtures.placement import Poison
from fixtures.write_cases import WriteCase, is_huge, place_write
from reference.profiles import Profile
from reference.scalars import Bf16Bits

REACH = "WRITE-7"
"""The clause of the faults that allocations of gigabytes are for; with these no other is tried."""

SILENT = ("WRITE-8", "WRITE-9", "WRITE-21")
"""The clauses of the faults that are not of what one writer writes."""


class Memo:
    """Return right records, each worked out once. Most faults are about what becomes of right records."""

    def __init__(self) -> None:
        """Start without any record."""
        self._of: dict[bytes, Records] = {}

    def __call__(self, call: WriteCall, kv_c: Bf16Bits, k_pe: Bf16Bits) -> Records:
        """Return the records of some tokens, as write_steps.records has them."""
        keys = [row.tobytes() for row in np.concatenate([kv_c, k_pe], axis=1)]
        new = [number for number, key in enumerate(keys) if key not in self._of]
        self._of.update(zip([keys[i] for i in new], records(call, kv_c[new], k_pe[new]), strict=True))
        if not keys:
            return records(call, kv_c, k_pe)
        return np.stack([self._of[key] for key in keys])


def explain_write(sighting: WriteSighting) -> list[Explanation]:
    """Return the known faults that leave what was seen, as far as budget.SECONDS reach.

    Faults of records are tried first: they must give the record of one token before all are worked out.

    Raises:
        NotLookedInto: none was found by then, and some are left.
    """
    cases, seen, profile = sighting.cases, sighting.seen, sighting.recipe
    until = deadline()
    token = _first_wrong(cases[0], seen, profile) if len(cases) == 1 else None
    memo, found = Memo(), list[Defect]()
    for tried, (defect, target) in enumerate(_candidates(is_huge(cases[0]), profile)):
        if is_over(until):
            if not found:
                raise NotLookedInto(
                    f"no known fault explains it, of the {tried:,} that {budget.SECONDS:g} seconds sufficed for"
                )
            break
        of_records = len(cases) == 1 and isinstance(target.writer.records, Rules)
        if of_records and (token is None or not _gives_one_token(target, cases[0], seen, token)):
            continue
        target.writer = with_records(target.writer, memo)
        if _leaves(target, cases, seen):
            found.append(defect)
    return [Explanation((defect,)) for defect in sorted(found, key=DEFECTS.index)]


def _candidates(huge: bool, profile: Profile) -> Iterator[tuple[Defect, FaultyWriter]]:
    """Yield the faults that write anything, with their targets, which declare the profile.

    For huge allocations only the faults of REACH are tried.
    """
    made = [
        (each, each.target()) for each in DEFECTS if each.clause not in SILENT and (not huge or each.clause == REACH)
    ]
    targets = [(each, target) for each, target in made if isinstance(target, FaultyWriter)]
    for defect, target in sorted(targets, key=lambda pair: not isinstance(pair[1].writer.records, Rules)):
        target.profile = profile
        yield defect, target


def _first_wrong(case: WriteCase, seen: Observation, profile: Profile) -> int | None:
    """Return the token of the first wrong record in the cache, None if no token has a slot there."""
    wrong = (case.written(seen.poison, profile) != seen.dst).any(axis=2).reshape(-1)
    slots = np.flatnonzero(wrong)
    tokens = np.flatnonzero(case.held_slots == slots[0]) if len(slots) else slots
    return int(tokens[0]) if len(tokens) else None


def _gives_one_token(target: FaultyWriter, case: WriteCase, seen: Observation, token: int) -> bool:
    """Return whether a writer gives a token the record that was observed."""
    call = WriteCall({"scale": np.array([case.scale], np.float32)}, case.kv_cache_dtype, target.profile)
    with np.errstate(all="ignore"):
        alone = target.writer.records(call, case.kv_c[[token]], case.k_pe[[token]])
    return bool((alone == seen.dst.reshape(-1, case.format.width)[case.held_slots[[token]]]).all())


def _leaves(target: FaultyWriter, cases: Sequence[WriteCase], seen: Observation) -> bool:
    try:
        regions = _after(target, cases, seen.poison)
    except (IndexError, MemoryError):  # it would read outside of the allocations: no prediction
        return False
    if (ArrayMemory().read(regions["kv_cache"]) != seen.dst).any():
        return False
    left = look(target, regions, seen.poison, output="kv_cache")
    return (left.strays, left.changed) == (seen.strays, seen.changed)


def _after(target: FaultyWriter, cases: Sequence[WriteCase], poison: Poison) -> dict[str, Region]:
    """Return the arrays after a writer's calls on them, one after the other."""
    memory = ArrayMemory()
    regions: dict[str, Region] = {}
    for case in cases:
        for name, placement in place_write(case, poison).items():
            if name not in regions:
                regions[name] = memory.place(placement)
            elif name != "kv_cache":
                memory.write(regions[name], placement.data)
        views = {name: region.view for name, region in regions.items()}
        target.concat_and_cache_mla(**views, kv_cache_dtype=case.kv_cache_dtype)
    return regions
