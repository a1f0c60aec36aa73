"""WRITE-9 and WRITE-21: malformed calls of a writer, random ones, and what readers make of what was written."""

import pytest
from hypothesis import strategies as st

from conformance.broken_features import broken_features_of_writes
from conformance.calls import Malformed
from conformance.drawing import for_each
from conformance.judge import Judge
from conformance.profiles import Profile
from conformance.strategies import write_cases
from conformance.targets.base import WRITE_NVFP4
from conformance.triangle import must_be_read_as_quantized
from conformance.write_calls import MALFORMED, UNKNOWN_DTYPES, must_refuse, must_refuse_dtype
from conformance.write_cases import FORMATS
from conformance.write_generation import Slots, every_pair, realize
from conformance.writes import judge_write
from fixtures.write_cases import WriteCase

ALWAYS = ("WRITE-1", "WRITE-2", "WRITE-3", "WRITE-4", "WRITE-5", "WRITE-6")
OF_THE_FORMAT = {
    "nvfp4_ds_mla": ("WRITE-10", "WRITE-11", "WRITE-12", "WRITE-13", "WRITE-14", "WRITE-15"),
    "fp8_ds_mla": ("WRITE-16", "WRITE-17", "WRITE-18"),
    "auto": ("WRITE-19",),
    "fp8": ("WRITE-20",),
}
SHARE = 4  # of the random cases of a profile, for each format
WITHOUT_TOKENS = 40  # more, for each format


@pytest.mark.clause("WRITE-9")
@pytest.mark.parametrize("kv_cache_dtype", FORMATS)
@pytest.mark.parametrize("malformed", MALFORMED, ids=lambda m: f"{m.argument} {m.found}")
def test_a_malformed_write_is_refused_and_writes_nothing(
    judge: Judge, malformed: Malformed, kv_cache_dtype: str
) -> None:
    must_refuse(judge, malformed, kv_cache_dtype)


@pytest.mark.clause("WRITE-9")
@pytest.mark.parametrize("name", UNKNOWN_DTYPES)
def test_an_unknown_kv_cache_dtype_is_refused(judge: Judge, name: str | None) -> None:
    must_refuse_dtype(judge, name)


@pytest.mark.clause(*ALWAYS)
@pytest.mark.parametrize(
    "kv_cache_dtype", [pytest.param(form, marks=pytest.mark.clause(*OF_THE_FORMAT[form])) for form in FORMATS]
)
def test_random_writes(judge: Judge, profile: Profile, seed: int, kv_cache_dtype: str) -> None:
    def check(case: WriteCase) -> None:
        judge_write(judge, case)

    left_out = broken_features_of_writes(judge, kv_cache_dtype)
    cases: st.SearchStrategy[WriteCase] = write_cases(kv_cache_dtype, "some", left_out)
    for_each(cases, profile.random_cases // SHARE, seed, check)


@pytest.mark.clause("WRITE-8")
@pytest.mark.parametrize("kv_cache_dtype", FORMATS)
def test_random_writes_of_no_token(judge: Judge, profile: Profile, seed: int, kv_cache_dtype: str) -> None:
    def check(case: WriteCase) -> None:
        judge_write(judge, case)

    cases: st.SearchStrategy[WriteCase] = write_cases(kv_cache_dtype, "none")
    for_each(cases, profile.random_cases // WITHOUT_TOKENS, seed, check)


@pytest.mark.clause("WRITE-21")
def test_every_reader_reads_what_was_quantized(judge: Judge) -> None:
    judge.need(WRITE_NVFP4)
    must_be_read_as_quantized(judge, realize(Slots(300, 16, skipped=20), 9))


@pytest.mark.heavy
@pytest.mark.clause("WRITE-21")
def test_every_reader_reads_every_pair_of_a_number_and_a_scale(judge: Judge) -> None:
    judge.need(WRITE_NVFP4)
    must_be_read_as_quantized(judge, every_pair(judge.target.profile))
