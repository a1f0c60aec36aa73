"""Features of random cases that have tests of their own: random tests leave out those that a target gets wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from conformance.cases import STRIDED
from conformance.generation import Geometry, realize, without_nan
from conformance.generics import over
from conformance.judge import Judge
from conformance.targets.base import Target
from conformance.verdict import Crashed, Differs
from conformance.write_generation import Slots
from conformance.write_generation import realize as realize_write
from conformance.writes import judge_write
from fixtures.cases import Arrangement, GatherCase
from fixtures.write_cases import WriteArrangement, WriteCase
from reference.records import RecordLayout

REQUESTS_WITHOUT_ROWS = "requests without rows"
OTHER_T = "T other than the sum of the lengths"
STRIDES = "strides"
SPARE_ENTRIES = "spare entries"
NAN = "records that read as NaN"
SKIPPED = "skipped tokens"
SPARE_TOKENS = "spare tokens"


@dataclass(frozen=True)
class Feature:
    """A feature, the clause whose own tests judge it, and the smallest case that has it and nothing else."""

    name: str
    clause: str
    probe: Callable[[], Any]


def _gather(seed: int = 0, **more: Any) -> GatherCase:
    """Return a small gather of numbers in contiguous arrays, without starts, with changed fields of its geometry."""
    return without_nan(realize(Geometry(**{"block_size": 4, "lengths": (5, 3), **more}), seed))


def _write(slots: Slots, form: str, **more: Any) -> WriteCase:
    return realize_write(slots, 1, form, WriteArrangement(**more))


OF_GATHERS = (
    Feature(REQUESTS_WITHOUT_ROWS, "GATHER-1", lambda: _gather(lengths=(0, 5, 0, 3, 0))),
    Feature(OTHER_T, "GATHER-1", lambda: _gather(extra_rows=3)),
    Feature(STRIDES, "GATHER-8", lambda: _gather(arrangement=replace(STRIDED["everything apart"], spare_requests=0))),
    Feature(SPARE_ENTRIES, "GATHER-4", lambda: _gather(arrangement=Arrangement(spare_requests=3))),
    Feature(NAN, "READ-6", lambda: _nan(_gather())),
)


def features_of_writes(form: str) -> tuple[Feature, ...]:
    """Return the features of writes with a kv_cache_dtype."""
    return (
        Feature(SKIPPED, "WRITE-2", lambda: _write(Slots(5, 4, skipped=2), form)),
        Feature(SPARE_TOKENS, "WRITE-3", lambda: _write(Slots(5, 4), form, spare_tokens=3)),
        Feature(
            STRIDES,
            "WRITE-6",
            lambda: _write(
                Slots(5, 4),
                form,
                kv_c_row_slack=2,
                k_pe_row_slack=6,
                cache_block_slack=16,
                cache_record_slack=16,
                cache_shift=240,
                input_shift=4,
            ),
        ),
    )


def broken_features_of_gathers(judge: Judge, layout: RecordLayout) -> frozenset[str]:
    """Return the features that the gather of some records lacks, and note them for the report."""
    features = [feature for feature in OF_GATHERS if layout.scales.count == 32 or feature.name != NAN]

    def conforms(case: GatherCase) -> bool:
        return _conforms(judge, lambda alone: alone(over(case, layout)))

    return _broken(judge, f"gather {layout.name} {layout.row}", features, _gather, conforms)


def broken_features_of_writes(judge: Judge, form: str) -> frozenset[str]:
    """Return the features that the writer of a kv_cache_dtype lacks, and note them for the report."""

    def conforms(case: WriteCase) -> bool:
        return _conforms(judge, lambda alone: judge_write(alone, case))

    return _broken(judge, f"write {form}", features_of_writes(form), lambda: _write(Slots(5, 4), form), conforms)


_known: WeakKeyDictionary[Target, dict[str, tuple[Feature, ...]]] = WeakKeyDictionary()
"""What each target of this process lacks, by operator."""


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


def _nan(case: GatherCase) -> GatherCase:
    records, layout = case.records.copy(), case.layout
    records[..., layout.rope.offset : layout.scales.end : 2] = 0x7F
    return replace(case, records=records)
