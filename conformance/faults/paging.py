"""Define faults between a token and the address of its record (PAGE, GATHER-8, GATHER-9)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from conformance.faults.fault import NVFP4, Fault
from conformance.faults.steps import Call, Gather, Records, address, block, fetch, origin
from reference.paging import Ints


def _entry(column: Callable[[Call, Ints], Ints], call: Call, request: Ints, token: Ints) -> Ints:
    """Return the block-table entries, int64 [T], in the columns that `column` returns for each row."""
    entry = request * call.stride("block_table", 0) + column(call, token)
    return call.at("block_table", entry).astype(np.int64)


def _used_column_stride(call: Call, request: Ints, token: Ints) -> Ints:
    entry = request * call.table_columns + token // call.block_size
    return call.at("block_table", entry).astype(np.int64)


def _entry_in_int32(call: Call, request: Ints, token: Ints) -> Ints:
    offset = 4 * (request * call.stride("block_table", 0) + token // call.block_size)  # bytes
    return call.at("block_table", offset.astype(np.int32) // 4).astype(np.int64)


def _never_the_last(call: Call, token: Ints) -> Ints:
    return np.clip(token // call.block_size, 0, max(0, call.table_columns - 2))


def _last_slot_too_far(call: Call, token: Ints) -> Ints:
    return (token + 1) // call.block_size


def _consecutive(call: Call, request: Ints, token: Ints) -> Ints:
    first = origin(call, request) // call.block_size
    entry = request * call.stride("block_table", 0) + first
    return call.at("block_table", entry).astype(np.int64) + token // call.block_size - first


def _of_request_0(call: Call, request: Ints, token: Ints) -> Ints:
    return block(call, 0 * request, token)


def _in_16_bits(call: Call, request: Ints, token: Ints) -> Ints:
    return block(call, request, token) & 0xFFFF


def _packed_blocks(call: Call, block: Ints, token: Ints) -> Ints:
    size, width = call.block_size, call.layout.width
    return block * size * width + token % size * call.stride("src_cache", 1)


def _packed_records(call: Call, block: Ints, token: Ints) -> Ints:
    return block * call.stride("src_cache", 0) + token % call.block_size * call.layout.width


def _exchanged(call: Call, block: Ints, token: Ints) -> Ints:
    return block * call.stride("src_cache", 1) + token % call.block_size * call.stride("src_cache", 0)


def records_of(width: int, call: Call, block: Ints, token: Ints) -> Ints:
    """Return addresses in a packed cache of records of `width` elements: int64 [T], in elements."""
    return (block * call.block_size + token % call.block_size) * width


def _offset_in_int32(call: Call, block: Ints, token: Ints) -> Ints:
    size = call.strips["src_cache"].base.itemsize
    return (size * address(call, block, token)).astype(np.int32).astype(np.int64) // size


def _offset_in_uint32(call: Call, block: Ints, token: Ints) -> Ints:
    size = call.strips["src_cache"].base.itemsize
    return (size * address(call, block, token) & 0xFFFFFFFF) // size


def _whole_16_bytes(call: Call, block: Ints, token: Ints) -> Ints:
    base, first, _ = call.strips["src_cache"]
    at = base.ctypes.data + (first + address(call, block, token)) * base.itemsize
    return (at // 16 * 16 - base.ctypes.data) // base.itemsize - first


def _scales_of_the_record_before(call: Call, at: Ints) -> Records:
    records = fetch(call, at).copy()
    before = fetch(call, at - call.stride("src_cache", 1))
    scales = slice(call.layout.scales.offset, call.layout.scales.end)
    records[:, scales] = before[:, scales]
    return records


def _nan_of_the_record_behind(call: Call, at: Ints) -> Records:
    records = fetch(call, at).copy()
    behind = fetch(call, at + call.stride("src_cache", 1))
    scales = slice(call.layout.scales.offset, call.layout.scales.end)
    records[:, scales] |= np.where(behind[:, scales] & 0x7F == 0x7F, np.uint8(0x7F), np.uint8(0))
    return records


FAULTS = (
    Fault(
        "table-stride-is-its-columns",
        "the row stride of block_table taken as its number of columns",
        "GATHER-8",
        Gather(block=_used_column_stride),
    ),
    Fault(
        "last-column-never-read",
        "the column clamped at the last but one",
        "PAGE-1",
        Gather(block=partial(_entry, _never_the_last)),
        "vllm 27909",
    ),
    Fault(
        "last-slot-in-the-next-block",
        "the last record of a block looked for in the next one",
        "PAGE-1",
        Gather(block=partial(_entry, _last_slot_too_far)),
    ),
    Fault(
        "blocks-consecutive",
        "a request's blocks taken as consecutive from its first one on",
        "PAGE-1",
        Gather(block=_consecutive),
    ),
    Fault("blocks-of-request-0", "the table row of request 0 used for all", "PAGE-1", Gather(block=_of_request_0)),
    Fault("block-in-16-bits", "a block number cut to 16 bits", "PAGE-1", Gather(block=_in_16_bits)),
    Fault(
        "table-offset-in-32-bits", "the offset in block_table cut to 32 bits", "GATHER-9", Gather(block=_entry_in_int32)
    ),
    Fault(
        "block-stride-packed",
        "the block stride taken as block_size times the record",
        "PAGE-2",
        Gather(address=_packed_blocks),
        "vllm 37032",
    ),
    Fault("record-stride-packed", "the record stride taken as the record", "PAGE-2", Gather(address=_packed_records)),
    Fault("strides-exchanged", "slot and block exchanged", "PAGE-2", Gather(address=_exchanged)),
    Fault(
        "record-of-656",
        "a record of 352 bytes taken as one of 656",
        "RECORD-1",
        Gather(address=partial(records_of, 656)),
        layouts=NVFP4,
    ),
    Fault(
        "offset-in-32-bits",
        "the byte offset cut to 32 bits",
        "GATHER-9",
        Gather(address=_offset_in_int32),
        "tokenspeed 501",
    ),
    Fault(
        "offset-in-unsigned-32-bits",
        "the byte offset cut to 32 bits without a sign",
        "GATHER-9",
        Gather(address=_offset_in_uint32),
    ),
    Fault(
        "loads-of-whole-16-bytes",
        "a record read from the multiple of 16 bytes below it",
        "GATHER-12",
        Gather(address=_whole_16_bytes),
    ),
    Fault(
        "scales-of-the-record-before",
        "the scales of the record before used",
        "RECORD-5",
        Gather(fetch=_scales_of_the_record_before),
        layouts=NVFP4,
    ),
    Fault(
        "nan-of-the-record-behind",
        "a NaN scale of the record behind spreads, as through a product of a whole page",
        "PAGE-4",
        Gather(fetch=_nan_of_the_record_behind),
        "flashinfer 941",
        NVFP4,
    ),
)
