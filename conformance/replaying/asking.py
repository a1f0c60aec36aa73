"""A fixture's question, put to a target."""

from __future__ import annotations

from dataclasses import replace

import conformance.stored_cases  # noqa: F401  registers kinds of cases
from conformance.judge import Judge
from conformance.replaying.questions import ask_of
from conformance.targets.base import Target
from conformance.verdict import Crashed, Differs, NotJudged, Unsupported
from fixtures.store import Fixture


class CannotAsk(Exception):
    """Why a target cannot be asked, in one line."""


def failure(fixture: Fixture, target: Target) -> Differs | Crashed | None:
    """How a target fails on a fixture's case, None if it conforms; CannotAsk if there is no verdict."""
    question, clauses = str(fixture.about.get("question", fixture.operator)), fixture.about.get("clauses")
    ask = ask_of(question)
    if ask is None or fixture.case is None:
        raise CannotAsk(f"question is {question!r:.40}, which this suite does not ask of its case")
    if reason := target.unavailable():
        raise CannotAsk(f"target {target.name}: not judged: {reason}")
    judge = Judge(target, [str(clause) for clause in clauses] if isinstance(clauses, list) else [])
    try:
        ask(judge, fixture.case)
    except (Differs, Crashed) as error:
        return error
    except (NotJudged, Unsupported) as error:
        raise CannotAsk(f"target {target.name}: not judged: {error}") from error
    except Exception as error:  # of the suite, not the target, or a case that its question does not fit
        raise CannotAsk(f"not judged: {type(error).__name__}: {error}") from error
    return None


def with_evidence(fixture: Fixture, error: BaseException | None) -> Fixture:
    """The fixture with what a failure leaves of the arrays that differ."""
    evidence = error.evidence if isinstance(error, Differs) else None
    expected, observed = evidence.kept() if evidence else ({}, {})
    return replace(fixture, poison=evidence.poison if evidence else "", expected=expected, observed=observed)
