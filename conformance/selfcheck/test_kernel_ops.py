"""The operator of kernels/ as a caller sees it: what it refuses, what it accepts, what it writes."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from conformance.selfcheck.by_hand import UNTOUCHED, record, row, well_formed
from kernels import sources
from kernels.catalog import KERNELS
from kernels.ops import Operators, cp_gather_and_upconvert_nvfp4_kv_cache


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def overlapping_rows(array: np.ndarray) -> np.ndarray:
    return np.lib.stride_tricks.as_strided(array, strides=(1148, 2))


def misaligned(array: np.ndarray) -> np.ndarray:
    return np.zeros(array.size + 1, array.dtype)[1:].reshape(array.shape)


MALFORMED: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("src_cache", "dtype", lambda a: a.view(np.int8)),
    ("src_cache", "dimensions", lambda a: a[0]),
    ("src_cache", "351", lambda a: a[:, :, :351]),
    ("src_cache", "innermost", lambda a: np.zeros((3, 4, 704), np.uint8)[:, :, ::2]),
    ("src_cache", "negative", lambda a: a[::-1]),
    ("src_cache", "block_size", lambda a: a[:, :0]),
    ("src_cache", "0 blocks", lambda a: a[:0]),
    ("src_cache", "list", lambda a: a.tolist()),
    ("src_cache", "device meta", lambda a: torch.zeros(a.shape, dtype=torch.uint8, device="meta")),
    ("dst", "float16", lambda a: a.view(np.float16)),
    ("dst", "dimensions", lambda a: a[None]),
    ("dst", "575", lambda a: a[:, :575]),
    ("dst", "innermost", lambda a: np.asfortranarray(a)),
    ("dst", "negative", lambda a: a[::-1]),
    ("dst", "read-only", read_only),
    ("dst", "overlap", overlapping_rows),
    ("dst", "address", misaligned),
    ("dst", "strides", lambda a: np.zeros((5, 577), np.uint16)[:, :576]),
    ("dst", "NoneType", lambda a: None),
    ("dst", "device meta", lambda a: torch.zeros(a.shape, dtype=torch.uint16, device="meta")),
    ("block_table", "int64", lambda a: a.astype(np.int64)),
    ("block_table", ">i4", lambda a: a.astype(">i4")),
    ("block_table", "dimensions", lambda a: a[0]),
    ("block_table", "innermost", lambda a: np.asfortranarray(a)),
    ("block_table", "0 columns", lambda a: a[:, :0]),
    ("workspace_starts", "int64", lambda a: a.astype(np.int64)),
    ("workspace_starts", "dimensions", lambda a: a[None]),
    ("workspace_starts", "innermost", lambda a: np.zeros(4, np.int32)[::2]),
    ("seq_starts", "uint32", lambda a: a.astype(np.uint32)),
    ("seq_starts", "dimensions", lambda a: a[None]),
    ("seq_starts", "negative", lambda a: a[::-1]),
    ("batch_size", "at least 0", lambda r: -1),
    ("batch_size", "at most 2", lambda r: 3),
    ("batch_size", "bool", lambda r: True),
    ("batch_size", "float", lambda r: 2.0),
]


@pytest.mark.parametrize(("argument", "found", "change"), MALFORMED, ids=[f"{a}-{f}" for a, f, _ in MALFORMED])
def test_a_malformed_call_is_refused_by_the_name_of_its_argument_and_writes_nothing(
    argument: str, found: str, change: Callable[[Any], Any]
) -> None:
    call = well_formed()
    dst = call["dst"]
    call[argument] = change(call[argument])
    with pytest.raises(ValueError, match=f"^{argument}: found .*{found}|^{argument}: .*expected {found}"):
        cp_gather_and_upconvert_nvfp4_kv_cache(**call)
    assert (dst == UNTOUCHED).all()


@pytest.mark.parametrize("argument", ["block_table", "workspace_starts", "seq_starts"])
def test_a_batch_larger_than_an_array_is_refused_by_both_names(argument: str) -> None:
    call = well_formed()
    call[argument] = call[argument][:1]
    with pytest.raises(ValueError, match=f"^batch_size: found 2, expected at most 1, .*{argument}"):
        cp_gather_and_upconvert_nvfp4_kv_cache(**call)


@pytest.mark.parametrize(("rows", "requests"), [(0, 2), (5, 0), (0, 0)])
def test_a_call_without_rows_or_requests_returns_at_once_also_without_a_compiler(
    rows: int, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/no/such/compiler")
    operators, call = Operators(), well_formed()
    dst = call["dst"]
    operators.cp_gather_and_upconvert_nvfp4_kv_cache(**{**call, "dst": dst[:rows], "batch_size": requests})
    assert (dst == UNTOUCHED).all()
    assert operators.receipt()["launches"] == 0


def test_rows_come_from_the_records_that_the_table_names() -> None:
    call = well_formed()
    call["src_cache"][2, 1] = record(0x2C, 0x3C, 0xB8)  # request 0, token 1: codes -2 and 1, scale 1.5, RoPE -1
    call["src_cache"][1, 2] = record(0xF7, 0xC0, 0x7E)  # request 1, token 2: codes 6 and -6, scale -2, RoPE 448
    cp_gather_and_upconvert_nvfp4_kv_cache(**call)
    nothing = row(0.0, 0.0, 0.0)
    assert np.array_equal(call["dst"], [nothing, row(-3.0, 1.5, -1.0), nothing, nothing, row(-12.0, 12.0, 448.0)])


def test_scale_byte_329_scales_latent_block_5() -> None:
    call = well_formed()
    call["src_cache"][:] = record(0x22, 0x38, 0x00)  # code 1 at scale 1
    call["src_cache"][2, 0, 329] = 0x40  # 2
    cp_gather_and_upconvert_nvfp4_kv_cache(**call)
    expected = row(1.0, 1.0, 0.0)
    expected[80:96] = 0x4000
    assert np.array_equal(call["dst"][0], expected)


def test_a_nan_scale_gives_7fff_and_a_negative_zero_keeps_its_sign() -> None:
    call = well_formed()
    call["src_cache"][2, 0] = record(0x80, 0xFF, 0x80)
    call["src_cache"][2, 1] = record(0x80, 0x38, 0x7F)
    cp_gather_and_upconvert_nvfp4_kv_cache(**call)
    assert [hex(call["dst"][0, i]) for i in (0, 1, 575)] == ["0x7fff", "0x7fff", "0x8000"]
    assert [hex(call["dst"][1, i]) for i in (0, 1, 575)] == ["0x0", "0x8000", "0x7fff"]


def test_rows_and_pages_of_wider_arrays_are_gathered_in_place() -> None:
    plain, wide = well_formed(), well_formed()
    plain["src_cache"][:] = np.random.default_rng(0).integers(0, 256, plain["src_cache"].shape, np.uint8)
    wide["src_cache"] = np.pad(plain["src_cache"], ((0, 0), (0, 2), (0, 8)))[:, :4, :352]
    wide["block_table"] = np.pad(plain["block_table"], ((0, 0), (0, 3)), constant_values=-1)[:, :2]
    workspace = np.full((7, 600), UNTOUCHED, np.uint16)
    wide["dst"] = workspace[1:6, 8:584]
    cp_gather_and_upconvert_nvfp4_kv_cache(**plain)
    cp_gather_and_upconvert_nvfp4_kv_cache(**wide)
    assert np.array_equal(wide["dst"], plain["dst"])
    wide["dst"][:] = UNTOUCHED
    assert (workspace == UNTOUCHED).all()


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
@pytest.mark.parametrize("bf16", [np.uint16, ml_dtypes.bfloat16, torch.bfloat16], ids=["uint16", "ml_dtypes", "torch"])
def test_the_arrays_of_every_library_are_gathered_into_alike(convert: Callable[[Any], Any], bf16: Any) -> None:
    call = well_formed()
    call["src_cache"][:] = record(0x2C, 0x3C, 0xB8)
    dst = call["dst"]
    arrays = {name: value if name in ("batch_size", "dst") else convert(value) for name, value in call.items()}
    arrays["dst"] = torch.from_numpy(dst.view(np.int16)).view(bf16) if bf16 is torch.bfloat16 else dst.view(bf16)
    cp_gather_and_upconvert_nvfp4_kv_cache(**arrays)
    assert np.array_equal(dst, [row(-3.0, 1.5, -1.0)] * 5)


def test_arrays_without_elements_are_accepted_with_whatever_strides_they_have() -> None:
    nothing = {
        "src_cache": np.empty((0, 4, 352), np.uint8),
        "dst": np.empty((0, 576), np.uint16),
        "block_table": np.empty((0, 2), np.int32),
        "workspace_starts": np.empty(0, np.int32),
        "seq_starts": np.empty(0, np.int32),
    }
    for name, array in nothing.items():
        call = well_formed()
        call.update({name: array, "batch_size": 0})
        cp_gather_and_upconvert_nvfp4_kv_cache(**call)
        cp_gather_and_upconvert_nvfp4_kv_cache(**{**call, **nothing})


def test_the_stride_of_a_single_entry_does_not_count() -> None:
    call = well_formed()
    call.update(batch_size=1, block_table=np.zeros((2, 2), np.int32)[:, ::2], seq_starts=call["seq_starts"][::-1][:1])
    call["dst"], call["workspace_starts"] = call["dst"][::-1][:1], np.zeros(2, np.int32)[::2]
    cp_gather_and_upconvert_nvfp4_kv_cache(**call)
    assert (call["dst"] == 0).all()


def test_a_receipt_says_who_built_what_and_how_often_it_ran() -> None:
    operators = Operators()
    for _ in range(2):
        operators.cp_gather_and_upconvert_nvfp4_kv_cache(**well_formed())
    receipt = operators.receipt()
    assert (receipt["kernel"], receipt["launches"], list(receipt["devices"])) == ("nvfp4_gather_tuned", 2, ["cpu"])
    assert receipt["devices"]["cpu"]["sources_sha256"] == sources.sources_sha256(sources.DEFAULT_ROOT)


def test_an_unknown_kernel_is_refused_with_the_names_of_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"^kernel: found 'fast', expected one of plain"):
        Operators(kernel="fast")


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_block_size_of_more_than_32_bits_is_divided_by(kernel: str) -> None:
    call = well_formed()
    call["src_cache"] = np.lib.stride_tricks.as_strided(record(0x2C, 0x3C, 0xB8), (3, 1 << 33, 352), (0, 0, 1))
    Operators(kernel=kernel).cp_gather_and_upconvert_nvfp4_kv_cache(**call)
    assert np.array_equal(call["dst"], [row(-3.0, 1.5, -1.0)] * 5)
