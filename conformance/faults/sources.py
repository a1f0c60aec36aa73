"""Define faults in the token of a row: its request, the request's start, the token's number (GATHER-1 to 4, SHARD)."""

from __future__ import annotations

import numpy as np

from conformance.faults.fault import Fault
from conformance.faults.steps import Call, Gather, origin, owner, rows_alike, token
from reference.paging import Ints, row_owners

SHIFTED = "a start rounded down to its block, as by shifting the block table by whole blocks"


def _first_owner(call: Call) -> Ints:
    return np.searchsorted(call.starts, call.starts[owner(call)], side="left")


def _one_owner_too_many(call: Call) -> Ints:
    starts = call.at(call.first_rows, np.arange(call.batch_size + 1))
    ordered = np.maximum.accumulate(starts)  # a search takes its input for ascending
    return np.where(starts[-1] <= np.arange(call.num_rows), len(starts) - 1, row_owners(ordered, call.num_rows))


def _owner_one_row_late(call: Call) -> Ints:
    return np.maximum(row_owners(call.starts + 1, call.num_rows), 0)


def _owner_in_16_bits(call: Call) -> Ints:
    return owner(call) & 0xFFFF


def _token_by_entry(call: Call, request: Ints, first: Ints) -> Ints:
    starts: Ints = call.at(call.first_rows, request).astype(np.int64)
    return np.arange(call.num_rows) - starts + first


def _token_one_row_late(call: Call, request: Ints, first: Ints) -> Ints:
    return np.arange(call.num_rows) - call.starts[request] - (request > 0) + first


def _rows_instead_of_no_starts(call: Call, request: Ints) -> Ints:
    return origin(call, request) if "seq_starts" in call.strips else call.starts[request]


def _rounded_down(call: Call, request: Ints) -> Ints:
    return origin(call, request) // call.block_size * call.block_size


def _rounded_to_16(call: Call, request: Ints) -> Ints:
    return origin(call, request) // 16 * 16


def _rounded_up(call: Call, request: Ints) -> Ints:
    return -(-origin(call, request) // call.block_size) * call.block_size


def _column_clamped(call: Call, request: Ints, token: Ints) -> Ints:
    column = np.minimum(token // call.block_size, call.table_columns - 1)
    return call.at("block_table", request * call.stride("block_table", 0) + column).astype(np.int64)


def _all_or_none(call: Call, request: Ints) -> Ints:
    if "seq_starts" not in call.strips:
        return origin(call, request)
    valid = (call.at("seq_starts", np.arange(call.batch_size)) >= 0).all()
    return origin(call, request) * valid


def _token_in_float32(call: Call, request: Ints, first: Ints) -> Ints:
    return token(call, request, first).astype(np.float32).astype(np.int64)


def _token_in_16_bits(call: Call, request: Ints, first: Ints) -> Ints:
    return token(call, request, first) & 0xFFFF


def _token_in_int32(call: Call, request: Ints, first: Ints) -> Ints:
    return token(call, request, first).astype(np.int32).astype(np.int64)


def _block_by_row(call: Call, request: Ints, first: Ints) -> Ints:
    size, row = call.block_size, np.arange(call.num_rows) - call.starts[request]
    taken: Ints = (first // size + row // size) * size + (first + row) % size
    return taken


def _even_then_odd(call: Call, request: Ints, first: Ints) -> Ints:
    rows = rows_alike(request)
    row, half = np.arange(call.num_rows) - call.starts[request], (rows + 1) // 2
    taken: Ints = np.where(row < half, 2 * row, 2 * (row - half) + 1) + first
    return taken


def _every_other(call: Call, request: Ints, first: Ints) -> Ints:
    return 2 * (np.arange(call.num_rows) - call.starts[request]) + first


FAULTS = (
    Fault("starts-ignored", "seq_starts ignored", "GATHER-2", Gather(origin=lambda call, request: 0 * request)),
    Fault("start-rounded-down", SHIFTED, "GATHER-2", Gather(origin=_rounded_down), "vllm 46114"),
    Fault(
        "start-rounded-up",
        "a start rounded up to its block, and the column clamped at the last",
        "GATHER-2",
        Gather(origin=_rounded_up, block=_column_clamped),
    ),
    Fault(
        "start-of-the-next-request",
        "the start of the next request used",
        "GATHER-2",
        Gather(origin=lambda call, request: origin(call, request + 1)),
    ),
    Fault(
        "start-of-the-previous-request",
        "the start of the previous request used",
        "GATHER-2",
        Gather(origin=lambda call, request: origin(call, np.maximum(request - 1, 0))),
    ),
    Fault(
        "start-of-request-0",
        "the start of request 0 used for all",
        "GATHER-2",
        Gather(origin=lambda call, request: origin(call, 0 * request)),
    ),
    Fault(
        "first-owner",
        "the first instead of the last request on equal workspace_starts",
        "GATHER-1",
        Gather(owner=_first_owner),
    ),
    Fault(
        "requests-one-row-late",
        "every workspace_starts entry but the first taken plus one",
        "GATHER-1",
        Gather(owner=_owner_one_row_late, token=_token_one_row_late),
    ),
    Fault("owner-in-16-bits", "a request's number cut to 16 bits", "GATHER-1", Gather(owner=_owner_in_16_bits)),
    Fault(
        "one-owner-too-many",
        "entry R of workspace_starts read as one more request",
        "GATHER-4",
        Gather(owner=_one_owner_too_many, token=_token_by_entry),
    ),
    Fault(
        "rows-taken-for-starts",
        "workspace_starts taken for the starts where there are none",
        "GATHER-3",
        Gather(origin=_rows_instead_of_no_starts),
    ),
    Fault(
        "all-starts-or-none",
        "seq_starts ignored if one of them is negative, also of a request without rows",
        "PAGE-3",
        Gather(origin=_all_or_none),
    ),
    Fault("token-in-32-bits", "a token's number cut to 32 bits", "GATHER-2", Gather(token=_token_in_int32)),
    Fault("token-in-float32", "a token's number held in binary32", "GATHER-2", Gather(token=_token_in_float32)),
    Fault("token-in-16-bits", "a token's number cut to 16 bits", "GATHER-2", Gather(token=_token_in_16_bits)),
    Fault(
        "block-switched-by-rows",
        "the next block entered after block_size rows, wherever in its block the first row was",
        "GATHER-13",
        Gather(token=_block_by_row),
    ),
    Fault(
        "every-other-token",
        "every other token gathered, as if a rank's cache held those of two",
        "SHARD-1",
        Gather(token=_every_other),
    ),
    Fault(
        "start-rounded-to-16",
        "a start rounded down to a multiple of 16 tokens, which the starts of ranks are not",
        "SHARD-3",
        Gather(origin=_rounded_to_16),
    ),
    Fault(
        "even-tokens-first",
        "a request's tokens in the order of two ranks: every other one, then the rest",
        "SHARD-4",
        Gather(token=_even_then_odd),
    ),
)
