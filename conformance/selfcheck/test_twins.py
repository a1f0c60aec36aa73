"""TWIN: the golden reader of fp8_ds_mla against torch's arithmetic, and wrong readers seen by the gate's own cases."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from conformance import twins
from conformance.cases import NAMED, cases_of
from conformance.diagnosis.engine import diagnose, in_full
from conformance.faults import tile_reading
from conformance.faults.defects import find_defect
from conformance.faults.gathers import FaultyGather
from conformance.generation import Geometry, realize
from conformance.judge import Judge
from conformance.targets.models import EVERY_GATHER, NumpyTarget
from conformance.verdict import Differs
from fixtures.cases import GatherCase
from reference.reading import read_records
from reference.records import FP8_DS_MLA

CASES = [twins.every_scale_and_rope, twins.every_byte_under_chosen_scales, twins.one_hot]
Rows = npt.NDArray[np.uint16]


def read_by_torch(records: npt.NDArray[np.uint8]) -> Rows:
    """The same in torch's own float8, bfloat16 and float32."""
    given = torch.from_numpy(records)
    numbers = given[:, :512].contiguous().view(torch.float8_e4m3fn).float().view(-1, 4, 128)
    scales = given[:, 512:528].contiguous().view(torch.float32)
    latent = (numbers * scales[..., None]).reshape(-1, 512)
    rows = latent.bfloat16().view(torch.int16)
    rows[latent.isnan()] = 0x7FFF
    rope = given[:, 528:].contiguous().view(torch.int16)
    return np.ascontiguousarray(torch.cat((rows, rope), 1).numpy()).view(np.uint16)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_reader_agrees_with_torch(case: Callable[[], GatherCase]) -> None:
    records = case().records.reshape(-1, FP8_DS_MLA.nbytes)
    assert np.array_equal(read_records(FP8_DS_MLA, records), read_by_torch(records))


def test_the_cases_hold_what_they_say() -> None:
    records = twins.every_scale_and_rope().records.reshape(-1, FP8_DS_MLA.nbytes)
    used = records[np.argsort(records[:, 0], kind="stable")]
    upper = twins.scales_of(used).view("<u4") >> 16
    assert all(len(np.unique(column)) == 65_536 for column in upper.T)
    rope = np.ascontiguousarray(used[:, 528:]).view("<u2")
    assert all(len(np.unique(column)) == 65_536 for column in rope.T)
    assert all(len(np.unique(column)) == 256 for column in used[:, :512].T)


def test_a_product_is_rounded_to_binary32_before_it_is_rounded_to_bf16() -> None:
    # 1.125 is 9 / 8, so that a product is 9 times the scale's 24 bits: 28 bits, of which bf16 keeps 8.
    significands = np.arange(15 << 20, (15 << 20) + (1 << 20))
    products = 9 * significands
    once, twice = rounded(products, 20), rounded(rounded(products, 4), 16)
    (apart,) = np.nonzero(once != twice)
    assert len(apart)
    scales = np.ldexp(significands[apart[:8]], -23).astype("<f4")[:, None].repeat(4, 1)
    records = twins.with_scales(np.full((len(scales), 656), 0x39, np.uint8), scales)
    read = (read_records(FP8_DS_MLA, records)[:, 0].astype(np.uint32) << 16).view(np.float32)
    assert np.array_equal(read, np.ldexp(twice[apart[:8]], -6))


def rounded(numbers: npt.NDArray[np.int64], bits: int) -> npt.NDArray[np.int64]:
    """Nearest multiples of 2^bits, over 2^bits, ties to even."""
    down, rest, half = numbers >> bits, numbers & ((1 << bits) - 1), 1 << (bits - 1)
    up: npt.NDArray[np.bool_] = (rest > half) | ((rest == half) & (down & 1 == 1))
    return down + up


def a_few_of_all_kinds() -> GatherCase:
    return twins.as_twin(realize(Geometry(16, (90, 60), (3, 70)), seed=1))


def wrong(name: str) -> FaultyGather:
    return FaultyGather(next(fault for fault in tile_reading.FAULTS if fault.name == name), EVERY_GATHER)


@pytest.mark.parametrize("name", [fault.name for fault in tile_reading.FAULTS])
def test_a_wrong_reader_is_seen_and_named(name: str) -> None:
    with pytest.raises(Differs, match="element") as caught:
        for case in (a_few_of_all_kinds, *CASES):
            Judge(wrong(name), ["TWIN-2"])(case())
    assert name in diagnose(caught.value).explained_by


def test_any_nan_is_allowed_where_one_is_computed_and_not_where_it_is_copied() -> None:
    for name, seen in (("nan-of-latent-negative", False), ("rope-nan-canonical", True)):
        target = wrong(name)
        target.nan = "any"
        judge = Judge(target, ["TWIN-3"])
        if not seen:
            judge(twins.every_scale_and_rope())
            continue
        with pytest.raises(Differs, match="RoPE"):
            judge(twins.every_scale_and_rope())


class RefusesNoRequests(NumpyTarget):
    def cp_gather_and_upconvert_fp8_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        if batch_size == 0 and len(dst):
            dst[:] = 0
        super().cp_gather_and_upconvert_fp8_kv_cache(
            src_cache, dst, block_table, workspace_starts, batch_size, seq_starts
        )


def test_rows_written_without_requests_are_seen() -> None:
    from conformance.gate.test_twin import test_no_requests_write_no_rows

    with pytest.raises(Differs, match="R = 0"):
        test_no_requests_write_no_rows(Judge(RefusesNoRequests(), ["TWIN-1"]), True)


def test_ignored_starts_are_seen_and_named() -> None:
    ignoring = find_defect("fp8_ds_mla-starts-ignored").target()
    with pytest.raises(Differs) as caught:
        Judge(ignoring, ["TWIN-1"])(twins.as_twin(realize(Geometry(16, (5, 9), (3, 6)), seed=1)))
    assert "seq_starts ignored" in in_full(caught.value)
    assert "RoPE" in str(caught.value) or "scale byte 512 (0x" in str(caught.value)


def test_every_named_input_has_a_twin() -> None:
    judge = Judge(NumpyTarget(), ["TWIN-1"])
    for named in NAMED:
        for case in cases_of(named):
            judge(twins.as_twin(case))
    assert judge.count.cases >= len(NAMED)
