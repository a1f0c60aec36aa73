"""Which known fault a target has, from what it wrote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from conformance.faults.catalogue import faults_of
from conformance.faults.fault import Fault
from conformance.faults.steps import Call, Gather, in_memory
from conformance.observe import Observation
from fixtures.cases import GatherCase
from reference.paging import Ints
from reference.scalars import Bf16Bits

Hits = npt.NDArray[np.bool_]

PAIRED_ROWS = 4096
"""T beyond which pairs of faults are not tried: there are some two thousand, and each works out T addresses."""

LOOKED_AT, LOOKED_AT_IN_PAIRS = 1024, 48
"""How many rows a fault, or a pair, has to predict before it is tried on all."""

AT_LEAST = 0.5
"""The share of the wrong rows that a fault has to explain to be worth naming where none explains all."""


@dataclass(frozen=True)
class Explanation:
    """A fault, or two at a time, and how many of the T rows it predicts bit for bit."""

    faults: tuple[Fault, ...]
    rows: int
    of: int

    @property
    def exact(self) -> bool:
        """Whether it predicts all of dst."""
        return self.rows == self.of

    @property
    def name(self) -> str:
        """The faults' names."""
        return " + ".join(fault.name for fault in self.faults)

    @property
    def sentence(self) -> str:
        """What the faults do."""
        return ", and ".join(fault.sentence for fault in self.faults)


def explain(case: GatherCase, seen: Observation) -> list[Explanation]:
    """The known faults whose dst equals the observed one bit for bit.

    Where there is none, the pairs of faults that do; else the one fault that predicts most rows, if it predicts at
    least half of those that are wrong and spoils less than it explains; else nothing.
    """
    call, observed = in_memory(case, seen.poison), seen.dst[: case.num_rows]
    known = faults_of(case.layout)
    right = _hits(Gather(), call, observed, np.arange(case.num_rows))
    some = _rows_to_look_at(right, LOOKED_AT)
    hits = [_hits(fault.gather, call, observed, some) for fault in known]
    likely = [fault for fault, each in zip(known, hits, strict=True) if each.all()]
    exact = [Explanation((fault,), len(right), len(right)) for fault in likely if _all(fault.gather, call, observed)]
    if exact:
        return exact
    pairs = list(_exact_pairs(known, call, observed, right)) if case.num_rows <= PAIRED_ROWS else []
    best = known[max(range(len(known)), key=lambda number: int(hits[number].sum()))]
    return pairs or _in_part(best, call, observed, right)


def _exact_pairs(known: list[Fault], call: Call, observed: Bf16Bits, right: Hits) -> Iterator[Explanation]:
    some = _rows_to_look_at(right, LOOKED_AT_IN_PAIRS)
    for first, second in combinations(known, 2):
        if first.gather.replaced & second.gather.replaced:
            continue
        both = first.gather.with_steps_of(second.gather)
        if _hits(both, call, observed, some).all() and _all(both, call, observed):
            yield Explanation((first, second), len(observed), len(observed))


def _in_part(best: Fault, call: Call, observed: Bf16Bits, right: Hits) -> list[Explanation]:
    """A fault that does not predict all rows, if it is worth a word."""
    rows = _hits(best.gather, call, observed, np.arange(len(observed)))
    if (rows & ~right).sum() < AT_LEAST * (~right).sum() or rows.sum() <= right.sum():
        return []
    return [Explanation((best,), int(rows.sum()), len(rows))]


def _rows_to_look_at(right: Hits, count: int) -> Ints:
    """Up to that many rows: wrong ones as far as half of them, and others all over dst; all, if there are no more."""
    if len(right) <= count:
        return np.arange(len(right))
    wrong = np.flatnonzero(~right)
    wrong = wrong[:: max(1, 2 * len(wrong) // count)]
    return np.union1d(wrong, np.linspace(0, len(right) - 1, count // 2).astype(np.int64))


def _all(gather: Gather, call: Call, observed: Bf16Bits) -> bool:
    return bool(_hits(gather, call, observed, np.arange(len(observed))).all())


def _hits(gather: Gather, call: Call, observed: Bf16Bits, which: Ints) -> Hits:
    """bool [N]: which of those rows are as a gather would write them; none if it would read outside of all memory."""
    try:
        hits: Hits = np.all(gather.some(call, which) == observed[which], axis=1)
    except (IndexError, ValueError):  # no prediction; two faults at a time may make what neither of them expects
        return np.zeros(len(which), np.bool_)
    return hits
