"""A writer's failure as a person reads it: which token, which byte, what it means."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.explain import bits_text
from fixtures.placement import Poison
from fixtures.write_cases import WriteCase
from reference.records import NVFP4_DS_MLA
from reference.scalars import E2M1, E4M3

Image = npt.NDArray[Any]


def mismatch_lines(case: WriteCase, expected: Image, got: Image, poison: Poison) -> list[str]:
    """The first element of the cache that differs, and how many do."""
    wrong = expected != got
    block, record, place = (int(i) for i in np.argwhere(wrong)[0])
    tokens = np.flatnonzero(case.held_slots == block * case.block_size + record)
    token = int(tokens[0]) if len(tokens) else None
    records = np.argwhere(wrong.any(axis=2))
    want, seen = int(expected[block, record, place]), int(got[block, record, place])
    lines = [
        record_line(case, token, block, record),
        element_line(case, token, place, want, seen),
        f"{wrong.sum():,} of {wrong.size:,} elements in {len(records):,} of {wrong.shape[0] * wrong.shape[1]:,} "
        "records differ",
    ]
    if (expected == case.blank(poison)).all():
        return [*lines, "no token has a slot here: nothing was to be written"]
    return lines


def record_line(case: WriteCase, token: int | None, block: int, record: int) -> str:
    """Whose record it is, by where it is among the blocks held."""
    number = block if case.block_numbers is None else int(case.block_numbers[block])
    place = f"block {number} record {record}"
    if token is None:
        return f"slot {number * case.block_size + record} = {place}, to which no token is written"
    return f"token {token} = slot {case.slot_mapping[token]} = {place}"


def element_line(case: WriteCase, token: int | None, place: int, want: int, seen: int) -> str:
    """What an element of a record is, with what was expected there and what was seen."""
    if case.kv_cache_dtype == "nvfp4_ds_mla" and token is not None:
        return f"byte {place} = {_nvfp4(case, token, place, want, seen)}"
    digits = 2 * np.dtype(case.format.dtype).itemsize
    return f"element {place} of the record: expected 0x{want:0{digits}X}, got 0x{seen:0{digits}X}"


def _nvfp4(case: WriteCase, token: int, place: int, want: int, seen: int) -> str:
    layout = NVFP4_DS_MLA
    both = f"expected 0x{want:02X}, got 0x{seen:02X}"
    if place < layout.latent.end:
        element = 2 * place if (want ^ seen) & 0xF else 2 * place + 1
        shift = layout.latent.shift_of(element)
        codes = [byte >> shift & 0xF for byte in (want, seen)]
        values = [f"{E2M1.values[code]:+g}" for code in codes]
        given = bits_text(int(case.kv_c[token, element]))
        return (
            f"latent element {element} ({given}): code {codes[0]} ({values[0]}), got {codes[1]} ({values[1]}); {both}"
        )
    values = [f"{E4M3.values[byte]:+g}" for byte in (want, seen)]
    if place < layout.rope.end:
        given = bits_text(int(case.k_pe[token, place - layout.rope.offset]))
        return f"RoPE element {place - layout.rope.offset} ({given}): {both} ({values[0]}, {values[1]})"
    scale = next(s for s in range(layout.scales.count) if layout.scales.byte_of(s) == place)
    return f"scale of latent block {scale}: {both} ({values[0]}, {values[1]})"
