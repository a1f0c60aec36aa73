"""Targets with two defects, of which a case that one of them fails on is made smaller towards the other."""

from collections.abc import Callable
from typing import Any

import numpy as np

from conformance.targets.models import NumpyTarget

LARGE = 30
"""Rows or tokens beyond which the first defect shows."""
NO_BLOCKS = "a grid of no blocks"
ANY_GRID = "CUDA error: invalid configuration argument"


class TwoDefects(NumpyTarget):
    """Calls `large` on what was written by a call of more than LARGE rows, and `small` by any other one."""

    def __init__(self, large: Callable[[Any], None], small: Callable[[Any], None]) -> None:
        super().__init__()
        self.crash_prone = False
        self.large, self.small = large, small

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, src_cache: Any, dst: Any, *others: Any, **more: Any) -> None:
        before = dst.copy()
        super().cp_gather_and_upconvert_nvfp4_kv_cache(src_cache, dst, *others, **more)
        (self.large if len(dst) > LARGE else self.small)(Rows(dst, before))

    def concat_and_cache_mla(self, kv_cache: Any, slot_mapping: Any, **others: Any) -> None:  # type: ignore[override]
        super().concat_and_cache_mla(kv_cache=kv_cache, slot_mapping=slot_mapping, **others)
        block, record = np.divmod(slot_mapping, kv_cache.shape[1])
        written = kv_cache[block, record]
        (self.large if len(slot_mapping) > LARGE else self.small)(Rows(written, written))
        kv_cache[block[slot_mapping >= 0], record[slot_mapping >= 0]] = written[slot_mapping >= 0]


class Rows:
    """What a call has written, and what was there before."""

    def __init__(self, now: Any, before: Any) -> None:
        self.now, self.before = now, before


def last_latent(rows: Rows) -> None:
    rows.now[-1, 0] ^= 1


def last_latent_if_any(rows: Rows) -> None:
    if len(rows.now):
        last_latent(rows)


def last_rope(rows: Rows) -> None:
    rows.now[-1, 575] ^= 1


def last_row_left(rows: Rows) -> None:
    rows.now[-1] = rows.before[-1]


def first_row_left(rows: Rows) -> None:
    if len(rows.now) > 1:
        rows.now[0] = rows.before[0]


def raises(message: str) -> Callable[[Rows], None]:
    """Return a defect that raises."""

    def defect(rows: Rows) -> None:
        raise RuntimeError(message.format(len(rows.now)))

    return defect


def empty_grid(rows: Rows) -> None:
    if len(rows.now) == 0:
        raise RuntimeError(NO_BLOCKS)


def empty_any_grid(rows: Rows) -> None:
    if len(rows.now) == 0:
        raise RuntimeError(ANY_GRID)


class DiffersFarAndCrashesOnNothing(TwoDefects):
    """Two defects, as a target that the gate finds by its name."""

    def __init__(self) -> None:
        super().__init__(last_latent, empty_grid)
