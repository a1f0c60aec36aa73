"""Find the features that a target gets wrong. Random tests leave them out, so that their own tests alone are red."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

from conformance.features import NAN, OF_GATHERS, Feature, features_of_writes, gather_of, write_of
from conformance.generics import over
from conformance.judge import Judge
from conformance.targets.base import Target
from conformance.verdict import Crashed, Differs
from conformance.write_generation import Slots
from conformance.writes import judge_write
from fixtures.cases import GatherCase
from fixtures.write_cases import WriteCase
from reference.records import RecordLayout


def broken_features_of_gathers(judge: Judge, layout: RecordLayout) -> frozenset[str]:
    """Return the features that the gather of some records lacks, and note them for the report."""
    features = [feature for feature in OF_GATHERS if layout.scales.count == 32 or feature.name != NAN]

    def conforms(case: GatherCase) -> bool:
        return _conforms(judge, lambda alone: alone(over(case, layout)))

    return _broken(judge, f"gather {layout.name} {layout.row}", features, gather_of, conforms)


def broken_features_of_writes(judge: Judge, form: str) -> frozenset[str]:
    """Return the features that the writer of a kv_cache_dtype lacks, and note them for the report."""

    def conforms(case: WriteCase) -> bool:
        return _conforms(judge, lambda alone: judge_write(alone, case))

    return _broken(judge, f"write {form}", features_of_writes(form), lambda: write_of(Slots(5, 4), form), conforms)


_known: WeakKeyDictionary[Target, dict[str, tuple[Feature, ...]]] = WeakKeyDictionary()
"""The features that each target of this process gets wrong, by operator."""


def _broken(
    judge: Judge,
    operator: str,
    features: Iterable[Feature],
    plain: Callable[[], Any],
    conforms: Callable[[Any], bool],
) -> frozenset[str]:
    """Return the features on which a target is wrong that is right on a plain case."""
    known = _known.setdefault(judge.target, {})
    if operator not in known:
        right = conforms(plain())
        known[operator] = tuple(each for each in features if right and not conforms(each.probe()))
    judge.left_out += [f"{each.name} ({each.clause})" for each in known[operator]]
    return frozenset(each.name for each in known[operator])


def _conforms(judge: Judge, ask: Callable[[Judge], None]) -> bool:
    """Return False if a target is wrong on a case that this test does not count."""
    try:
        ask(Judge(judge.target, before=judge.before))
    except (Differs, Crashed):
        return False
    return True
