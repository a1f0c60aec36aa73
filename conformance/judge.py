"""The verdict on one case: the golden model's bits against a target's, and every byte that was not to change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from conformance.explain import mismatch_lines, stray_lines
from conformance.observe import Observation, TargetError, around, observe, patterns, wrong_elements
from conformance.patience import PATIENCE
from conformance.targets.base import GATHERS, Target
from conformance.targets.taken import Unusable
from conformance.verdict import Count, Crashed, Differs, Evidence, NotJudged, Pair, Unsupported
from fixtures.cases import GatherCase
from reference.gather import gather, gather_and_maybe_dequant_cache
from reference.scalars import Bf16Bits


@dataclass(frozen=True)
class GatherSighting:
    """What a gather left of a case. `nan` is as for wrong_elements.

    `rows_differ` says whether a row is wrong, so that what is read comes into question. `whole` says whether `seen` is
    all that the call left, or its rows alone.
    """

    case: GatherCase
    seen: Observation
    nan: str
    rows_differ: bool = True
    whole: bool = True


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
            sighting = GatherSighting(case, seen, self.target.nan, bool(wrong.any()))
            outside = around(seen) | ({"dst written behind its rows"} if behind else set())
            evidence = Evidence(seen.poison.name, {"rows": Pair(expected, written, wrong)}, outside)
            raise Differs(self.text("differs", lines), [repr(case)], evidence, sighting)

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
