"""Define defects of the other gathers: shared with the nvfp4_ds_mla gather, or of whole calls (TWIN)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from conformance.faults import meddlers
from conformance.faults.around import Arguments, Around, Meddler, Proceed, allocation
from conformance.faults.catalogue import FAULTS
from conformance.faults.defect import Defect
from conformance.faults.gathers import FaultyGather
from conformance.targets.base import GATHERS, Target

FP8, GENERIC = (frozenset(GATHERS[name][:2]) for name in ("fp8_ds_mla", "auto"))


def all_of_dst_taken_for_rows(proceed: Proceed, call: Arguments) -> None:
    """Write all rows of dst: rows behind num_tokens get a copy of the last row."""
    proceed(call)
    dst, rows = call["dst"], call["num_tokens"]
    if 0 < rows < len(dst):
        dst[rows:] = dst[rows - 1]


def rows_of_576(proceed: Proceed, call: Arguments) -> None:
    """Write 64 zeros behind each row of 512 elements, as a gather of 576 elements a row does."""
    dst = call["dst"]
    proceed(call)
    if dst.ndim == 2 and dst.shape[1] == 512:
        behind = np.arange(call["num_tokens"])[:, None] * (dst.strides[0] // 2) + np.arange(512, 576)
        allocation(dst, behind.ravel(), 0)


def _of_catalogue(name: str, clause: str, capabilities: frozenset[str], of: str) -> Defect:
    fault = next(fault for fault in FAULTS if fault.name == name)
    target = partial(FaultyGather, replace(fault, layouts=frozenset()), capabilities)
    return Defect(f"{of}-{name}", f"{fault.sentence}, by the gather of {of}", clause, "twin", target, fault.source)


def _around(name: str, sentence: str, clause: str, capabilities: frozenset[str], make: Callable[[], Meddler]) -> Defect:
    def target() -> Target:
        return Around(make(), capabilities)

    return Defect(name, sentence, clause, "twin", target)


DEFECTS = (
    *(
        _of_catalogue(name, clause, capabilities, of)
        for clause, capabilities, of in (("TWIN-1", FP8, "fp8_ds_mla"), ("TWIN-5", GENERIC, "numbers-alike"))
        for name in ("starts-ignored", "start-rounded-down", "block-stride-packed", "offset-in-32-bits")
    ),
    _around(
        "fp8_ds_mla-no-rows-is-an-error",
        "an empty grid launched for T = 0, by the gather of fp8_ds_mla",
        "TWIN-1",
        FP8,
        lambda: meddlers.no_rows_is_an_error,
    ),
    _around(
        "fp8_ds_mla-nothing-refused",
        "malformed calls accepted, by the gather of fp8_ds_mla",
        "TWIN-1",
        FP8,
        lambda: meddlers.nothing_refused,
    ),
    _around(
        "numbers-alike-nothing-refused",
        "malformed calls accepted, by the gather of numbers alike",
        "TWIN-5",
        GENERIC,
        lambda: meddlers.nothing_refused,
    ),
    _around("rows-of-576", "576 elements written of each row of 512", "TWIN-5", GENERIC, lambda: rows_of_576),
    _around(
        "row-after-num-tokens-written",
        "one row after num_tokens written",
        "TWIN-7",
        GENERIC,
        lambda: meddlers.row_after_t_written,
    ),
    _around(
        "all-of-dst-taken-for-rows",
        "the rows of dst taken for num_tokens",
        "TWIN-7",
        GENERIC,
        lambda: all_of_dst_taken_for_rows,
    ),
    _around(
        "scale-remembered",
        "what scale held at the first call used at each",
        "TWIN-9",
        GENERIC,
        lambda: meddlers.Remembers("scale"),
    ),
)
