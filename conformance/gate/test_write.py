"""WRITE: which record each token becomes, byte for byte, for the profile that a target declares."""

from dataclasses import replace

import numpy as np
import pytest

from conformance.judge import Judge
from conformance.write_cases import FORMATS, NAMED, STRIDED, Named, cases_of, far_records
from conformance.write_generation import Slots, every_amax, every_pair, every_rope, mixed, realize
from conformance.writes import image_of, judge_write
from fixtures.write_cases import WriteArrangement, WriteCase

formats = pytest.mark.parametrize("kv_cache_dtype", FORMATS)


@pytest.mark.clause("WRITE-10", "WRITE-11", "WRITE-12", "WRITE-15")
def test_every_amax_gets_its_scale_byte(judge: Judge) -> None:
    judge_write(judge, every_amax())


@pytest.mark.clause("WRITE-12", "WRITE-13", "WRITE-15")
def test_every_number_gets_its_code_under_every_scale_byte(judge: Judge) -> None:
    judge_write(judge, every_pair(judge.target.profile))


@pytest.mark.clause("WRITE-14", "WRITE-15")
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
@pytest.mark.parametrize("tokens", [0, 1, 5])
def test_rows_after_the_last_token_are_nobodys(judge: Judge, tokens: int, kv_cache_dtype: str) -> None:
    judge_write(judge, realize(Slots(tokens, 4), 3, kv_cache_dtype, WriteArrangement(spare_tokens=4)))


@pytest.mark.clause("WRITE-8")
@formats
def test_no_tokens_are_no_error(judge: Judge, kv_cache_dtype: str) -> None:
    judge_write(judge, realize(Slots(0, 4), 4, kv_cache_dtype))


@pytest.mark.clause("WRITE-2")
def test_what_a_skipped_token_holds_changes_nothing(judge: Judge) -> None:
    case = realize(Slots(6, 4, skipped=3), 5)
    others = np.where((case.slot_mapping < 0)[:, None], np.uint16(0x7FC1), case.kv_c)
    judge_write(judge, replace(case, kv_c=others))


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


@pytest.mark.unsanitized
@pytest.mark.clause("WRITE-7")
def test_records_beyond_two_gib_are_reached(judge: Judge) -> None:
    for case in far_records():
        judge_write(judge, case)


@pytest.mark.clause("WRITE-15", "WRITE-16", "WRITE-19")
@pytest.mark.parametrize("kv_cache_dtype", ["nvfp4_ds_mla", "fp8_ds_mla", "auto"])
def test_the_scale_argument_is_not_used(judge: Judge, kv_cache_dtype: str) -> None:
    case = realize(Slots(5, 4), 7, kv_cache_dtype)
    for scale in (1.0, 0.5, 1000.0):
        judge_write(judge, replace(case, scale=scale))


@pytest.mark.clause("WRITE-20")
@pytest.mark.parametrize("kv_cache_dtype", ["fp8"])
def test_the_scale_argument_divides_latent_and_rope(judge: Judge, kv_cache_dtype: str) -> None:
    kv_c, k_pe = mixed(64, 8)
    for scale in (1.0, 2.0, 0.0123, 7.3):
        judge_write(judge, WriteCase(kv_c, k_pe, np.arange(64), 4, 16, kv_cache_dtype, scale, origin="scale"))
