"""Everything about a fixture that the terminal and the page tell, each in its own way."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from conformance.diagnosis.budget import NotLookedInto
from conformance.faults.defects import DEFECTS
from conformance.showing.facts import heading_of
from conformance.showing.gathers import gather_view
from conformance.showing.merges import merge_view
from conformance.showing.others import other_view
from conformance.showing.text import in_words, plain, plain_lines
from conformance.showing.view import View
from conformance.showing.writes import write_view
from fixtures.store import Fixture

MOST_NAMED = 6
"""Explanations that are told with a sentence."""
VIEWS = {"gather": gather_view, "write": write_view, "merge": merge_view}


@dataclass(frozen=True)
class Shown:
    """A fixture and the file that it is from."""

    fixture: Fixture
    path: Path

    @property
    def heading(self) -> tuple[str, str]:
        """Clauses and verdict."""
        return heading_of(self.fixture)

    @cached_property
    def view(self) -> View:
        """What there is to see of its kind."""
        return VIEWS.get(self.fixture.operator, other_view)(self.fixture)

    @property
    def message(self) -> list[str]:
        """The stored message, a line each."""
        stored = self.fixture.about.get("message", "")
        return [line for line in plain_lines(stored) if line.strip()]

    @cached_property
    def diagnosis(self) -> list[str]:
        """What was found when the failure was stored, and what is found today."""
        stored = self.fixture.about.get("explained_by", ())
        names = [str(name) for name in stored if str(name)] if isinstance(stored, list) else []
        then = [_explained(plain(name, 120)) for name in names[:MOST_NAMED]]
        today = self._searched() if self.fixture.observed else []
        both = [f"{line}, then and today" for line in then if line in today]
        more = [f"and by {len(names) - MOST_NAMED:,} more"] if len(names) > MOST_NAMED else []
        return [
            *both,
            *(f"when it was stored, {line}" for line in then + more if line not in today),
            *(f"today, {line}" for line in today if line not in then),
        ]

    def _searched(self) -> list[str]:
        try:
            return [plain(line) for line in self.view.search()]
        except NotLookedInto as reason:
            return [plain(reason)]

    @property
    def replay(self) -> str:
        """The command that asks the target again."""
        target = self.fixture.about.get("target")
        named = f" --target {shlex.quote(plain(target, 120))}" if isinstance(target, str) and target else ""
        return f"python -m conformance replay {shlex.quote(plain(self.path))}{named}"

    @property
    def target(self) -> str:
        """Its name."""
        return in_words(self.fixture.about.get("target", ""), 120)


def _explained(name: str) -> str:
    sentences = [DEFECTS[each].sentence for each in name.split(" + ") if each in DEFECTS]
    known = f"{', and '.join(sentences)} " if sentences else ""
    return f"explained exactly by: {known}({'faults' if ' + ' in name else 'fault'} {name})"
