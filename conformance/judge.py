"""The verdict on one case: the golden model's bits against a target's, and every byte that was not to change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from conformance.evidence import Evidence, Pair, around
from conformance.explain import fault_lines, mismatch_lines, stray_lines
from conformance.faults.call_diagnosis import explain_call
from conformance.faults.explanation import Explanation, NotLookedInto
from conformance.observe import Observation, TargetError, observe, patterns, wrong_elements
from conformance.patience import PATIENCE
from conformance.targets.base import GATHERS, Target
from conformance.targets.taken import Unusable
from fixtures.cases import GatherCase
from reference.gather import gather, gather_and_maybe_dequant_cache
from reference.scalars import Bf16Bits

Diagnose = Callable[[], Sequence[Explanation]]
"""A search for the known faults that explain a difference."""


MOST_SECONDS = 20.0
"""After how long a process looks for known faults no more: a target may fail hundreds of tests."""


class Searches:
    """How long this process has looked for known faults, and how long it may."""

    seconds, most = 0.0, MOST_SECONDS

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Add what a search takes."""
        began = time.monotonic()
        try:
            with PATIENCE.paused():
                yield
        finally:
            self.seconds += time.monotonic() - began

    @property
    def over(self) -> str | None:
        """That it has taken too long already; None as long as it may go on."""
        if self.seconds < self.most:
            return None
        return f"known faults were not looked for: that has taken {self.most:g} s in this process already"


SEARCHES = Searches()


class Differs(AssertionError):
    """A target did not do what SPEC.md says; the text says where, `explained_by` which faults predict it exactly."""

    def __init__(
        self,
        text: str,
        explained_by: Sequence[str] = (),
        diagnose: Diagnose | None = None,
        rest: Sequence[str] = (),
        evidence: Evidence | None = None,
    ) -> None:
        """`text` is what a person reads; then, if somebody is to look for faults, what `diagnose` finds, and `rest`."""
        super().__init__(text)
        self.evidence = evidence
        self._known, self._diagnose, self._rest = tuple(explained_by), diagnose, tuple(rest)

    def looked_into_by(self, diagnose: Diagnose) -> Differs:
        """The same difference, with a search for the faults that explain it."""
        return type(self)(super().__str__(), diagnose=diagnose, rest=self._rest, evidence=self.evidence)

    @property
    def explained_by(self) -> tuple[str, ...]:
        """The names of the faults, or pairs of faults, that predict it exactly."""
        return self._known + tuple(each.name for each in self._looked_into[0] if each.exact)

    def __str__(self) -> str:
        """Text, faults, and the rest."""
        return "\n  ".join([super().__str__(), *self._looked_into[1], *self._rest])

    @cached_property
    def _looked_into(self) -> tuple[Sequence[Explanation], list[str]]:
        """What is known to do the same, and what is said of it; only looked for when asked, as most are only shrunk."""
        if not self._diagnose:
            return (), []
        if over := SEARCHES.over:
            return (), [over]
        with SEARCHES.timed():
            try:
                found = self._diagnose()
                return found, fault_lines(found)
            except NotLookedInto as reason:
                return (), [str(reason)]
            except Exception as error:  # a fault's model that fails must not take the verdict along
                return (), [f"the search for faults failed: {type(error).__name__}: {error}"]


class Crashed(AssertionError):
    """A target raised on a legal call."""


class Unsupported(Exception):
    """A target does not claim the capability that a case needs."""


class NotJudged(Exception):
    """This machine cannot run the target, or the target on this case."""


@dataclass
class Count:
    """How much was compared."""

    cases: int = 0
    rows: int = 0
    elements: int = 0

    def add(self, rows: int, elements: int, cases: int = 1) -> None:
        """Count what some more cases compared."""
        PATIENCE.again()
        self.cases += cases
        self.rows += rows
        self.elements += elements


