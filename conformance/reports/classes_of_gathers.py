"""Define the classes of random gathers: geometry, arrangement in memory, and the bytes that rows read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.reports.classes_of_numbers import (
    CONTIGUOUS,
    KINDS,
    NAN_BYTES,
    kinds_of,
    memory_hits,
    nan_bytes,
    sized,
)
from conformance.reports.coverage import Domain, Hit
from conformance.strategies import BLOCK_SIZES
from fixtures.cases import GatherCase
from reference.records import FP8_DS_MLA, GENERIC, NVFP4_DS_MLA, Field, RecordLayout
from reference.scalars import E2M1, E4M3, WideFloat

NO_STARTS = "no seq_starts"
STARTS = (NO_STARTS, "0", "whole blocks", "1", "last", "other")
"""The part of a block before a request's first token."""

LENGTHS = ("0", "1", "below a block", "a block", "above a block", "whole blocks")
REQUESTS, _requests = sized(1, 2, 3, 8)
ROWS = ("0", "behind the last start", "at the last start", "before the last start")
"""T, compared with the first row of the last request."""

TABLES = ("one request", "shared", "ascending", "scattered")
MEMORY = (
    CONTIGUOUS,
    *("cache_block_slack", "cache_record_slack", "table_row_slack", "dst_row_slack"),
    *("cache_shift", "dst_shift", "int_shift", "spare_requests", "slots_outermost"),
)
OF_THE_GENERIC_GATHER = ("spare_rows", "scale_is_scalar")
BYTES = ("uniform", "special")
SIZES = tuple(str(size) for size in BLOCK_SIZES)

_ASCENDING = np.arange(4096, dtype=np.int32)


def start_class(start: int, block_size: int) -> str:
    """Return the class of a request's first token within its block. In blocks of two records the last one is "1"."""
    rest = start % block_size
    if rest == 0:
        return "whole blocks" if start else "0"
    return "1" if rest == 1 else "last" if rest == block_size - 1 else "other"


def length_class(length: int, block_size: int) -> str:
    """Return the class of a request's rows, compared with a block. In blocks of one record, 1 is "a block"."""
    if length in (0, 1, block_size):
        return "a block" if length == block_size else str(length)
    if length < block_size:
        return "below a block"
    return "above a block" if length % block_size else "whole blocks"


SIZES_AND_STARTS = tuple(
    f"{size}, {each}"
    for size in BLOCK_SIZES
    for each in dict.fromkeys((NO_STARTS, *(start_class(start, size) for start in range(2 * size))))
)
"""The pairs of block size and start that can occur."""


def geometry_hits(case: GatherCase) -> Iterator[Hit]:
    """Yield the classes of a case's geometry: requests, starts, lengths, rows and table."""
    size, rows = case.block_size, case.num_rows
    firsts = case.workspace_starts.tolist()
    ends = [*firsts[1:], rows][: len(firsts)]
    lengths = [max(0, min(end, rows) - min(first, rows)) for first, end in zip(firsts, ends, strict=True)]
    yield "block size", str(size)
    yield "requests", _requests(len(firsts))
    yield "rows", _rows_class(rows, firsts)
    if len(case.block_table):
        yield "table", table_class(case.block_table)
    yield from (("length", length_class(length, size)) for length in lengths)
    for start in starts_read(case, lengths):
        yield "start", start
        yield "block size and start", f"{size}, {start}"


def starts_read(case: GatherCase, lengths: list[int]) -> set[str]:
    """Return the start classes of the requests that have rows."""
    if case.seq_starts is None:
        return {NO_STARTS}
    starts = zip(case.seq_starts.tolist(), lengths, strict=True)
    return {start_class(start, case.block_size) for start, length in starts if length}


def table_class(table: npt.NDArray[np.int32]) -> str:
    """Return the class of a table, int32 [R, max_blocks], by the order of its physical blocks."""
    if len(table) == 1:
        return "one request"
    if (table[0] == table[1]).all():
        return "shared"
    return "ascending" if table.tobytes() == _ASCENDING[: table.size].tobytes() else "scattered"


def _rows_class(rows: int, firsts: list[int]) -> str:
    if rows == 0 or not firsts:
        return "0"
    return f"{'before' if rows < firsts[-1] else 'behind' if rows > firsts[-1] else 'at'} the last start"


Kinds = Callable[[npt.NDArray[np.uint8]], Iterable[str]]
"""A function from the bytes of a field to the kinds of its numbers."""


def _fields(layout: RecordLayout) -> list[tuple[str, Field, tuple[str, ...], Kinds]]:
    """Return the fields of a record with kinds of numbers: class, field, values, and function that finds them."""
    found: list[tuple[str, Field, tuple[str, ...], Kinds]] = []
    for field in (layout.latent, layout.rope, layout.scales):
        scalar = field.scalar
        if field.count == 0 or scalar is E2M1:
            continue
        if isinstance(scalar, WideFloat):
            found.append((f"{field.name} numbers", field, KINDS, _kinds(scalar)))
        else:
            found.append((f"NaN bytes among {field.name}s", field, NAN_BYTES, lambda codes: (nan_bytes(codes),)))
    return found


def _kinds(scalar: WideFloat) -> Kinds:
    return lambda read: kinds_of(read.view(f"<u{scalar.nbytes}"))


def domain(layout: RecordLayout) -> Domain:
    """Return the domain of gathers of a layout."""
    fields = _fields(layout)
    is_nvfp4, has_scale = layout == NVFP4_DS_MLA, layout.name == "fp8"
    more = () if layout.scales.count else OF_THE_GENERIC_GATHER
    classes = {
        "block size": SIZES,
        "start": STARTS,
        "block size and start": SIZES_AND_STARTS,
        "length": LENGTHS,
        "requests": REQUESTS,
        "rows": ROWS,
        "table": TABLES,
        "memory": (*MEMORY, *more),
        **{name: values for name, _, values, _ in fields},
        **({"block size and start, with a NaN scale": SIZES_AND_STARTS, "bytes": BYTES} if is_nvfp4 else {}),
        **({"scale": KINDS} if has_scale else {}),
    }

    def hits(case: GatherCase) -> Iterator[Hit]:
        geometry = list(geometry_hits(case))
        yield from geometry
        yield from memory_hits(case.arrangement)
        for name, field, _, kinds in fields:
            read = case.records[..., field.offset : field.end][case.used_records]
            found = list(kinds(read)) if read.size else []
            yield from ((name, kind) for kind in found)
            if is_nvfp4 and field.scalar is E4M3 and field is layout.scales and found not in ([], ["none"]):
                together = "block size and start, with a NaN scale"
                yield from ((together, value) for each, value in geometry if each == "block size and start")
        if is_nvfp4:
            yield "bytes", "special" if case.origin.endswith("special bytes") else "uniform"
        if has_scale:
            yield from (("scale", kind) for kind in kinds_of(np.array([case.scale], np.float32).view("<u4")))

    return Domain(f"gather {layout.name}", classes, hits)


LAYOUTS = (NVFP4_DS_MLA, FP8_DS_MLA, GENERIC["auto", 576], GENERIC["fp8", 576])
DOMAINS: tuple[Domain, ...] = tuple(domain(layout) for layout in LAYOUTS)


def domain_of(case: Any) -> str:
    """Return the name of a gather's domain. The layout's name is its kv_cache_dtype."""
    return f"gather {case.layout.name}"
