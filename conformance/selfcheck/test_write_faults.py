"""The catalogue of writers' faults: right without one, no two alike, and known again from what they write alone."""

import re
from dataclasses import replace
from functools import cache
from math import inf
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.diagnosis import budget
from conformance.diagnosis.budget import NotLookedInto
from conformance.diagnosis.engine import diagnose, in_full
from conformance.diagnosis.explanation import Explanation
from conformance.diagnosis.write import explain_write
from conformance.faults.defect import Defect
from conformance.faults.defects import find_defect
from conformance.faults.write_rules import Rules, bound_by, normalised
from conformance.faults.write_steps import WriteCall, Writer
from conformance.faults.write_targets import FaultyWriter, wrong
from conformance.faults.writers import DEFECTS
from conformance.faults.wrong_nvfp4 import to_bf16
from conformance.judge import Judge
from conformance.observe import Observation
from conformance.spec import clauses
from conformance.strategies import write_cases
from conformance.targets.base import WRITE_FP8, WRITES
from conformance.verdict import Crashed, Differs
from conformance.write_cases import FORMATS, NAMED, STRIDED, a_skipped_token_and_the_last_slot, cases_of
from conformance.write_extremes import (
    blocks_of_nan_and_one_number,
    fp8_scales,
    interleaved_records,
    large_blocks,
    tiles_of_every_mantissa,
)
from conformance.write_generation import FINITE, Slots, every_amax, every_pair, every_rope, realize
from conformance.writes import WriteSighting, judge_write, must_write_anew, observe_write
from fixtures.placement import POISONS
from fixtures.write_cases import WriteCase
from reference import quantize
from reference.profiles import DEFAULT, PROFILES, Profile
from reference.scalars import f32_from_bf16
from reference.writing import records_of

OF_BYTES = [fault for fault in DEFECTS if fault.clause not in ("WRITE-8", "WRITE-9", "WRITE-21")]
"""Those that write something wrong; the others are about calls, or about a reader too."""

WIDE = ("write-tokens-in-16-bits", "write-slots-in-binary32", "write-offset-in-32-bits", "write-rows-in-32-bits")
"""Those that take more than a small cache, or a second call; the kill matrix has where they are seen."""

SMALL = [fault for fault in OF_BYTES if fault.name not in WIDE and fault.clause != "WRITE-22"]
CHOSEN = Random(7).sample(SMALL, 6)

EVERYTHING = frozenset(WRITES.values())


@cache
def corpus(claims: frozenset[str]) -> list[WriteCase]:
    cases = [tiles_of_every_mantissa()] if claims == {WRITE_FP8} else []
    for form in (form for form, claim in WRITES.items() if claim in claims):
        cases += [case for entry in NAMED for case in cases_of(entry) if case.kv_cache_dtype == form]
        cases += [realize(Slots(11, 4, skipped=2), 2, form, how) for how in STRIDED.values()]
        cases += [realize(Slots(9, 4, skipped=1), seed, form) for seed in (5, 6, 7)]
        cases += [*large_blocks(form)[:2], interleaved_records(form), *scales_of_any_magnitude(form)]
    nvfp4 = [blocks_of_nan_and_one_number(), every_amax()] if "write.nvfp4" in claims else []
    return cases + nvfp4


def scales_of_any_magnitude(form: str) -> list[WriteCase]:
    return fp8_scales() if form == "fp8" else []


def written(fault: Defect, case: WriteCase) -> bytes | None:
    try:
        seen = observe_write(Judge(fault.target()), case, POISONS[0])
    except Crashed:  # it would read outside of all memory
        return None
    return seen.dst.tobytes() + repr((seen.strays, seen.changed)).encode()


def differences(fault: Defect, most: int) -> list[Differs]:
    target, found = fault.target(), list[Differs]()
    for case in corpus(target.capabilities):
        try:
            judge_write(Judge(target), case)
        except Differs as error:
            found.append(error)
        except Crashed:
            continue
        if len(found) == most:
            break
    return found


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(FORMATS).flatmap(write_cases), st.sampled_from(list(PROFILES.values())))
def test_the_steps_and_the_rules_without_a_fault_are_the_golden_model(case: WriteCase, profile: Profile) -> None:
    for writer in (Writer(), Writer(records=Rules())):
        judge_write(Judge(FaultyWriter(writer, EVERYTHING, profile)), case)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_the_rules_without_a_fault_are_the_golden_model_on_every_amax_pair_and_rope_element(profile: Profile) -> None:
    for case in (every_pair(profile), every_rope(), tiles_of_every_mantissa()):
        scale = np.array([case.scale], np.float32)
        call = WriteCall({"scale": scale}, case.kv_cache_dtype, profile)
        expected = records_of(case.kv_c, case.k_pe, case.kv_cache_dtype, scale, profile)
        assert np.array_equal(Rules()(call, case.kv_c, case.k_pe), expected)


