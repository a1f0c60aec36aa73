"""The catalogue of faults: each is visible in some case of the gate, and is known again from what it writes."""

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings

from conformance import twins
from conformance.cases import (
    NAMED,
    STRIDED,
    cases_of,
    records_above_two_gib,
    records_above_two_gib_of_a_packed_cache,
    rows_of,
    strided_gather,
    table_above_two_gib,
    without_starts,
)
from conformance.diagnosis.gather_rows import explain
from conformance.extremes import far_tokens, many_packed_rows, requests_beyond_uint16
from conformance.faults.catalogue import ALL, FAULTS, Fault
from conformance.faults.steps import Call, Gather, in_memory
from conformance.generation import Geometry, realize
from conformance.generics import every_byte, over, uneven_requests
from conformance.judge import expected_rows
from conformance.observe import Observation, patterns
from conformance.records import magnitudes, uniform_fields
from conformance.spec import clauses
from conformance.strategies import gather_cases
from fixtures.cases import Arrangement, GatherCase
from fixtures.placement import POISONS
from reference.paging import Ints
from reference.records import FP8_DS_MLA, GENERIC, NVFP4_DS_MLA, RecordLayout, transposed
from reference.scalars import Bf16Bits

LAYOUTS = {
    "nvfp4_ds_mla": NVFP4_DS_MLA,
    "fp8_ds_mla": FP8_DS_MLA,
    "auto": GENERIC["auto", 576],
    "fp8": GENERIC["fp8", 576],
}
REALISTIC = Geometry(
    16, (40, 0, 0, 30, 20), (5, 3, 17, 9, 33), extra_columns=1, arrangement=Arrangement(spare_requests=1)
)


class Known(NamedTuple):
    """A case as it lies in memory, and what is right for it."""

    case: GatherCase
    call: Call
    expected: Bf16Bits


@cache
def corpus(layout: RecordLayout) -> list[Known]:
    """Cases of the gate, one of them with more rows than 16 bits count: the last one."""
    cases = [case for entry in NAMED for case in cases_of(entry)]
    cases += [strided_gather(how) for how in STRIDED.values()] + [realize(REALISTIC, 1)]
    if layout == NVFP4_DS_MLA:
        cases += without_starts(cases[:2])
        cases += [rows_of(magnitudes(), "", starts=(3, 0, 0)), rows_of(uniform_fields([0, 1, 0x2B, 0x7F, 0xFF]), "")]
        cases += [*records_above_two_gib(), records_above_two_gib_of_a_packed_cache(), table_above_two_gib()]
        cases += [far_tokens(7, (1 << 24) - 3, 16), far_tokens(1000, (1 << 31) - 6, 1020), requests_beyond_uint16()]
        cases += [
            realize(Geometry(4, (5, 2), (3, 1), arrangement=Arrangement(cache_shift=8)), 1),
            many_packed_rows()[0],
        ]
    cases = [over(case, layout, seed) for seed, case in enumerate(cases)]
    if layout == FP8_DS_MLA:
        cases += [twins.every_byte_under_chosen_scales()]
    if layout.name in ("auto", "fp8"):
        cases += [uneven_requests(layout, seed) for seed in range(4)]
        cases += [*every_byte(layout)][::3] if layout.name == "fp8" else []
    return [Known(case, in_memory(case, patterns(case)[0]), expected_rows(case)) for case in cases]


def layout_of(fault: Fault) -> RecordLayout:
    return LAYOUTS[min(fault.layouts, key=[*LAYOUTS].index, default="nvfp4_ds_mla")]


def written(gather: Gather, known: Known) -> Bf16Bits | None:
    try:
        return gather(known.call)
    except IndexError:  # it would read outside of all memory
        return None


def key_of(gather: Gather, known: Known) -> bytes | None:
    rows = written(gather, known)
    return None if rows is None else rows.tobytes()


