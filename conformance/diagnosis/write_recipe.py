"""By which recipe, a named profile or another combination of known rules, a writer wrote what was seen."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.write_traits import CHOICES, ORDERS, Traits, every_combination, nearest_named, records_of
from conformance.writes import WriteSighting
from fixtures.write_cases import WriteCase
from reference.profiles import PROFILES
from reference.records import NVFP4_DS_MLA, Field

Image = npt.NDArray[Any]


def recipe_lines(sighting: WriteSighting) -> list[str]:
    """Return which other ways of quantizing write exactly what was seen, where one call wrote a wrong element."""
    case, seen = sighting.cases[-1], sighting.seen
    if not sighting.alone or case.kv_cache_dtype not in ("nvfp4_ds_mla", "fp8_ds_mla"):
        return []
    expected = case.written(seen.poison, sighting.recipe)
    wrong = expected != seen.dst
    if not wrong.any() or (expected == case.blank(seen.poison)).all():
        return []
    named = [profile for profile in PROFILES.values() if (case.written(seen.poison, profile) == seen.dst).all()]
    if named:
        return [f"exactly what profile {profile.name} writes" for profile in named]
    block, record, _ = (int(place) for place in np.argwhere(wrong)[0])
    tokens = np.flatnonzero(case.held_slots == block * case.block_size + record)
    if case.kv_cache_dtype == "fp8_ds_mla" or not len(tokens):
        return []
    return _combinations(case, seen.dst, tokens[:1])


def _combinations(case: WriteCase, got: Image, one: npt.NDArray[np.int64]) -> list[str]:
    ropes = {rope for rope in CHOICES["rope"] if _fits(Traits(rope=rope), case, got, one, NVFP4_DS_MLA.rope)}
    combinations = (traits for order in ORDERS for traits in every_combination(order) if traits.rope in ropes)
    everyone = np.flatnonzero(case.held_slots >= 0)
    fitting = (traits for traits in combinations if all(_fits(traits, case, got, each) for each in (one, everyone)))
    told = [f"exactly what profile {name} writes with {what}" for name, what in map(_told, islice(fitting, 1))]
    return told or ["no combination of known rules writes this"]


def _fits(
    traits: Traits, case: WriteCase, got: Image, tokens: npt.NDArray[np.int64], part: Field | None = None
) -> bool:
    """Return whether traits predict the records of some tokens, or a part of them."""
    place = slice(part.offset, part.end) if part else slice(None)
    predicted = records_of(traits, case.kv_c[tokens], case.k_pe[tokens], case.scale)
    observed = got.reshape(-1, case.format.width)[case.held_slots[tokens]]
    return bool((predicted[:, place] == observed[:, place]).all())


def _told(traits: Traits) -> tuple[str, str]:
    profile, differing = nearest_named(traits)
    return profile.name, ", ".join(f"{trait} {mine}" for trait, (mine, _) in differing.items())