def test_no_two_faults_write_the_same_in_all_of_the_gates_small_cases() -> None:
    images: dict[object, str] = {}
    for fault in SMALL:
        target = fault.target()
        image = hash(tuple(written(fault, case) for case in corpus(target.capabilities)))
        key = (target.capabilities, target.profile, image)
        assert images.setdefault(key, fault.name) == fault.name
    for claims in {fault.target().capabilities for fault in SMALL}:
        right = wrong("nothing", "", "", claims=claims)
        image = hash(tuple(written(right, case) for case in corpus(claims)))
        assert (claims, DEFAULT, image) not in images


@pytest.mark.parametrize("fault", CHOSEN, ids=lambda fault: fault.name)
def test_six_faults_chosen_at_random_are_named_from_their_output_alone(fault: Defect) -> None:
    named = [set(diagnose(error).explained_by) for error in differences(fault, 6)]
    assert named and set.intersection(*named) == {fault.name}


def test_every_fault_is_among_those_that_explain_the_first_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget.SEARCHES, "most", inf)  # so that nothing depends on what else a machine does
    unnamed = [fault.name for fault in SMALL if fault.name not in diagnose(differences(fault, 1)[0]).explained_by]
    assert unnamed == []


@pytest.mark.parametrize("name", ["slots", "scale", "records"])
def test_what_a_writer_remembers_is_named_from_its_third_call(name: str) -> None:
    target = find_defect(f"write-remembers-{name}").target()
    with pytest.raises(Differs) as caught:
        must_write_anew(Judge(target), "fp8" if name == "scale" else "nvfp4_ds_mla")
    assert diagnose(caught.value).explained_by == (f"write-remembers-{name}",)


def test_a_fault_is_named_whatever_profile_is_declared() -> None:
    target = find_defect("write-minus-one-wraps").target()
    target.profile = PROFILES["flashmla"]
    with pytest.raises(Differs) as caught:
        judge_write(Judge(target), a_skipped_token_and_the_last_slot()[0])
    assert re.search(r"explained exactly by: .*\(fault write-minus-one-wraps\)", in_full(caught.value))


def off_by_one_bit(case: WriteCase) -> Observation:
    image = case.written(POISONS[0], DEFAULT)
    image.reshape(-1, case.format.width)[case.slot_mapping.max(), 7] ^= 1
    return Observation(POISONS[0], image)


def test_bytes_that_no_fault_writes_are_explained_by_none() -> None:
    case = realize(Slots(9, 4), 5)
    assert explain_write(WriteSighting((case,), off_by_one_bit(case), DEFAULT)) == []


def test_a_write_beside_the_cache_is_not_taken_for_a_fault_that_makes_none() -> None:
    case, fault = realize(Slots(9, 4), 5), find_defect("write-nibbles-swapped")
    seen = observe_write(Judge(fault.target()), case, POISONS[0])
    assert explain_write(WriteSighting((case,), seen, DEFAULT)) == [Explanation((fault,))]
    assert explain_write(WriteSighting((case,), replace(seen, strays={"kv_cache": [-1]}), DEFAULT)) == []


def test_a_difference_is_not_looked_into_for_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    case, fault = realize(Slots(9, 4), 5), find_defect("write-nibbles-swapped")
    seen = observe_write(Judge(fault.target()), case, POISONS[0])
    monkeypatch.setattr(budget, "SECONDS", -1.0)
    with pytest.raises(NotLookedInto, match="of the 0 that -1 seconds sufficed for"):
        explain_write(WriteSighting((case,), seen, DEFAULT))


def test_a_sixth_of_bf16_and_one_of_four_digits_give_the_same_scale_bytes() -> None:
    largest = f32_from_bf16(FINITE)
    factors = (np.maximum(largest * np.float32(sixth), quantize.LEAST_SCALE) for sixth in (0.1669921875, 0.1667))
    of_bf16, of_four_digits = (quantize.scale_bytes(each, "nearest") for each in factors)
    assert np.array_equal(of_bf16, of_four_digits)


def test_rounding_the_product_to_bf16_is_division() -> None:
    case = every_pair(DEFAULT)
    call = WriteCall({"scale": np.ones(1, np.float32)}, case.kv_cache_dtype, DEFAULT)
    rounded = Rules(normalised=lambda call, x, sf, scale: to_bf16(normalised(call, x, sf, scale)))
    rows = case.kv_c, case.k_pe
    with np.errstate(over="ignore"):
        assert np.array_equal(rounded(call, *rows), bound_by(normalisation="division")(call, *rows))


def test_every_clause_on_writing_and_on_encoding_is_broken_by_a_fault() -> None:
    encoding = {"SCALAR-2", "SCALAR-3", "SCALAR-5", "SCALAR-6"}
    assert {fault.clause for fault in DEFECTS} == encoding | {each for each in clauses() if each.startswith("WRITE-")}
    assert len({fault.name for fault in DEFECTS}) == len({fault.sentence for fault in DEFECTS}) == len(DEFECTS)
