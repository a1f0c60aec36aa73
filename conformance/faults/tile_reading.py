"""Define faults in the read of a record of fp8_ds_mla (TWIN-1 to TWIN-4, SCALAR-7)."""

from __future__ import annotations

from functools import partial

import numpy as np

from conformance.faults.fault import FP8, TENSOR, Fault
from conformance.faults.paging import records_of
from conformance.faults.products import (
    LATENT,
    ROPE,
    after,
    by,
    bytes_swapped,
    canonical,
    flushed,
    masked,
    nan_as,
    on,
    quietened,
    rounded_once,
    rounded_twice,
    ties_away,
    truncated,
    under,
    without_infinities,
    zero_whatever_the_scale,
)
from conformance.faults.steps import Call, Gather, Records, read
from reference.records import FP8_DS_MLA
from reference.scalars import E4M3, Bf16Bits

COMPUTED = FP8 | TENSOR


def _tiles_of_64(call: Call, records: Records) -> Bf16Bits:
    tiles = FP8_DS_MLA.scales
    held = np.ascontiguousarray(records[:, tiles.offset : tiles.end]).view("<f4")
    numbers = E4M3.decode(records[:, : FP8_DS_MLA.latent.end])
    latent = rounded_twice(numbers, np.tile(np.repeat(held, 64, axis=1), (1, 2)))
    return np.concatenate([latent, read(call, records)[:, FP8_DS_MLA.latent.count :]], axis=1)


FAULTS = (
    Fault(
        "scale-of-the-next-tile",
        "a tile read under the scale of the next one",
        "TWIN-2",
        under(lambda scales: np.roll(scales, -1, axis=-1)),
        layouts=FP8,
    ),
    Fault("tiles-of-64", "tiles of 64 elements", "TWIN-2", Gather(read=_tiles_of_64), layouts=FP8),
    Fault(
        "scale-cut-to-bf16",
        "a tile's scale cut to its upper half",
        "TWIN-2",
        under(partial(masked, 0xFFFF0000)),
        layouts=FP8,
    ),
    Fault(
        "scale-cut-to-its-exponent",
        "a tile's scale cut to its exponent",
        "TWIN-2",
        under(partial(masked, 0x7F800000)),
        "vllm 49435",
        FP8,
    ),
    Fault(
        "product-rounded-once",
        "products rounded to bf16 at once, as in a fused multiplication",
        "TWIN-2",
        by(rounded_once),
        layouts=FP8,
    ),
    Fault(
        "subnormals-flushed",
        "subnormal results written as zeros",
        "TWIN-2",
        after(partial(on, LATENT, flushed)),
        layouts=FP8,
    ),
    Fault(
        "infinities-saturated",
        "results beyond bf16 written as its largest number",
        "TWIN-2",
        after(partial(on, LATENT, without_infinities)),
        layouts=FP8,
    ),
    Fault("product-truncated", "products cut instead of rounded", "SCALAR-7", by(truncated), layouts=COMPUTED),
    Fault("product-ties-away", "products on a tie rounded away from 0", "SCALAR-7", by(ties_away), layouts=COMPUTED),
    Fault(
        "rope-nan-canonical",
        "NaN of the RoPE key written as 0x7FFF",
        "TWIN-3",
        after(partial(on, ROPE, canonical)),
        layouts=FP8,
    ),
    Fault(
        "rope-through-a-number",
        "NaN of the RoPE key quietened, as on the way through a number",
        "TWIN-3",
        after(partial(on, ROPE, quietened)),
        layouts=FP8,
    ),
    Fault(
        "rope-subnormals-of-bf16-flushed",
        "subnormals of the RoPE key written as zeros",
        "TWIN-3",
        after(partial(on, ROPE, flushed)),
        layouts=FP8,
    ),
    Fault(
        "rope-of-the-other-byte-order",
        "the bytes of a RoPE element exchanged",
        "TWIN-3",
        after(partial(on, ROPE, bytes_swapped)),
        layouts=FP8,
    ),
    Fault(
        "nan-of-latent-negative",
        "NaN written as 0xFFFF",
        "TWIN-4",
        after(partial(on, LATENT, partial(nan_as, 0xFFFF))),
        layouts=FP8,
    ),
    Fault(
        "zero-times-infinity-is-zero",
        "zero times an infinite scale written as 0",
        "TWIN-4",
        by(zero_whatever_the_scale),
        layouts=COMPUTED,
    ),
    Fault(
        "record-of-352",
        "a record of 656 bytes taken as one of 352",
        "TWIN-1",
        Gather(address=partial(records_of, 352)),
        layouts=FP8,
    ),
)
