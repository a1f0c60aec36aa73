"""Define faults after the read: rows left unwritten, lost numbers, and columns in the wrong place (GATHER-5)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from conformance.faults.fault import NVFP4, Fault
from conformance.faults.steps import Call, Gather, block, origin, owner, rows_alike, token
from reference.paging import Ints
from reference.scalars import Bf16Bits

Chosen = npt.NDArray[np.bool_]


def _left(chosen: Callable[[Call], Chosen], call: Call, rows: Bf16Bits, which: Ints) -> Bf16Bits:
    return np.where(chosen(call)[which, None], call.left[which], rows)


def leaving(chosen: Callable[[Call], Chosen]) -> Gather:
    """Return a gather that does not write some rows; `chosen` returns bool [T], True for a row to leave."""
    return Gather(finish=partial(_left, chosen))


def _from_row(first: Callable[[int], int], call: Call) -> Chosen:
    return np.arange(call.num_rows) >= first(call.num_rows)


def _of_last_owner(call: Call) -> Chosen:
    of = owner(call)
    return of == of[-1] if len(of) else of > 0


def _last_of_each(call: Call) -> Chosen:
    of = owner(call)
    return np.append(of[1:] != of[:-1], True)[: len(of)]


def _alone(call: Call) -> Chosen:
    alone: Chosen = rows_alike(owner(call)) == 1
    return alone


def _with_a_negative_entry(call: Call) -> Chosen:
    row, column = np.indices((call.batch_size, call.table_columns))
    negative = call.at("block_table", row * call.stride("block_table", 0) + column) < 0
    of_request: Chosen = np.any(negative, axis=1)
    return of_request[owner(call)]


def _without_negative_zero(call: Call, rows: Bf16Bits, which: Ints) -> Bf16Bits:
    return np.where(rows == 0x8000, np.uint16(0), rows)


def _block_0_as_zeros(call: Call, rows: Bf16Bits, which: Ints) -> Bf16Bits:
    request = owner(call)
    null = block(call, request, token(call, request, origin(call, request))) == 0
    return np.where(null[which, None], np.uint16(0), rows)


def _rope_first(call: Call, rows: Bf16Bits, which: Ints) -> Bf16Bits:
    return np.concatenate([rows[:, 512:], rows[:, :512]], axis=1)


def _without_columns_from_512(call: Call, rows: Bf16Bits, which: Ints) -> Bf16Bits:
    return np.concatenate([rows[:, :512], call.left[which, 512:]], axis=1)


FAULTS = (
    Fault("negative-zero-lost", "-0 written as +0", "READ-3", Gather(finish=_without_negative_zero), layouts=NVFP4),
    Fault(
        "last-row-not-written",
        "the last row left as it was",
        "GATHER-5",
        leaving(partial(_from_row, lambda rows: rows - 1)),
    ),
    Fault(
        "tail-of-4-not-written",
        "T rounded down to a multiple of 4",
        "GATHER-5",
        leaving(partial(_from_row, lambda rows: rows // 4 * 4)),
    ),
    Fault(
        "tail-of-32-not-written",
        "T rounded down to a multiple of 32",
        "GATHER-5",
        leaving(partial(_from_row, lambda rows: rows // 32 * 32)),
    ),
    Fault(
        "rows-from-65535-on-not-written",
        "the rows from 65,535 on left as they were, as by a grid's second dimension",
        "GATHER-5",
        leaving(partial(_from_row, lambda rows: 65_535)),
    ),
    Fault(
        "last-request-stale",
        "the rows of the last request that has some left as they were",
        "GATHER-5",
        leaving(_of_last_owner),
        "sglang 22291",
    ),
    Fault(
        "last-row-of-each-request-stale",
        "the last row of each request left as it was, as if it were padding",
        "SHARD-2",
        leaving(_last_of_each),
    ),
    Fault(
        "single-rows-stale",
        "the row of a request that has one alone left as it was",
        "SHARD-5",
        leaving(_alone),
        "vllm 28514",
    ),
    Fault(
        "negative-entry-heeded",
        "the rows of a request left as they were if any entry of its table row is negative",
        "PAGE-3",
        leaving(_with_a_negative_entry),
    ),
    Fault(
        "block-0-is-none",
        "rows of physical block 0 written as zeros, as of a block that stands for none",
        "PAGE-5",
        Gather(finish=_block_0_as_zeros),
    ),
    Fault("rope-before-latent", "the RoPE key written in front of the latent", "GATHER-5", Gather(finish=_rope_first)),
    Fault(
        "rope-not-written",
        "the columns from 512 on left as they were",
        "GATHER-5",
        Gather(finish=_without_columns_from_512),
    ),
)
