"""Define faults of gather_and_maybe_dequant_cache, whose records hold numbers of one format (TWIN-5 to 9, SCALAR-8)."""

from __future__ import annotations

from functools import partial

import numpy as np

from conformance.faults.fault import AUTO, TENSOR, Fault
from conformance.faults.products import (
    ALL,
    after,
    by,
    canonical,
    divided,
    flushed,
    masked,
    nan_as,
    on,
    rounded_once,
    under,
    without_infinities,
)
from conformance.faults.steps import Call, Gather, Records, owner, read
from reference.paging import Ints
from reference.scalars import E4M3, Bf16Bits, bf16_from_f32, f32_from_bf16

GENERIC = AUTO | TENSOR


def _auto_times_scale(call: Call, rows: Bf16Bits) -> Bf16Bits:
    scale = call.at("scale", 0).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        return bf16_from_f32(f32_from_bf16(rows) * scale)


def _rope_unscaled(call: Call, records: Records) -> Bf16Bits:
    rows = read(call, records)
    rows[:, 512:] = bf16_from_f32(E4M3.decode(records[:, 512:]))
    return rows


def _owner_of_the_row(step: int, call: Call) -> Ints:
    row = np.clip(np.arange(call.num_rows) + step, 0, None)
    return call.at("token_to_seq", row).astype(np.int64)


def _request_0(call: Call) -> Ints:
    return 0 * owner(call)


def _row_of_the_next_request(call: Call, request: Ints, first: Ints) -> Ints:
    begins: Ints = call.at(call.first_rows, request + 1).astype(np.int64)
    return np.arange(call.num_rows) - begins + first


FAULTS = (
    Fault(
        "computed-nan-is-7fc0",
        "NaN written as 0x7FC0",
        "SCALAR-8",
        after(partial(on, ALL, partial(nan_as, 0x7FC0))),
        layouts=TENSOR,
    ),
    Fault(
        "rows-of-request-0", "every row taken as one of request 0", "TWIN-6", Gather(owner=_request_0), layouts=GENERIC
    ),
    Fault(
        "owner-of-the-row-before",
        "a row taken as one of the request of the row before",
        "TWIN-6",
        Gather(owner=partial(_owner_of_the_row, -1)),
        layouts=GENERIC,
    ),
    Fault(
        "owner-of-the-row-behind",
        "a row taken as one of the request of the row behind",
        "TWIN-7",
        Gather(owner=partial(_owner_of_the_row, 1)),
        layouts=GENERIC,
    ),
    Fault(
        "first-row-of-the-next-request",
        "tokens counted from the first row of the next request",
        "TWIN-5",
        Gather(token=_row_of_the_next_request),
        layouts=GENERIC,
    ),
    Fault("auto-multiplied", "bf16 multiplied by scale", "TWIN-8", after(_auto_times_scale), layouts=AUTO),
    Fault(
        "auto-nan-canonical",
        "NaN of bf16 written as 0x7FFF",
        "TWIN-8",
        after(partial(on, ALL, canonical)),
        layouts=AUTO,
    ),
    Fault(
        "auto-subnormals-flushed",
        "subnormals of bf16 written as zeros",
        "TWIN-8",
        after(partial(on, ALL, flushed)),
        layouts=AUTO,
    ),
    Fault("scale-ignored", "scale not used", "TWIN-9", under(np.ones_like), layouts=TENSOR),
    Fault("scale-divided-by", "divided by scale", "TWIN-9", by(divided), layouts=TENSOR),
    Fault(
        "tensor-scale-cut-to-bf16",
        "scale cut to its upper half",
        "TWIN-9",
        under(partial(masked, 0xFFFF0000)),
        layouts=TENSOR,
    ),
    Fault(
        "tensor-product-rounded-once",
        "products with scale rounded to bf16 at once",
        "TWIN-9",
        by(rounded_once),
        layouts=TENSOR,
    ),
    Fault(
        "rope-unscaled",
        "the elements from 512 on not multiplied by scale",
        "TWIN-9",
        Gather(read=_rope_unscaled),
        layouts=TENSOR,
    ),
    Fault(
        "tensor-subnormals-flushed",
        "subnormal products with scale written as zeros",
        "TWIN-9",
        after(partial(on, ALL, flushed)),
        layouts=TENSOR,
    ),
    Fault(
        "tensor-infinities-saturated",
        "products with scale beyond bf16 written as its largest number",
        "TWIN-9",
        after(partial(on, ALL, without_infinities)),
        layouts=TENSOR,
    ),
)
