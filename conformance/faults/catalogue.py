"""The catalogue: what is known to go wrong in a gather, each with the clause it breaks and a model of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from conformance.faults.steps import Call, Gather, address, origin, owner
from reference.paging import Ints, row_owners
from reference.reading import read_records
from reference.records import RecordLayout, transposed
from reference.scalars import E4M3, Bf16Bits


@dataclass(frozen=True)
class Fault:
    """A defect: its name, what it does, the clause it breaks, and the gather that has it."""

    name: str
    sentence: str
    clause: str
    gather: Gather = field(compare=False)


def _first_owner(call: Call) -> Ints:
    return np.searchsorted(call.starts, call.starts[owner(call)], side="left")


def _one_owner_too_many(call: Call) -> Ints:
    starts = call.at(call.first_rows, np.arange(call.case.batch_size + 1))
    ordered = np.maximum.accumulate(starts)  # what a search takes for ascending
    return np.where(
        starts[-1] <= np.arange(call.case.num_rows), len(starts) - 1, row_owners(ordered, call.case.num_rows)
    )


def _rounded_origin(call: Call, request: Ints) -> Ints:
    return origin(call, request) // call.case.block_size * call.case.block_size


def _used_column_stride(call: Call, request: Ints, token: Ints) -> Ints:
    entry = request * call.case.block_table.shape[1] + token // call.case.block_size
    return call.at("block_table", entry).astype(np.int64)


def _packed_blocks(call: Call, block: Ints, token: Ints) -> Ints:
    size, width = call.case.block_size, call.case.layout.width
    return block * size * width + token % size * call.stride("src_cache", 1)


def _packed_records(call: Call, block: Ints, token: Ints) -> Ints:
    return block * call.stride("src_cache", 0) + token % call.case.block_size * call.case.layout.width


def _offset_in_int32(call: Call, block: Ints, token: Ints) -> Ints:
    return address(call, block, token).astype(np.int32).astype(np.int64)


def _with_layout(
    change: Callable[[RecordLayout], RecordLayout], call: Call, records: npt.NDArray[np.uint8]
) -> Bf16Bits:
    return read_records(change(call.case.layout), records)


def _element_order(layout: RecordLayout) -> RecordLayout:
    return replace(layout, scales=replace(layout.scales, order=()))


def _inverse_order(layout: RecordLayout) -> RecordLayout:
    return replace(layout, scales=replace(layout.scales, order=transposed(4, layout.scales.count // 4)))


def _high_nibble_first(layout: RecordLayout) -> RecordLayout:
    swapped = tuple(element ^ 1 for element in range(layout.latent.count))
    return replace(layout, latent=replace(layout.latent, order=swapped))


def _scale_nan_is_448(layout: RecordLayout) -> RecordLayout:
    bounded = replace(E4M3, magnitudes=(*E4M3.magnitudes, 448.0))
    return replace(layout, scales=replace(layout.scales, scalar=bounded))


def _without_negative_zero(call: Call, rows: Bf16Bits) -> Bf16Bits:
    return np.where(rows == 0x8000, np.uint16(0), rows)


def _without_last_row(call: Call, rows: Bf16Bits) -> Bf16Bits:
    return np.concatenate([rows[:-1], np.full_like(rows[-1:], call.poison.dst)])


def _token_by_entry(call: Call, request: Ints, first: Ints) -> Ints:
    starts: Ints = call.at(call.first_rows, request).astype(np.int64)
    return np.arange(call.case.num_rows) - starts + first


FAULTS = (
    Fault(
        "scales-unpermuted",
        "scale bytes read in element order",
        "RECORD-4",
        Gather(read=partial(_with_layout, _element_order)),
    ),
    Fault(
        "scales-inverse-permuted",
        "scale bytes read through the inverse permutation",
        "RECORD-4",
        Gather(read=partial(_with_layout, _inverse_order)),
    ),
    Fault(
        "nibbles-swapped",
        "the high nibble read as the even element",
        "RECORD-2",
        Gather(read=partial(_with_layout, _high_nibble_first)),
    ),
    Fault(
        "scale-nan-is-448",
        "a NaN scale byte read as 448",
        "READ-4",
        Gather(read=partial(_with_layout, _scale_nan_is_448)),
    ),
    Fault("negative-zero-lost", "-0 written as +0", "READ-3", Gather(finish=_without_negative_zero)),
    Fault("starts-ignored", "seq_starts ignored", "GATHER-2", Gather(origin=lambda call, request: 0 * request)),
    Fault(
        "start-rounded-down",
        "a start rounded down to its block, as by shifting the block table by whole blocks",
        "GATHER-2",
        Gather(origin=_rounded_origin),
    ),
    Fault(
        "start-of-the-next-request",
        "the start of the next request used",
        "GATHER-2",
        Gather(origin=lambda call, request: origin(call, request + 1)),
    ),
    Fault(
        "first-owner",
        "the first instead of the last request on equal workspace_starts",
        "GATHER-1",
        Gather(owner=_first_owner),
    ),
    Fault(
        "one-owner-too-many",
        "entry R of workspace_starts read as one more request",
        "GATHER-4",
        Gather(owner=_one_owner_too_many, token=_token_by_entry),
    ),
    Fault(
        "table-stride-is-its-columns",
        "the row stride of block_table taken as its number of columns",
        "GATHER-8",
        Gather(block=_used_column_stride),
    ),
    Fault(
        "block-stride-packed",
        "the block stride taken as block_size times the record",
        "PAGE-2",
        Gather(address=_packed_blocks),
    ),
    Fault("record-stride-packed", "the record stride taken as the record", "PAGE-2", Gather(address=_packed_records)),
    Fault("offset-in-32-bits", "the byte offset cut to 32 bits", "GATHER-9", Gather(address=_offset_in_int32)),
    Fault("last-row-not-written", "the last row left as it was", "GATHER-5", Gather(finish=_without_last_row)),
)
