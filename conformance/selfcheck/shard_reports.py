"""Runs of a gate, whole and in shards, as the reports that they leave."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from conformance.reports.gate import Gate
from conformance.reports.receipts import Account
from conformance.reports.report import as_json
from conformance.reports.selection import Selection, Shard
from conformance.reports.verdicts import Outcome
from conformance.reports.waivers import Waiver
from conformance.verdict import CONFORMS, DIFFERS, UNSUPPORTED

WAIVERS = (
    Waiver(1, "WRITE", "numpy", "not written yet", "https://example.org/1", date(2099, 1, 31)),
    Waiver(2, "MERGE-1", "numpy", "not merged yet", "https://example.org/2", date(2099, 1, 31)),
)


def outcome(
    number: int, target: str = "numpy", verdict: str = CONFORMS, clauses: Sequence[str] = ("GATHER-1",)
) -> Outcome:
    """A test by its number: one of 2 cases of 3 rows each, if it came to compare."""
    judged = verdict in (CONFORMS, DIFFERS)
    counts: dict[str, Any] = {"cases": 2, "rows": 6, "elements": 6 * 576, "calls": 2, "launches": 2} if judged else {}
    message = "" if verdict == CONFORMS else f"{verdict}, in test {number}"
    test = f"conformance/gate/test_some.py::test_{number}[{target}]"
    return Outcome(test, target, tuple(clauses), verdict, message=message, worker="gw0", **counts)


@dataclass(frozen=True)
class Chosen(Selection):
    """A shard that holds what it is told, whatever the names of its tests are."""

    mine: tuple[str, ...] = ()

    def held_by(self, shard: Shard | None) -> tuple[str, ...]:
        return self.mine


def report(
    outcomes: Sequence[Outcome],
    every: Sequence[Outcome] | None = None,
    shard: tuple[int, int] | None = None,
    *,
    receipt: dict[str, Any] | None = None,
    device: str = "cpu",
    **more: Any,
) -> dict[str, Any]:
    """What a run that judged `outcomes` leaves: of `every` test, as one of the shards, if it is one."""
    targets = sorted({one.target for one in every or outcomes})
    tests = tuple(one.test for one in every or outcomes)
    selection = Chosen(tests=tests, mine=tuple(one.test for one in outcomes))
    accounts = [_account(name, outcomes, receipt or {"device": device}, device) for name in targets]
    repeat = "python -m pytest conformance/gate --target numpy" + (f" --shard {shard[0]}/{shard[1]}" if shard else "")
    asked = {"seed": 7, "profile": "ci", "exit_status": 0, "repeat": repeat, "waivers": WAIVERS[:1], **more}
    told = Gate(
        asked_targets=tuple(targets),
        shard=Shard(*shard) if shard else None,
        outcomes=list(outcomes),
        accounts=accounts,
        selection=selection,
        **asked,
    )
    return as_json(told)


def shards_of(outcomes: Sequence[Outcome], places: Iterable[int], of: int, **more: Any) -> list[dict[str, Any]]:
    """The reports of all shards, when each test is run in the shard of its place, from 1."""
    held = list(zip(outcomes, places, strict=True))
    return [
        report([one for one, place in held if place == index], outcomes, (index, of), **more)
        for index in range(1, of + 1)
    ]


def _account(name: str, outcomes: Sequence[Outcome], receipt: dict[str, Any], device: str) -> Account:
    mine = [one for one in outcomes if one.target == name]
    counts = {what: sum(getattr(one, what) for one in mine) for what in ("cases", "rows", "elements", "calls")}
    launches = sum(one.launches or 0 for one in mine)
    told = {**receipt, "launches": launches}
    return Account("gw0", name, told, **counts, launches=launches, device=device, peak_rss_mib=9)


OUTCOMES = (outcome(1), outcome(2), outcome(3, verdict=UNSUPPORTED, clauses=("WRITE-1",)), outcome(4))
"""A green run, thanks to its waiver."""
