"""Drawing cases with hypothesis so that a seed alone says which."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from unittest.mock import patch

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st
from hypothesis.errors import FlakyFailure
from hypothesis.internal.conjecture import providers

Case = TypeVar("Case")


def for_each(cases: st.SearchStrategy[Case], count: int, seed: int, check: Callable[[Case], None]) -> None:
    """Check `count` cases drawn with `seed`; a failing one is shrunk before its exception is raised."""

    @hypothesis_seed(seed)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,  # an earlier run's failures would come first
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
    )
    @given(cases)
    def holds(case: Case) -> None:
        check(case)

    with _whatever_is_imported():
        try:
            holds()
        except FlakyFailure as error:  # the case fails at times only, which hypothesis reports as a group
            first = error.exceptions[0]
            first.add_note("It did not fail each time that the same case was tried.")
            raise first from None


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
