"""What a target does with a fixture's case today, in the place of what was stored."""

from __future__ import annotations

from dataclasses import replace

from conformance import stored_cases  # noqa: F401  so that fixtures hold cases of every kind
from conformance.judge import Crashed, Differs, Judge, NotJudged, Unsupported
from conformance.replaying.questions import ask_of
from conformance.targets.base import Target
from fixtures.store import Fixture

APART = ("explained_by", "receipt", "versions", "time", "shrunk_from", "alone")
"""What is said of a run that was not this one."""


class CannotShow(Exception):
    """Why a target cannot be asked, in one line."""


def asked_again(fixture: Fixture, target: Target) -> Fixture:
    """The fixture that the target would leave; CannotShow if it cannot be asked."""
    question = str(fixture.about.get("question", fixture.operator))
    ask = ask_of(question)
    if fixture.case is None or ask is None:
        raise CannotShow("no case that a target can be asked: leave out --target")
    if reason := target.unavailable():
        raise CannotShow(f"target {target.name}: not judged: {reason}")
    clauses = fixture.about.get("clauses", ())
    judge = Judge(target, [str(clause) for clause in clauses] if isinstance(clauses, list) else [])
    about = {name: value for name, value in fixture.about.items() if name not in APART}
    about |= {"target": target.name, "profile": target.profile.name, "nan": target.nan, "receipt": target.receipt()}
    try:
        ask(judge, fixture.case)
    except (Differs, Crashed) as error:
        return _failed(fixture, about, error)
    except (NotJudged, Unsupported) as error:
        raise CannotShow(f"target {target.name}: not judged: {error}") from error
    about |= {"verdict": "conforms", "message": f"target {target.name} ({target.describe()}) conforms"}
    return replace(fixture, about=about, expected={}, observed={})


def _failed(fixture: Fixture, about: dict[str, object], error: Differs | Crashed) -> Fixture:
    evidence = error.evidence if isinstance(error, Differs) else None
    about |= {"verdict": "differs" if isinstance(error, Differs) else "crashed", "message": str(error)}
    about["explained_by"] = list(getattr(error, "explained_by", ()))
    expected, observed = evidence.kept() if evidence else ({}, {})
    return replace(
        fixture, poison=evidence.poison if evidence else "", about=about, expected=expected, observed=observed
    )
