"""What a fixture holds of an array: rows that differ, and whether these are all that do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.diagnosis.budget import NotLookedInto
from conformance.showing.text import counted
from fixtures.placement import POISONS, ZERO
from fixtures.store import Fixture
from fixtures.stored_rows import MOST_ROWS, digest

Array = npt.NDArray[Any]
Hits = npt.NDArray[np.bool_]

PATTERNS = {poison.name: poison for poison in (*POISONS, ZERO)}


@dataclass(frozen=True)
class Rows:
    """Rows of an array [total, width]: their numbers, ascending, what was expected of them and what was observed.

    `known` is the row before which all are here that differ, `total` if none is left out. `whole` is the array
    observed, [total, width], if what is here and the golden model's rows in the other places have its SHA-256.
    """

    total: int
    at: npt.NDArray[np.int64]
    expected: Array
    observed: Array
    known: int
    whole: Array | None = None
    remarks: tuple[str, ...] = ()

    def amount(self, wrong: Hits, elements: str = "elements", rows: str = "rows") -> str:
        """How much differs; `wrong` is of the rows kept, [n, width]."""
        found, differing = int(wrong.sum()), int(wrong.any(axis=1).sum())
        everything = (
            f"{found:,} of {self.total * wrong.shape[1]:,} {elements} in {differing:,} of {self.total:,} {rows}"
        )
        if self.known == self.total:
            return f"{everything} differ"
        return f"at least {everything} differ: the file holds the first {len(self.at):,} {rows} that do"


def rows_of(fixture: Fixture, name: str, today: Array | None) -> Rows | None:
    """The rows of the array of that name, or of the only one there is; None if the file holds none that fit.

    `today` is what the golden model expects, whole: [..., width].
    """
    name = _name(fixture, name)
    parts = [of.get(f"{name}{ending}") for of in (fixture.expected, fixture.observed) for ending in ("", ".at")]
    if today is None or any(part is None for part in parts):
        return None
    expected, at, observed, again = (np.asarray(part) for part in parts)
    golden = today.reshape(-1, today.shape[-1])
    if at.dtype != np.int64 or at.ndim != 1 or not np.array_equal(at, again) or not _ascending(at, len(golden)):
        return None
    shape = (len(at), golden.shape[1])
    if any(kept.shape != shape or kept.dtype != today.dtype for kept in (expected, observed)):
        return None
    digests = [of.get(f"{name}.sha256") for of in (fixture.expected, fixture.observed)]
    return _compared(golden, at, expected, observed, digests)


def _compared(golden: Array, at: Array, expected: Array, observed: Array, digests: list[Array | None]) -> Rows:
    whole = golden.copy()
    whole[at] = observed
    is_whole = digests[1] is not None and np.array_equal(digests[1], digest(whole))
    remarks = []
    if digests[0] is not None and not np.array_equal(digests[0], digest(golden)):
        remarks.append("the golden model expects something else today than when this was stored")
    known = len(golden)
    if not is_whole and (len(at) >= MOST_ROWS or digests[1] is None):
        known = int(at[-1]) + 1 if len(at) else 0
        kept = counted(len(at), "row")
        remarks.append(
            f"the file holds the first {kept} that differ of {len(golden):,}; of those behind, nothing is known"
        )
    return Rows(len(golden), at, expected, observed, known, whole if is_whole else None, tuple(remarks))


def must_be_whole(fixture: Fixture, rows: Rows | None) -> Array:
    """The array observed, [total, width]; NotLookedInto if the file does not tell all of it, or under which poison."""
    if rows is None or rows.whole is None or fixture.poison not in PATTERNS:
        raise NotLookedInto("known faults are not looked for: not all that was observed is stored")
    return rows.whole


def _name(fixture: Fixture, name: str) -> str:
    if name in fixture.expected:
        return name
    others = [key for key in fixture.expected if f"{key}.at" in fixture.expected]
    return others[0] if len(others) == 1 else name


def _ascending(at: Array, total: int) -> bool:
    return not len(at) or bool(at[0] >= 0 and at[-1] < total and (np.diff(at) > 0).all())
