"""Drawing cases with hypothesis so that a seed alone says which."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import count as count_from
from typing import Any, Protocol, TypeVar
from unittest import SkipTest
from unittest.mock import patch

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st
from hypothesis.database import ExampleDatabase
from hypothesis.errors import FlakyFailure
from hypothesis.internal.conjecture import providers

from conformance.profiles import derived_seed
from conformance.remarks import Remark

Case = TypeVar("Case")

MOST_KEPT = 1_000
"""Kept examples that are tried at most: more than hypothesis keeps of a failure and of what it was shrunk from."""


class Meter(Protocol):
    """Whoever wants to know what is drawn."""

    def case(self, case: Any) -> None:
        """Called with each case on which the check has passed."""

    def round(self, seconds: float) -> None:
        """Called after each round, with what it took."""


@dataclass(frozen=True)
class Asked:
    """What for_each is to do beyond its cases; by itself, nothing.

    `kept` has what failed in earlier runs, which is tried first, within `aside`, and takes what fails now. Rounds of as
    many other cases follow for `seconds` altogether; the first round is number `first_round`, counted from 1.
    """

    kept: ExampleDatabase | None = None
    aside: Callable[[], AbstractContextManager[None]] = nullcontext
    seconds: float = 0.0
    first_round: int = 1
    meter: Meter | None = None


_asked = Asked()


@contextmanager
def asking(**more: Any) -> Iterator[None]:
    """Change what is asked, by the fields of Asked, for as long as the context lasts."""
    global _asked
    before = _asked
    _asked = replace(before, **more)
    try:
        yield
    finally:
        _asked = before


def for_each(cases: st.SearchStrategy[Case], count: int, seed: int, check: Callable[[Case], None]) -> None:
    """Check `count` cases drawn with `seed`; a failing one is shrunk before its exception is raised.

    A plugin may ask for more around that: see Asked.
    """
    asked, until = _asked, time.monotonic() + _asked.seconds
    with _whatever_is_imported():
        if asked.kept is not None:
            with asked.aside(), _remarking("it is kept from an earlier run, and was tried before this run's own cases"):
                _try_what_is_kept(cases, check, asked.kept)
        for number in count_from(asked.first_round):
            _one_round(cases, count, number, seed, check, asked)
            if time.monotonic() >= until:
                return


def seed_of_round(seed: int, number: int) -> int:
    """The seed of a round: a test's own for the first one."""
    return seed if number == 1 else derived_seed(seed, f"round {number}")


def _one_round(
    cases: st.SearchStrategy[Case], count: int, number: int, seed: int, check: Callable[[Case], None], asked: Asked
) -> None:
    own, began = seed_of_round(seed, number), time.monotonic()
    where = f"it is of round {number}, drawn with seed {own}: --round {number} starts there"

    def metered(case: Case) -> None:
        check(case)
        if asked.meter:
            asked.meter.case(case)

    try:
        with _remarking(where) if number > 1 else nullcontext():
            _draw(cases, count, own, metered, asked.kept, (Phase.generate, Phase.shrink))
    finally:
        if asked.meter:
            asked.meter.round(time.monotonic() - began)


def _try_what_is_kept(cases: st.SearchStrategy[Case], check: Callable[[Case], None], kept: ExampleDatabase) -> None:
    try:
        _draw(cases, MOST_KEPT, 0, check, kept, (Phase.reuse, Phase.shrink))
    except SkipTest:  # hypothesis's word for: there is none
        return


def _draw(
    cases: st.SearchStrategy[Case],
    count: int,
    seed: int,
    check: Callable[[Case], None],
    database: ExampleDatabase | None,
    phases: tuple[Phase, ...],
) -> None:
    @settings(
        max_examples=count,
        deadline=None,
        database=database,  # which takes what fails, and is read in Phase.reuse alone
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        phases=phases,
    )
    @hypothesis_seed(seed)  # which by itself would take the database away, so that settings come after it
    @given(cases)
    def holds(case: Case) -> None:
        check(case)

    try:
        holds()
    except FlakyFailure as error:  # the case fails at times only, which hypothesis reports as a group
        first = error.exceptions[0]
        first.add_note(Remark("it did not fail each time that the same case was tried"))
        raise first from None


@contextmanager
def _remarking(text: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(Remark(text))
        raise


@contextmanager
def _whatever_is_imported() -> Iterator[None]:
    # hypothesis mixes in the integers that stand in the source of every imported module of the project, so that what
    # else a worker has imported would change the cases. It has no setting for that; test_drawing.py sees if this fails.
    inside = vars(providers)
    if "_get_local_constants" not in inside:  # a release before or after those that do so
        yield
        return
    none, cache = inside["Constants"](), inside["LRUCache"](1024)
    with patch.dict(inside, _get_local_constants=lambda: none, CONSTANTS_CACHE=cache):
        yield
