"""Find the known faults of a gather from the rows that it wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, takewhile
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from conformance.diagnosis import budget
from conformance.diagnosis.budget import NotLookedInto, deadline, is_over
from conformance.diagnosis.explanation import Explanation
from conformance.faults.catalogue import faults_of
from conformance.faults.fault import Fault
from conformance.faults.steps import PLACING, Call, Gather, in_memory, parts_of
from conformance.observe import Observation, wrong_elements
from fixtures.cases import GatherCase
from reference.paging import Ints
from reference.scalars import Bf16Bits

Hits = npt.NDArray[np.bool_]

PAIRED_ROWS = 4096
"""T beyond which pairs of faults are not tried: there are some two thousand, and each works out T addresses."""

LOOKED_AT, LOOKED_AT_IN_PAIRS = 1024, 48
"""The number of rows that a fault, or a pair, has to predict before it is tried on all."""

AT_LEAST = 0.5
"""The share of the wrong rows that a fault has to explain to be worth naming where none explains all."""

NO_PREDICTION = (IndexError, ValueError)
"""The exceptions of a model that would read outside of all memory, or of two that do not go together."""

Candidate = TypeVar("Candidate")


@dataclass(frozen=True)
class Written:
    """Hold the rows that a call wrote, uint16 [T, 576]. `nan` says whether a NaN stands for any (SPEC.md READ-6)."""

    call: Call
    rows: Bf16Bits
    nan: str

    def is_of(self, gather: Gather) -> bool:
        """Return whether a gather would write all of these rows."""
        try:
            return all(hits.all() for hits in self._by_part(gather, self.every_row))
        except NO_PREDICTION:
            return False

    def hits(self, gather: Gather, which: Ints) -> Hits:
        """Return bool [N]: which rows are as a gather would write them; none if it reads outside of all memory."""
        try:
            return np.concatenate([*self._by_part(gather, which)])
        except NO_PREDICTION:
            return np.zeros(len(which), np.bool_)

    def _by_part(self, gather: Gather, which: Ints) -> Iterator[Hits]:
        addresses = gather.addresses(self.call) if gather.replaced & PLACING else self.right_addresses
        for part in parts_of(which):
            rows = gather.rows(self.call, addresses[part], part)
            wrong = wrong_elements(rows, self.rows[part], self.nan, self.call.layout)
            yield np.logical_not(np.any(wrong, axis=1))

    @cached_property
    def every_row(self) -> Ints:
        """int64 [T]."""
        return np.arange(len(self.rows))

    @cached_property
    def right_addresses(self) -> Ints:
        """The results of steps that most faults share, worked out once."""
        return Gather().addresses(self.call)


def explain(case: GatherCase, seen: Observation, nan: str = "canonical") -> list[Explanation]:
    """Return the known faults whose dst equals the observed one bit for bit, or NaN for NaN if `nan` is "any".

    Where there is none, the pairs of faults that do; else the one fault that predicts most rows, if it predicts at
    least half of those that are wrong and spoils less than it explains; else nothing. NotLookedInto if budget.SECONDS
    did not suffice for all, and none of those tried does.
    """
    until = deadline()
    written = Written(in_memory(case, seen.poison), seen.dst[: case.num_rows], nan)
    right = written.hits(Gather(), written.every_row)
    known, some = faults_of(case.layout), _rows_to_look_at(right, LOOKED_AT)
    exact, hits = [], {}
    for fault in _in_time(known, until):
        hits[fault] = int(written.hits(fault.gather, some).sum())
        if hits[fault] == len(some) and written.is_of(fault.gather):
            exact.append(_exactly(written, fault))
    if exact:
        return exact
    pairs = [*_exact_pairs(known, written, right, until)] if case.num_rows <= PAIRED_ROWS else []
    if pairs:
        return pairs
    late = is_over(until)
    in_part = _in_part(max(hits, key=lambda fault: hits[fault]), written, right) if hits else []
    if late and not in_part:
        raise NotLookedInto(f"no known fault explains it, of those that {budget.SECONDS:g} seconds sufficed for")
    return in_part


def _in_time(candidates: Iterable[Candidate], until: float) -> Iterator[Candidate]:
    return takewhile(lambda _: not is_over(until), candidates)


def _exactly(written: Written, *faults: Fault) -> Explanation:
    return Explanation(faults, len(written.rows), len(written.rows))


def _exact_pairs(known: list[Fault], written: Written, right: Hits, until: float) -> Iterator[Explanation]:
    some = _rows_to_look_at(right, LOOKED_AT_IN_PAIRS)
    for first, second in _in_time(combinations(known, 2), until):
        if first.gather.replaced & second.gather.replaced:
            continue
        both = first.gather.with_steps_of(second.gather)
        if written.hits(both, some).all() and written.is_of(both):
            yield _exactly(written, first, second)


def _in_part(best: Fault, written: Written, right: Hits) -> list[Explanation]:
    """Return the fault that predicts most rows, if these are enough to name it."""
    rows = written.hits(best.gather, written.every_row)
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
