"""A failure as a person reads it: where, what, how much."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from conformance.observe import Observation
from fixtures.cases import GatherCase
from reference.records import Field
from reference.scalars import Bf16Bits, f32_from_bf16


def mismatch_lines(case: GatherCase, expected: Bf16Bits, seen: Observation, wrong: npt.NDArray[np.bool_]) -> list[str]:
    """The first element of dst that differs, in the terms of the record and the table, and how many do."""
    row, element = (int(i) for i in np.argwhere(wrong)[0])
    rows = np.flatnonzero(wrong.any(axis=1))
    got = int(seen.dst[row, element])
    unwritten = "  (the poison: never written)" if got == seen.poison.dst else ""
    return [
        row_line(case, row),
        element_line(case, row, element),
        f"  expected {bits_text(int(expected[row, element]))}      got {bits_text(got)}{unwritten}",
        f"{wrong.sum():,} of {wrong.size:,} elements in {len(rows):,} of {len(wrong):,} rows differ "
        f"(rows {few([str(r) for r in rows[:6]], len(rows))})",
    ]


def row_line(case: GatherCase, row: int) -> str:
    """Whose token a row is and where its record lies."""
    request, token, column, slot = (int(values[row]) for values in case.sources)
    block = int(case.block_table[request, column])
    return f"row {row} = request {request} token {token} = block {column} slot {slot} -> physical block {block}"


def element_line(case: GatherCase, row: int, element: int) -> str:
    """Which bits of the record an element is made of."""
    layout = case.layout
    record = case.record_of(row)
    if not layout.scales.count:
        scale = f", scale 0x{case.scale.view(np.uint32):08X} ({case.scale:g})" if layout.converted else ""
        return f"element {element} = {_stored(layout.latent, element, record)}{scale}"
    if element >= layout.latent.count:
        place = element - layout.latent.count
        return f"element {element} = RoPE {place}, {_stored(layout.rope, place, record)}"
    block = element // layout.block
    return (
        f"element {element} = latent block {block}, {_stored(layout.latent, element, record)}, "
        f"scale {_stored(layout.scales, block, record)}"
    )


def _stored(field: Field, element: int, record: npt.NDArray[np.uint8]) -> str:
    """Which byte or bytes of a record an element is, and what they hold."""
    byte, shift = field.byte_of(element), field.shift_of(element)
    if field.per_byte == 1:
        held = int.from_bytes(record[byte : byte + field.scalar.nbytes].tobytes(), "little")
        return f"byte {byte} (0x{held:0{2 * field.scalar.nbytes}X})"
    return f"byte {byte} {'high' if shift else 'low'} nibble (code {int(record[byte]) >> shift & 0xF})"


def bits_text(bits: int) -> str:
    """An encoding of bf16 and its value."""
    value = float(f32_from_bf16(np.array(bits, np.uint16)))
    return f"0x{bits:04X} {'NaN' if value != value else f'{value:+g}'}"


def stray_lines(case: GatherCase, seen: Observation) -> list[str]:
    """Writes to where a gather may not write."""
    return outside_lines(seen, lambda place: _outside_dst(case, place))


def outside_lines(seen: Observation, outside_dst: Callable[[int], str] | None = None) -> list[str]:
    """Writes to where nothing may be written; `outside_dst` says where an element is, counted from dst's first."""
    lines = []
    for name, places in seen.strays.items():
        where = [outside_dst(at) if outside_dst and name == "dst" else f"element {at:+,}" for at in places]
        lines.append(f"{name}: written outside its elements: {few(where[:4], len(places))}")
    for name, indices in seen.changed.items():
        lines.append(f"{name}: an input, but overwritten at {few([str(list(i)) for i in indices[:4]], len(indices))}")
    return lines


def _outside_dst(case: GatherCase, place: int) -> str:
    stride = case.layout.row + case.arrangement.dst_row_slack
    row, column = divmod(place, stride)
    if row < 0:
        return f"{-place} elements before row 0"
    return f"row {row} column {column}" + (f" (T is {case.num_rows:,})" if row >= case.num_rows else "")


def few(shown: list[str], total: int) -> str:
    """Return what is shown of so many, with dots if there are more."""
    return ", ".join(shown) + (", ..." if total > len(shown) else "")
