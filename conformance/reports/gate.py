"""Decide whether a run of the gate is green, from its outcomes and all other conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from conformance.reports import receipts
from conformance.reports.receipts import Account
from conformance.reports.selection import Selection, Shard, some
from conformance.reports.verdicts import EXIT_NOT_JUDGED, Outcome, worst
from conformance.reports.waivers import COVERABLE, RECEIPT, Waiver
from conformance.verdict import CONFORMS, CRASHED, DIFFERS, NOT_JUDGED

OVERSTEPS = "lets nothing stand that differs or crashed, as some of its tests did"


@dataclass
class Gate:
    """Hold all outcomes of a run, and its options."""

    seed: int | None
    profile: str | None
    """Seed and profile are None for a run whose options could not be read."""
    asked_targets: tuple[str, ...] = ()
    """The names of --target."""
    shard: Shard | None = None
    seconds: float = 0.0
    exit_status: int | None = None
    """pytest's exit status, or None until the run is over."""
    outcomes: list[Outcome] = field(default_factory=list)
    accounts: list[Account] = field(default_factory=list)
    selection: Selection | None = None
    """The selected tests, or None until a worker has sent them."""
    partial_ok: bool = False
    waivers: tuple[Waiver, ...] = ()
    today: date = field(default_factory=date.today)
    required: tuple[str, ...] = ()
    """The requirements of --require: `cuda`, an architecture, a capability, a range of versions."""
    unmet: tuple[str, ...] = ()
    """The requirements that are not met, a line each."""
    stopped: str = ""
    """Why the run stopped before it judged anything."""
    repeat: str = ""
    """The command that repeats the run."""
    undrawn: str = ""
    """Why a campaign drew nothing."""
    campaign: Mapping[str, Any] | None = None
    """The result of conformance.reports.campaign, or None without a campaign."""

    @property
    def asked(self) -> bool:
        """Whether any test of the gate was asked for."""
        selected = self.selection and (self.selection.tests or self.selection.deselected or self.selection.parts)
        return bool(self.outcomes or selected)

    @property
    def complete(self) -> bool:
        """Whether the run came to its end."""
        return self.exit_status in (0, 1)

    @property
    def verdict(self) -> str:
        """The worst outcome that is not waived. With other reasons not to be green it is at best "not judged"."""
        judged = [outcome.verdict for outcome in self.outcomes if not self.waived(outcome)]
        return worst([*judged, *([] if self.complete and not self.reasons() else [NOT_JUDGED])])

    @property
    def targets(self) -> list[str]:
        """The targets with outcomes, in the order in which they were asked for or first reported."""
        heard = dict.fromkeys(outcome.target for outcome in self.outcomes)
        return [name for name in dict.fromkeys([*self.asked_targets, *heard]) if name in heard]

    def of(self, target: str, clause: str | None = None) -> list[Outcome]:
        """Return a target's outcomes, or only those of one clause."""
        return [o for o in self.outcomes if o.target == target and (clause is None or clause in o.clauses)]

    def accounts_of(self, target: str) -> list[Account]:
        """Return the workers' accounts of a target."""
        return [account for account in self.accounts if account.target == target]

    def verdict_of(self, outcomes: Sequence[Outcome]) -> str:
        """Return the worst verdict of some outcomes. Waived outcomes count only if all are waived."""
        counting = [outcome for outcome in outcomes if not self.waived(outcome)]
        return worst(outcome.verdict for outcome in counting or outcomes)

    def waived(self, outcome: Outcome) -> Waiver | None:
        """Return the valid waiver that covers an outcome, or None."""
        return next((waiver for waiver in self._valid if waiver.covers(outcome)), None)

    def waived_by(self, waiver: Waiver) -> list[Outcome]:
        """Return the outcomes that a waiver covers. Other waivers may cover them too."""
        return [outcome for outcome in self.outcomes if waiver in self._valid and waiver.covers(outcome)]

    def reasons(self) -> list[str]:
        """Return why the run is not green apart from its outcomes, a line each."""
        return [
            *self._unfinished(),
            *self.unmet,
            *filter(None, [self.undrawn]),
            *([] if self.partial_ok else self.partial()),
            *self._unproven(),
            *self._stale_waivers(),
        ]

    def partial(self) -> list[str]:
        """Return why only a part of the gate was asked for, a line each. A shard alone is no reason."""
        if self.selection is None:
            return []
        left_out = [f"left out are {some(self.selection.deselected)}"] if self.selection.deselected else []
        return [f"a part of the gate (--partial-ok): {part}" for part in (*left_out, *self.selection.parts)]

    def state_of(self, waiver: Waiver) -> str:
        """Return the state of a waiver: "used", "unused" or "expired"."""
        return "expired" if waiver.expired(self.today) else "used" if self._applies(waiver) else "unused"

    def declared_by(self, target: str) -> dict[str, str]:
        """Return a target's declarations that differ from the default."""
        return {name: value for account in self.accounts_of(target) for name, value in account.declares.items()}

    def common_faults(self, target: str) -> list[tuple[str, int, int]]:
        """Return the faults that explain most of a target's differences: name, tests explained, tests that differ."""
        differing = [outcome for outcome in self.of(target) if outcome.verdict == DIFFERS]
        counts = Counter(fault for outcome in differing for fault in outcome.explained_by)
        most = max(counts.values(), default=0)
        return [(fault, count, len(differing)) for fault, count in sorted(counts.items()) if count == most]

    def left_out(self, target: str) -> list[tuple[str, int]]:
        """Return the features that a target's random tests left out, each with the number of these tests."""
        return sorted(Counter(feature for outcome in self.of(target) for feature in outcome.left_out).items())

    def unjudged(self, target: str) -> list[tuple[str, str, list[str]]]:
        """Return the tests that did not judge a target, grouped by verdict and reason."""
        grouped: dict[tuple[str, str], list[str]] = {}
        for outcome in self.of(target):
            if outcome.verdict in COVERABLE:
                waiver = self.waived(outcome)
                message = f"{outcome.message} [{waiver}]" if waiver else outcome.message
                grouped.setdefault((outcome.verdict, message), []).append(outcome.test)
        return [(verdict, reason, tests) for (verdict, reason), tests in grouped.items()]

    def exit_code(self, pytest_code: int) -> int:
        """Return pytest's exit code, or another one if it is 0 and the verdict is not green."""
        if pytest_code != 0 or self.verdict == CONFORMS:
            return pytest_code
        return 1 if self.verdict in (DIFFERS, CRASHED) else EXIT_NOT_JUDGED

    @property
    def _valid(self) -> tuple[Waiver, ...]:
        return tuple(waiver for waiver in self.waivers if not waiver.expired(self.today))

    def _unfinished(self) -> Iterator[str]:
        if self.stopped or self.unmet:
            yield f"the run stopped before it judged: {self.stopped}" if self.stopped else "the run judged nothing"
            return
        if not self.complete:
            ended = "is not over" if self.exit_status is None else f"ended with pytest's exit status {self.exit_status}"
            yield f"the run {ended}"
        if self.selection is None:
            yield "asked for and not run: an unknown number of tests, as no process came to say"
            return
        judged = {outcome.test for outcome in self.outcomes}
        if missing := [test for test in self.selection.held_by(self.shard) if test not in judged]:
            yield f"asked for and not run: {some(missing)}"

    def _unproven(self) -> Iterator[str]:
        shard = self.shard  # another one may have the cases
        for name in self.asked_targets:
            if name not in self.targets and not shard:
                yield f"target {name}: no test of it was run"
        for name in self.targets:
            judged, mine = self.of(name), self.accounts_of(name)
            yield from (f"target {name}: {what}" for what in receipts.other_architecture(self.required, mine))
            if not any(outcome.cases for outcome in judged):
                if not shard:
                    yield f"target {name}: no case was compared"
            elif not any(waiver.clause == RECEIPT and waiver.concerns(name) for waiver in self._valid):
                yield from (f"target {name}: {what}" for what in receipts.what_is_wrong(judged, mine))

    def _stale_waivers(self) -> Iterator[str]:
        for waiver in self.waivers:
            if not any(waiver.concerns(name) for name in self.targets):
                continue
            wrong = any(waiver.names(outcome) and outcome.verdict in (DIFFERS, CRASHED) for outcome in self.outcomes)
            if waiver.expired(self.today):
                yield f"{waiver} expired on {waiver.expires}"
            elif wrong:
                yield f"{waiver} {OVERSTEPS}"
            elif self._whole and not self._applies(waiver):
                yield f"{waiver} is not needed any more: nothing that it names is unsupported or not judged"

    @property
    def _whole(self) -> bool:
        return self.complete and self.selection is not None and self.selection.whole and not self.shard

    def _applies(self, waiver: Waiver) -> bool:
        if waiver.clause != RECEIPT:
            return bool(self.waived_by(waiver))
        concerned = [name for name in self.targets if waiver.concerns(name)]
        return any(any(receipts.what_is_wrong(self.of(name), self.accounts_of(name))) for name in concerned)
