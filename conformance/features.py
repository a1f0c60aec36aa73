"""Features of random cases that have tests of their own: a smallest case for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from conformance.cases import STRIDED
from conformance.generation import Geometry, realize, without_nan
from conformance.write_generation import Slots
from conformance.write_generation import realize as realize_write
from fixtures.cases import Arrangement, GatherCase
from fixtures.write_cases import WriteArrangement, WriteCase

REQUESTS_WITHOUT_ROWS = "requests without rows"
OTHER_T = "T other than the sum of the lengths"
STRIDES = "strides"
SPARE_ENTRIES = "spare entries"
NAN = "records that read as NaN"
SKIPPED = "skipped tokens"
SPARE_TOKENS = "spare tokens"


@dataclass(frozen=True)
class Feature:
    """A feature, the clause whose own tests judge it, and the smallest case that has it and nothing else."""

    name: str
    clause: str
    probe: Callable[[], Any]


def gather_of(seed: int = 0, **more: Any) -> GatherCase:
    """Return a small gather of numbers in contiguous arrays, without starts, with changed fields of its geometry."""
    return without_nan(realize(Geometry(**{"block_size": 4, "lengths": (5, 3), **more}), seed))


def write_of(slots: Slots, form: str, **more: Any) -> WriteCase:
    """Return a small write with changed fields of its arrangement."""
    return realize_write(slots, 1, form, WriteArrangement(**more))


OF_GATHERS = (
    Feature(REQUESTS_WITHOUT_ROWS, "GATHER-1", lambda: gather_of(lengths=(0, 5, 0, 3, 0))),
    Feature(OTHER_T, "GATHER-1", lambda: gather_of(extra_rows=3)),
    Feature(STRIDES, "GATHER-8", lambda: gather_of(arrangement=replace(STRIDED["everything apart"], spare_requests=0))),
    Feature(SPARE_ENTRIES, "GATHER-4", lambda: gather_of(arrangement=Arrangement(spare_requests=3))),
    Feature(NAN, "READ-6", lambda: _nan(gather_of())),
)


def features_of_writes(form: str) -> tuple[Feature, ...]:
    """Return the features of writes with a kv_cache_dtype."""
    return (
        Feature(SKIPPED, "WRITE-2", lambda: write_of(Slots(5, 4, skipped=2), form)),
        Feature(SPARE_TOKENS, "WRITE-3", lambda: write_of(Slots(5, 4), form, spare_tokens=3)),
        Feature(
            STRIDES,
            "WRITE-6",
            lambda: write_of(
                Slots(5, 4),
                form,
                kv_c_row_slack=2,
                k_pe_row_slack=6,
                cache_block_slack=16,
                cache_record_slack=16,
                cache_shift=240,
                input_shift=4,
            ),
        ),
    )


def _nan(case: GatherCase) -> GatherCase:
    records, layout = case.records.copy(), case.layout
    records[..., layout.rope.offset : layout.scales.end : 2] = 0x7F
    return replace(case, records=records)
