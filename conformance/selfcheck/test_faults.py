"""The catalogue of faults: each is visible in some case of the gate, and is known again from what it writes."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings

from conformance.cases import NAMED, STRIDED, cases_of, records_above_two_gib, rows_of, strided_gather
from conformance.faults.catalogue import FAULTS, Fault
from conformance.faults.diagnosis import explain
from conformance.faults.steps import Gather, in_memory
from conformance.judge import expected_rows
from conformance.observe import Observation, patterns
from conformance.records import magnitudes
from conformance.spec import clauses
from conformance.strategies import gather_cases
from fixtures.cases import GatherCase
from fixtures.placement import POISONS


@cache
def corpus() -> list[GatherCase]:
    named = [case for entry in NAMED for case in cases_of(entry)]
    strided = [strided_gather(how) for how in STRIDED.values()]
    return [*named, *strided, rows_of(magnitudes(), "magnitudes", starts=(3, 0, 0)), *records_above_two_gib()]


def predicted(fault: Fault, case: GatherCase) -> bytes | None:
    try:
        return fault.gather(in_memory(case, patterns(case)[0])).tobytes()
    except IndexError:
        return None


def wrong_in(fault: Fault) -> list[tuple[GatherCase, Observation]]:
    seen = []
    for case in corpus():
        poison = patterns(case)[0]
        try:
            rows = fault.gather(in_memory(case, poison))
        except IndexError:  # it would read outside of all memory: seen, though not by its values
            continue
        if (rows != expected_rows(case)).any():
            seen.append((case, Observation(poison, rows)))
    return seen


@settings(max_examples=100, deadline=None)
@given(gather_cases(with_starts=True) | gather_cases(with_starts=False))
def test_the_steps_without_a_fault_are_the_golden_model(case: GatherCase) -> None:
    for poison in POISONS:
        assert (Gather()(in_memory(case, poison)) == expected_rows(case)).all()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_visible_in_the_gates_cases_and_known_again(fault: Fault) -> None:
    seen = wrong_in(fault)
    assert seen, "no case of the gate shows it"
    explanations = [explain(case, observation) for case, observation in seen[:12]]
    assert all(fault in explanation for explanation in explanations)


def test_no_two_faults_write_the_same_in_all_of_the_gates_cases() -> None:
    written = {fault.name: tuple(predicted(fault, case) for case in corpus()) for fault in FAULTS}
    assert len(set(written.values())) == len(FAULTS)


def test_bits_that_no_fault_predicts_are_explained_by_none() -> None:
    case = corpus()[0]
    rows = expected_rows(case)
    rows[0, 0] ^= np.uint16(1)
    assert explain(case, Observation(POISONS[0], rows)) == []


def test_every_fault_breaks_a_clause_of_the_specification() -> None:
    assert {fault.clause for fault in FAULTS} <= set(clauses())
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
