"""Derive a writer's traits from its bytes: from a few tokens that separate all combinations, then from many more."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from conformance.judge import Judge
from conformance.targets.base import WRITE_FP8, Target
from conformance.write_cases import latent_rows, tiles_of_fp8_ds_mla
from conformance.write_generation import ROPE, Slots, case_of, every_amax, every_pair, every_rope, realize
from conformance.write_traits import (
    SCALES,
    STANDARD_ORDER,
    Order,
    Records,
    Traits,
    every_combination,
    nearest_named,
    records_of,
)
from conformance.writes import observe_write
from fixtures.placement import POISONS
from fixtures.write_cases import WriteCase
from reference.profiles import DEFAULT, PROFILES, Profile
from reference.scalars import E4M3, bf16_from_f32, f32_from_bf16

SCALE_ARGUMENT = 2.0
FIRST_SCALE = 0x28  # of the 32 neighbouring scale bytes that show the order; none is near an end of the range
SCALE_BYTES = slice(320, 320 + SCALES)

ROPE_NUMBERS = (1.0, -3.0, 448.0, 464.0, 466.0, 1000.0, float("inf"), -float("inf"), float("nan"), -0.0, 0.3, 2.0**-10)


def probe() -> WriteCase:
    """Return a case of two tokens: in one all scale bytes differ, in the other rules give different bytes."""
    in_order = [[6 * float(E4M3.values[FIRST_SCALE + s]), float(E4M3.values[FIRST_SCALE + s])] for s in range(SCALES)]
    between = 6 * (0.25 * float(E4M3.values[0x30]) + 0.75 * float(E4M3.values[0x31]))
    nan = float("nan")
    rules = [
        [11.25, 9.375, 4.6875, 2.34375],  # reciprocal 7 7 5 3, division 7 6 4 2
        [0.01177978515625],  # nearest 0x01, up 0x02
        [between],  # nearest and up 0x31, down 0x30
        [0.0, -0.0],  # a floor of 2^-9: 0x01; without one 0x00, and codes that depend on what 0 * infinity becomes
        [2.0**-12, -(2.0**-13)],
        [nan, 1.0, -2.0],  # ignored: scale 0.34375; spreads: 0x7F
        [float("inf"), 1.0],
        [3000.0, 448.0],
    ]
    width = max(len(block) for block in rules)
    blocks = [block + [0.0] * (width - len(block)) for block in [*in_order, *rules]]
    kv_c = latent_rows(np.array(blocks, np.float32))
    k_pe = np.zeros((len(kv_c), ROPE), np.uint16)
    k_pe[:, : len(ROPE_NUMBERS)] = bf16_from_f32(np.array(ROPE_NUMBERS, np.float32))
    return replace(case_of(kv_c, k_pe, 0, "probe"), scale=SCALE_ARGUMENT)


@dataclass(frozen=True)
class Identity:
    """Describe a writer: the best traits, whether they predict every byte, and the first byte that they do not."""

    traits: Traits
    exact: bool
    compared: int
    contradiction: str = ""
    tile: str | None = None
    """The rule for the tiles of fp8_ds_mla, in words. None if the target does not claim to write it."""

    @property
    def profiles(self) -> list[Profile]:
        """The named profiles with these traits."""
        return self.traits.profiles() if self.tile is None else self.traits.profiles(self.tile)

    def headline(self) -> str:
        """Return one line: a named profile, a combination without a name, or the nearest profile."""
        named = " or ".join(profile.name for profile in self.profiles)
        if named:
            return f"profile {named}" if self.exact else f"nearest to profile {named}, which it contradicts"
        profile, differing = nearest_named(self.traits)
        what = ", ".join(f"{trait} {mine} instead of {theirs}" for trait, (mine, theirs) in differing.items())
        if self.tile not in (None, profile.tile):
            what = f"{what}, " * bool(what) + f"tile {self.tile} instead of {profile.tile}"
        combination = f"no named profile: {profile.name} with {what}"
        return combination if self.exact else f"nearest to a combination that is {combination}, which it contradicts"


def identify(target: Target) -> Identity:
    """Find the traits of a target's writer of nvfp4_ds_mla. Raises what a judge raises if the writer cannot be called.

    Returns:
        The traits and whether they predict all bytes.

    """
    judge = Judge(target, ["WRITE"])
    case = probe()
    written = written_records(judge, case)
    best = min(every_combination(order_of(written[0])), key=lambda traits: _wrong(traits, case, written))
    compared = 0
    for more in (case, *many(best)):
        written = written_records(judge, more)
        compared += written.size
        contradiction = _contradiction(best, more, written)
        if contradiction:
            return Identity(best, False, compared, contradiction, tile_of(judge))
    return Identity(best, True, compared, tile=tile_of(judge))


def tile_of(judge: Judge) -> str | None:
    """Return the rule that predicts all fp8_ds_mla bytes of the target, or None if it does not claim to write them."""
    if WRITE_FP8 not in judge.target.capabilities:
        return None
    cases = [tiles_of_fp8_ds_mla(), every_amax("fp8_ds_mla")]
    written = [observe_write(judge, case, POISONS[0]).dst for case in cases]
    for profile in (DEFAULT, PROFILES["arbitrary-tiles"]):
        if all((case.written(POISONS[0], profile) == seen).all() for case, seen in zip(cases, written, strict=True)):
            return profile.tile
    return "neither arbitrary nor a power of two"


def many(traits: Traits) -> list[WriteCase]:
    """Return the cases that an identity must predict: all amaxes, all pairs, all RoPE elements, and random bits."""
    rule = "up" if traits.scale == "up" else "nearest"
    pairs = every_pair(replace(DEFAULT, scale=rule))  # type: ignore[arg-type]
    cases = [every_amax(), pairs, every_rope(), realize(Slots(400), 1)]
    return [replace(case, scale=SCALE_ARGUMENT) for case in cases]


def order_of(record: Records) -> Order:
    """Return the order of the scales in the probe's first record, uint8 [352]; RECORD-4's if it is no permutation."""
    places = record[SCALE_BYTES].astype(int) - FIRST_SCALE
    if sorted(places) != list(range(SCALES)):
        return STANDARD_ORDER
    return tuple(int(place) for place in np.argsort(places))


def written_records(judge: Judge, case: WriteCase) -> Records:
    """Return the record of each token of a case that skips no token, uint8 [T, width]."""
    image = observe_write(judge, case, POISONS[0]).dst
    records: Records = image.reshape(-1, case.format.width)[case.slot_mapping]
    return records


def _predicted(traits: Traits, case: WriteCase) -> Records:
    return records_of(traits, case.kv_c, case.k_pe, case.scale)


def _wrong(traits: Traits, case: WriteCase, written: Records) -> int:
    return int((_predicted(traits, case) != written).sum())


def _contradiction(traits: Traits, case: WriteCase, written: Records) -> str:
    predicted = _predicted(traits, case)
    wrong = np.argwhere(predicted != written)
    if not len(wrong):
        return ""
    token, place = (int(i) for i in wrong[0])
    want, got = int(predicted[token, place]), int(written[token, place])
    return f"{_place(traits, case, token, place)}: 0x{want:02X} predicted, 0x{got:02X} written ({case.origin})"


def _place(traits: Traits, case: WriteCase, token: int, place: int) -> str:
    if place >= SCALE_BYTES.start:
        block = traits.order.index(place - SCALE_BYTES.start)
        numbers = f32_from_bf16(case.kv_c[token, 16 * block : 16 * block + 16])
        return f"byte {place}, the scale of a block of {[float(number) for number in numbers]}"
    if place >= 256:
        return f"byte {place}, RoPE element {float(f32_from_bf16(case.k_pe[token, place - 256]))}"
    pair = [float(number) for number in f32_from_bf16(case.kv_c[token, 2 * place : 2 * place + 2])]
    block = place // 8
    return f"byte {place}, the numbers {pair} of a block with scale byte {traits.order[block] + SCALE_BYTES.start}"
