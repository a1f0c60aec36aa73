"""What a target does with a fixture's case today, in the place of what was stored."""

from __future__ import annotations

from dataclasses import replace

from conformance.diagnosis.engine import diagnose, in_full
from conformance.replaying.asking import failure, with_evidence
from conformance.targets.base import Target
from conformance.verdict import Differs
from fixtures.store import Fixture

APART = ("explained_by", "receipt", "versions", "time", "shrunk_from", "alone")
"""What is said of a run that was not this one."""


def asked_again(fixture: Fixture, target: Target) -> Fixture:
    """The fixture that the target would leave; CannotAsk if it cannot be asked."""
    error = failure(fixture, target)
    about = {name: value for name, value in fixture.about.items() if name not in APART}
    about |= {"target": target.name, "profile": target.profile.name, "nan": target.nan, "receipt": target.receipt()}
    if error is None:
        about |= {"verdict": "conforms", "message": f"target {target.name} ({target.describe()}) conforms"}
    else:
        about |= {"verdict": "differs" if isinstance(error, Differs) else "crashed", "message": in_full(error)}
        about["explained_by"] = list(diagnose(error).explained_by)
    return with_evidence(replace(fixture, about=about), error)