@dataclass
class Judge:
    """Judges cases on one target in the name of some clauses, and counts them.

    `asked` is the case that is being judged, or failed last, with what it is asked (conformance.replaying.questions);
    `before` is told of each before its call.
    """

    target: Target
    clauses: Sequence[str] = ()
    count: Count = field(default_factory=Count)
    asked: tuple[str, Any] | None = None
    before: Callable[[str, Any], None] | None = None
    left_out: list[str] = field(default_factory=list)
    """What random cases were drawn without, since tests of its own show that the target lacks it."""

    @contextmanager
    def on(self, question: str, case: Any) -> Iterator[None]:
        """Note what is judged, for the fixture that a failure leaves."""
        self.asked = question, case
        PATIENCE.again()
        if self.before:
            self.before(question, case)
        yield
        self.asked = None

    def __call__(self, case: GatherCase) -> None:
        """Raise Differs, Crashed or Unsupported unless the target conforms on a case, under each poison."""
        self.need(needed_by(case))
        with self.on("gather", case):
            self.must_conform(case)

    def must_conform(self, case: GatherCase) -> None:
        """Raise Differs or Crashed unless the target conforms on a case that has been noted already."""
        expected = expected_rows(case)
        for poison in patterns(case):
            try:
                seen = observe(self.target, case, poison)
            except MemoryError as error:
                raise NotJudged(f"too little memory for {case!r}: {error}") from error
            except TargetError as error:
                raise self.crashed(case, error) from error
            self.compare(case, expected, seen)
        self.count.add(case.num_rows, expected.size)

    def served(self, case: GatherCase) -> GatherCase:
        """Return the case without its starts if the target claims none: for tests that are not about starts."""
        return case if needed_by(case) in self.target.capabilities else replace(case, seq_starts=None)

    def rows(self, case: GatherCase) -> Bf16Bits:
        """The rows that the target gathers, uint16 [T, 576], once it has been judged on the case."""
        self(case)
        return observe(self.target, case, patterns(case)[0]).dst[: case.num_rows]

    def same(self, rows: Bf16Bits, others: Bf16Bits, what: str) -> None:
        """Raise Differs unless two results that SPEC.md ties together are alike; `what` says which."""
        wrong = wrong_elements(rows, others, self.target.nan)
        if wrong.any():
            raise Differs(self.text("differs", [f"{what}: {wrong.sum():,} of {wrong.size:,} elements differ"]))

    def need(self, capability: str) -> None:
        """Raise Unsupported for a capability the target does not claim, NotJudged for one it cannot show here."""
        if capability not in self.target.capabilities:
            raise Unsupported(f"target {self.target.name} lacks {capability}")
        try:
            hindrance = self.target.hindrance(capability)
        except Unusable as reason:
            raise Crashed(self.text("crashed", [str(reason)])) from reason
        if hindrance:
            raise NotJudged(f"{capability}: {hindrance}")

    def compare(self, case: GatherCase, expected: Bf16Bits, seen: Observation) -> None:
        """Raise Differs for a wrong element, a stray write or a changed input."""
        lines: list[str] = []
        written, others = seen.dst[: len(expected)], seen.dst[len(expected) :]
        behind = bool((others != seen.poison.dst).any())
        if behind:
            lines.append("dst was written " + ("behind its T rows" if case.batch_size else "although R = 0"))
        wrong = wrong_elements(expected, written, self.target.nan, case.layout)
        if wrong.any():
            lines += mismatch_lines(case, expected, seen, wrong)
        lines += stray_lines(case, seen)
        if lines:
            diagnose = partial(explain_call, case, seen, self.target.nan, bool(wrong.any()))
            outside = around(seen) | ({"dst written behind its rows"} if behind else set())
            evidence = Evidence(seen.poison.name, {"rows": Pair(expected, written, wrong)}, outside)
            raise Differs(self.text("differs", lines), diagnose=diagnose, rest=[repr(case)], evidence=evidence)

    def crashed(self, case: object, error: TargetError) -> Crashed:
        """The verdict on a target that raised on a legal case."""
        return Crashed(self.text("crashed", [repr(case), str(error), *(f"  {frame}" for frame in error.frames)]))

    def text(self, verdict: str, lines: list[str]) -> str:
        """The lines of a failure under a heading: clauses, verdict, target."""
        head = f"{' '.join(self.clauses)}  {verdict}  target {self.target.name} ({self.target.describe()})"
        return "\n  ".join([head, *lines])


def needed_by(case: GatherCase) -> str:
    """The capability that a case needs."""
    return GATHERS[case.layout.name][0 if case.seq_starts is None else 1]


def expected_rows(case: GatherCase) -> Bf16Bits:
    """The golden model's answer, uint16 [T, 576] ([0, 576] if R = 0)."""
    paged, starts, count = (case.cache, case.held_table), case.workspace_starts, case.batch_size
    if case.layout.scales.count:
        return gather(*paged, starts, count, case.num_rows, case.seq_starts, case.layout)
    cache, table = paged
    rows = np.empty((case.num_rows if count else 0, case.layout.row), np.uint16)
    scale, owners = np.array([case.scale], np.float32), case.token_to_seq
    gather_and_maybe_dequant_cache(
        cache, rows, table, case.cu_seq_lens, owners, len(rows), case.layout.name, scale, case.seq_starts
    )
    return rows
