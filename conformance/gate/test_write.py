"""WRITE: which record each token becomes, byte for byte, for the profile that a target declares."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from conformance import write_extremes as extremes
from conformance.judge import Judge
from conformance.targets.base import WRITES
from conformance.write_cases import FORMATS, NAMED, STRIDED, Named, cases_of
from conformance.write_generation import Slots, every_amax, every_pair, every_rope, mixed, realize
from conformance.writes import compare, image_of, judge_write, must_write_anew, observe_write
from fixtures.placement import POISONS
from fixtures.write_cases import WriteArrangement, WriteCase

Extreme = Callable[[str], WriteCase | list[WriteCase]]

formats = pytest.mark.parametrize("kv_cache_dtype", FORMATS)


@pytest.mark.clause("WRITE-10", "WRITE-11", "WRITE-12", "WRITE-15")
def test_every_amax_gets_its_scale_byte(judge: Judge) -> None:
    judge_write(judge, every_amax())


@pytest.mark.clause("WRITE-12", "WRITE-13", "WRITE-15", "SCALAR-2")
def test_every_number_gets_its_code_under_every_scale_byte(judge: Judge) -> None:
    judge_write(judge, every_pair(judge.target.profile))


@pytest.mark.clause("WRITE-14", "WRITE-15", "SCALAR-5", "SCALAR-6")
def test_every_rope_element_gets_its_byte(judge: Judge) -> None:
    judge_write(judge, every_rope())


@pytest.mark.clause("WRITE-16", "WRITE-17", "WRITE-18")
@pytest.mark.parametrize("kv_cache_dtype", ["fp8_ds_mla"])
def test_every_amax_gets_its_tile_scale(judge: Judge, kv_cache_dtype: str) -> None:
    judge_write(judge, every_amax(kv_cache_dtype))


@pytest.mark.clause("WRITE-1", "WRITE-2", "WRITE-4", "WRITE-10", "WRITE-12", "WRITE-13", "WRITE-14", "WRITE-17")
@pytest.mark.parametrize(
    ("named", "kv_cache_dtype"),
    [(named, form) for named in NAMED for form in FORMATS if any(c.kv_cache_dtype == form for c in cases_of(named))],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_inputs_that_broke_real_writers(judge: Judge, named: Named, kv_cache_dtype: str) -> None:
    for case in cases_of(named):
        if case.kv_cache_dtype == kv_cache_dtype:
            judge_write(judge, case)


@pytest.mark.clause("WRITE-1", "WRITE-4", "WRITE-6")
@formats
@pytest.mark.parametrize("how", STRIDED.values(), ids=STRIDED)
def test_strided_arrays_are_read_and_written_in_place(judge: Judge, how: WriteArrangement, kv_cache_dtype: str) -> None:
    judge_write(judge, realize(Slots(11, 4, skipped=2), 2, kv_cache_dtype, how))


@pytest.mark.clause("WRITE-3")
@formats
@pytest.mark.parametrize("tokens", [1, 5])
def test_rows_after_the_last_token_are_nobodys(judge: Judge, tokens: int, kv_cache_dtype: str) -> None:
    judge_write(judge, realize(Slots(tokens, 4), 3, kv_cache_dtype, WriteArrangement(spare_tokens=4)))


@pytest.mark.clause("WRITE-8")
@formats
def test_no_tokens_are_no_error(judge: Judge, kv_cache_dtype: str) -> None:
    judge_write(judge, realize(Slots(0, 4), 4, kv_cache_dtype))
    judge_write(judge, realize(Slots(0, 4), 3, kv_cache_dtype, WriteArrangement(spare_tokens=4)))
    judge_write(judge, extremes.no_block_for_no_token(kv_cache_dtype))


@pytest.mark.clause("WRITE-5")
@formats
def test_a_record_is_the_same_alone_and_among_others(judge: Judge, kv_cache_dtype: str) -> None:
    many = realize(Slots(9, 4), 6, kv_cache_dtype)
    image = image_of(judge, many).reshape(-1, many.format.width)
    for token in (0, 4, 8):
        one = replace(many, kv_c=many.kv_c[[token]], k_pe=many.k_pe[[token]], slot_mapping=many.slot_mapping[[token]])
        slot = int(many.slot_mapping[token])
        alone = image_of(judge, one).reshape(-1, many.format.width)[slot]
        judge.same(alone.astype(np.uint16), image[slot].astype(np.uint16), "a token alone, and among others")


@pytest.mark.clause("WRITE-1", "WRITE-4")
@formats
@pytest.mark.parametrize("tokens", [1, 2, 3, 31, 32, 33, 127, 129, 1025])
def test_every_token_is_written_and_nothing_else(judge: Judge, tokens: int, kv_cache_dtype: str) -> None:
    judge_write(judge, realize(Slots(tokens, 16, skipped=tokens // 3), tokens, kv_cache_dtype))


@pytest.mark.roomy
@pytest.mark.long
@pytest.mark.unsanitized
@pytest.mark.clause("WRITE-6", "WRITE-7")
@formats
def test_records_and_rows_beyond_two_gib_are_reached(judge: Judge, kv_cache_dtype: str) -> None:
    for case in extremes.far_of(kv_cache_dtype):
        judge_write(judge, case)


@pytest.mark.roomy
@pytest.mark.long
@pytest.mark.unsanitized
@pytest.mark.clause("WRITE-7")
@pytest.mark.parametrize("kv_cache_dtype", ["nvfp4_ds_mla"])
def test_slots_of_more_than_24_bits_are_reached(judge: Judge, kv_cache_dtype: str) -> None:
    judge_write(judge, extremes.slot_beyond_float32())


@pytest.mark.clause("WRITE-1", "WRITE-2", "WRITE-3", "WRITE-4", "WRITE-6", "WRITE-7", "WRITE-8")
@formats
@pytest.mark.parametrize("named", extremes.EXTREMES, ids=lambda named: named.__name__)
def test_shapes_that_a_shortcut_does_not_expect(judge: Judge, named: Extreme, kv_cache_dtype: str) -> None:
    cases = named(kv_cache_dtype)
    for case in cases if isinstance(cases, list) else [cases]:
        judge_write(judge, case)


@pytest.mark.clause("WRITE-4")
@formats
@pytest.mark.parametrize("held", [0x00, 0xFF, 0x7F])
def test_what_a_cache_held_before_does_not_matter(judge: Judge, held: int, kv_cache_dtype: str) -> None:
    case = realize(Slots(40, 16, skipped=3), 24, kv_cache_dtype)
    poison = replace(POISONS[0], cache=held)
    judge.need(WRITES[kv_cache_dtype])
    compare(judge, case, observe_write(judge, case, poison))
    judge.count.add(case.tokens, case.tokens * case.format.width)


@pytest.mark.clause("WRITE-22")
@formats
def test_a_second_write_on_the_same_arrays_reads_them_anew(judge: Judge, kv_cache_dtype: str) -> None:
    must_write_anew(judge, kv_cache_dtype)


@pytest.mark.clause("WRITE-15", "WRITE-16", "WRITE-19")
@pytest.mark.parametrize("kv_cache_dtype", ["nvfp4_ds_mla", "fp8_ds_mla", "auto"])
def test_the_scale_argument_is_not_used(judge: Judge, kv_cache_dtype: str) -> None:
    for case in extremes.scales_that_are_not_used(kv_cache_dtype):
        judge_write(judge, case)


@pytest.mark.clause("WRITE-17", "WRITE-18")
@pytest.mark.parametrize("kv_cache_dtype", ["fp8_ds_mla"])
def test_tiles_of_every_mantissa_are_divided_once(judge: Judge, kv_cache_dtype: str) -> None:
    judge_write(judge, extremes.tiles_of_every_mantissa())


@pytest.mark.clause("WRITE-10", "WRITE-13", "SCALAR-3")
def test_one_number_among_nan_and_one_nan_among_numbers(judge: Judge) -> None:
    judge_write(judge, extremes.blocks_of_nan_and_one_number())


@pytest.mark.clause("WRITE-20")
@pytest.mark.parametrize("kv_cache_dtype", ["fp8"])
def test_every_number_is_divided_by_scales_of_any_magnitude(judge: Judge, kv_cache_dtype: str) -> None:
    for case in extremes.fp8_scales():
        judge_write(judge, case)


@pytest.mark.clause("WRITE-20")
@pytest.mark.parametrize("kv_cache_dtype", ["fp8"])
def test_the_scale_argument_divides_latent_and_rope(judge: Judge, kv_cache_dtype: str) -> None:
    kv_c, k_pe = mixed(64, 8)
    for scale in (1.0, 2.0, 0.0123, 7.3):
        judge_write(judge, WriteCase(kv_c, k_pe, np.arange(64), 4, 16, kv_cache_dtype, scale, origin="scale"))