def wrong_in(fault: Fault, most: int = 1000) -> list[tuple[GatherCase, Observation]]:
    """Cases that show it by its values, spread over all of them."""
    seen: list[tuple[GatherCase, Observation]] = []
    for known in corpus(layout_of(fault)):
        if known.case.num_rows > 20_000 and seen:
            continue
        rows = written(fault.gather, known)
        if rows is not None and (rows != known.expected).any():
            seen.append((known.case, Observation(patterns(known.case)[0], rows)))
    return seen[:: -(-len(seen) // most)] if seen else []


@settings(max_examples=100, deadline=None)
@given(gather_cases(with_starts=True) | gather_cases(with_starts=False))
def test_the_steps_without_a_fault_are_the_golden_model(case: GatherCase) -> None:
    for poison in POISONS:
        assert (Gather()(in_memory(case, poison)) == expected_rows(case)).all()


@pytest.mark.parametrize("fault", ALL, ids=lambda fault: fault.name)
def test_a_fault_is_visible_in_the_gates_cases_and_known_again(fault: Fault) -> None:
    seen = wrong_in(fault, most=2)
    assert seen, "no case of the gate shows it"
    for case, observation in seen:
        assert (fault,) in [explanation.faults for explanation in explain(case, observation)]


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_no_two_faults_write_the_same_in_all_of_the_gates_cases(layout: RecordLayout) -> None:
    faults = [fault for fault in ALL if layout_of(fault) == layout or layout.name in fault.layouts]
    cases = [known for known in corpus(layout) if known.case.num_rows < 20_000]
    alike: dict[int, list[str]] = {}
    for fault in faults:
        alike.setdefault(hash(tuple(key_of(fault.gather, known) for known in cases)), []).append(fault.name)
    assert [names for names in alike.values() if len(names) > 1] == []


def test_twelve_faults_chosen_at_random_are_named_from_what_they_write() -> None:
    chosen = np.random.default_rng(7).choice(len(ALL), 12, replace=False)
    for fault in (ALL[number] for number in chosen):
        seen = wrong_in(fault, most=8)
        told = [[each.name for each in explain(case, observation)] for case, observation in seen]
        names = set.intersection(*map(set, told))
        assert names == {fault.name}


def test_bits_that_no_fault_predicts_are_explained_by_none() -> None:
    case = realize(REALISTIC, 2)
    rows = expected_rows(case)
    rows[0, 0] ^= np.uint16(1)
    assert explain(case, Observation(POISONS[0], rows)) == []


def named(name: str) -> Fault:
    return next(fault for fault in ALL if fault.name == name)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("scales-unpermuted", "starts-ignored"),
        ("nibbles-swapped", "last-row-not-written"),
        ("start-of-request-0", "blocks-consecutive"),
        ("nan-is-7fc0", "first-owner"),
        ("token-in-16-bits", "rope-not-written"),
    ],
)
def test_two_faults_at_a_time_are_named_as_a_pair(first: str, second: str) -> None:
    case = far_tokens(16, 65_530, 40) if first == "token-in-16-bits" else realize(REALISTIC, 3)
    both = named(first).gather.with_steps_of(named(second).gather)
    told = explain(case, Observation(POISONS[0], both(in_memory(case, POISONS[0]))))
    assert f"{first} + {second}" in [each.name for each in told]
    assert all(len(each.faults) == 2 and each.exact for each in told)


def test_a_fault_that_explains_most_rows_is_named_with_its_share() -> None:
    case = realize(Geometry(16, (40, 60), (5, 33)), 4)
    rows = named("starts-ignored").gather(in_memory(case, POISONS[1]))
    rows[[7, 50, 99], 3] ^= np.uint16(1)
    (told,) = explain(case, Observation(POISONS[1], rows))
    assert (told.name, told.rows, told.of, told.exact) == ("starts-ignored", 97, 100, False)


def test_a_table_shifted_by_whole_blocks_and_clamped_is_a_start_rounded_down() -> None:
    def row_of_request(call: Call, request: Ints, first: Ints) -> Ints:
        return np.arange(call.num_rows) - call.starts[request]

    def shifted(call: Call, request: Ints, token: Ints) -> Ints:
        starts = call.at("seq_starts", request) if "seq_starts" in call.strips else 0 * request
        column = np.minimum(token // call.block_size + starts // call.block_size, call.table_columns - 1)
        return call.at("block_table", request * call.stride("block_table", 0) + column).astype(np.int64)

    design, rounded = Gather(token=row_of_request, block=shifted), named("start-rounded-down").gather
    for known in corpus(NVFP4_DS_MLA)[:-1]:
        assert key_of(design, known) == key_of(rounded, known)


@pytest.mark.clause("RECORD-4")
def test_the_inverse_of_the_permutation_of_scales_is_another_one() -> None:
    forward, inverse = (np.array(transposed(*shape)) for shape in ((8, 4), (4, 8)))
    assert (forward[inverse] == np.arange(32)).all() and (inverse[forward] == np.arange(32)).all()
    assert np.flatnonzero(forward == inverse).tolist() == [0, 31]


def test_every_fault_breaks_a_clause_of_the_specification() -> None:
    assert {fault.clause for fault in ALL} <= set(clauses())
    assert len({fault.name for fault in ALL}) == len(ALL)
    assert len({fault.sentence for fault in FAULTS}) == len(FAULTS)
