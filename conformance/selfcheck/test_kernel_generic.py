"""gather_and_maybe_dequant_cache of kernels/ as a caller sees it: what it refuses, what it accepts, what it writes."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from conformance.selfcheck.by_hand import UNTOUCHED
from kernels.ops import Operators, gather_and_maybe_dequant_cache

Change = Callable[[Any], Any]
WIDTHS = (576, 512)


def generic_call(kv_cache_dtype: str = "auto", n: int = 576) -> dict[str, Any]:
    """Two requests of 3 and 2 tokens in pages of 4, and arrays that are longer than these need."""
    return {
        "src_cache": np.zeros((3, 4, n), np.uint16 if kv_cache_dtype == "auto" else np.uint8),
        "dst": np.full((7, n), UNTOUCHED, np.uint16),
        "block_table": np.array([[2, 0], [1, 2], [9, 9]], np.int32),
        "cu_seq_lens": np.array([0, 3, 5], np.int32),
        "token_to_seq": np.array([0, 0, 0, 1, 1, -7, 3], np.int32),
        "num_tokens": 5,
        "kv_cache_dtype": kv_cache_dtype,
        "scale": np.ones(1, np.float32),
        "seq_starts": np.array([0, 1, -9], np.int32),
    }


def misaligned(array: np.ndarray) -> np.ndarray:
    return np.zeros(array.size + 1, array.dtype)[1:].reshape(array.shape)


def off_by_two_bytes(array: np.ndarray) -> np.ndarray:
    return np.zeros(array.nbytes + 4, np.uint8)[2:-2].view(array.dtype).reshape(array.shape)


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def elsewhere(array: np.ndarray) -> torch.Tensor:
    kind = torch.uint16 if array.dtype == np.uint16 else torch.from_numpy(array).dtype
    return torch.zeros(array.shape, dtype=kind, device="meta")


MALFORMED: list[tuple[str, str, str, Change]] = [
    ("auto", "src_cache", "uint8", lambda a: a.view(np.uint8)),
    ("auto", "src_cache", "float16", lambda a: a.view(np.float16)),
    ("fp8", "src_cache", "uint16", lambda a: a.view(np.uint16)),
    ("fp8", "src_cache", "float8_e4m3fn", lambda a: a.view(ml_dtypes.float8_e4m3fn)),
    ("auto", "src_cache", "2 dimensions", lambda a: a[0]),
    ("auto", "src_cache", "575", lambda a: a[:, :, :575]),
    ("fp8", "src_cache", "656", lambda a: np.zeros((3, 4, 656), np.uint8)),
    ("auto", "src_cache", "innermost", lambda a: np.zeros((3, 4, 1152), np.uint16)[:, :, ::2]),
    ("auto", "src_cache", "negative", lambda a: a[::-1]),
    ("auto", "src_cache", "block_size 0", lambda a: a[:, :0]),
    ("auto", "src_cache", "0 blocks", lambda a: a[:0]),
    ("auto", "src_cache", "address", misaligned),
    ("fp8", "src_cache", "address", misaligned),
    ("auto", "src_cache", "strides", lambda a: np.zeros((3, 4, 577), np.uint16)[:, :, :576]),
    ("fp8", "src_cache", "strides", lambda a: np.zeros((3, 4, 577), np.uint8)[:, :, :576]),
    ("auto", "src_cache", "device meta", elsewhere),
    ("auto", "dst", "float16", lambda a: a.view(np.float16)),
    ("auto", "dst", "3 dimensions", lambda a: a[None]),
    ("auto", "dst", "512", lambda a: a[:, :512]),
    ("auto", "dst", "innermost", np.asfortranarray),
    ("auto", "dst", "negative", lambda a: a[::-1]),
    ("auto", "dst", "read-only", read_only),
    ("auto", "dst", "overlap", lambda a: np.lib.stride_tricks.as_strided(a, strides=(1148, 2))),
    ("auto", "dst", "address", misaligned),
    ("fp8", "dst", "strides", lambda a: np.zeros((7, 577), np.uint16)[:, :576]),
    ("auto", "dst", "device meta", elsewhere),
    ("auto", "block_table", "int64", lambda a: a.astype(np.int64)),
    ("auto", "block_table", "1 dimensions", lambda a: a[0]),
    ("auto", "block_table", "innermost", np.asfortranarray),
    ("auto", "block_table", "first dimension 1", lambda a: a[:1]),
    ("auto", "block_table", "0 columns", lambda a: a[:, :0]),
    ("auto", "block_table", "address", off_by_two_bytes),
    ("auto", "cu_seq_lens", "int64", lambda a: a.astype(np.int64)),
    ("auto", "cu_seq_lens", "2 dimensions", lambda a: a[None]),
    ("auto", "cu_seq_lens", "innermost", lambda a: np.zeros(6, np.int32)[::2]),
    ("auto", "cu_seq_lens", "0 entries", lambda a: a[:0]),
    ("auto", "cu_seq_lens", "device meta", elsewhere),
    ("auto", "token_to_seq", "int64", lambda a: a.astype(np.int64)),
    ("auto", "token_to_seq", "0 dimensions", lambda a: a[0:1].reshape(())),
    ("auto", "token_to_seq", "innermost", lambda a: np.zeros(14, np.int32)[::2]),
    ("auto", "token_to_seq", "address", off_by_two_bytes),
    ("auto", "token_to_seq", "device meta", elsewhere),
    ("auto", "num_tokens", "at least 0", lambda t: -1),
    ("auto", "num_tokens", "at most 7, the first dimension of dst", lambda t: 8),
    ("auto", "num_tokens", "bool", lambda t: True),
    ("auto", "num_tokens", "float", float),
    ("auto", "num_tokens", "ndarray", lambda t: np.array([t], np.int32)),
    ("auto", "kv_cache_dtype", "'nvfp4_ds_mla'", lambda k: "nvfp4_ds_mla"),
    ("auto", "kv_cache_dtype", "'bfloat16'", lambda k: "bfloat16"),
    ("auto", "kv_cache_dtype", "None", lambda k: None),
    ("auto", "kv_cache_dtype", r"\['fp8'\]", lambda k: ["fp8"]),
    ("fp8", "scale", "float64", lambda a: a.astype(np.float64)),
    ("auto", "scale", "float", lambda a: 1.0),
    ("auto", "scale", "NoneType", lambda a: None),
    ("fp8", "scale", "last dimension 2", lambda a: np.ones(2, np.float32)),
    ("fp8", "scale", "address", off_by_two_bytes),
    ("auto", "seq_starts", "uint32", lambda a: a.astype(np.uint32)),
    ("auto", "seq_starts", "2 dimensions", lambda a: a[None]),
    ("auto", "seq_starts", "first dimension 1", lambda a: a[:1]),
    ("auto", "seq_starts", "negative", lambda a: a[::-1]),
    ("auto", "seq_starts", "device meta", elsewhere),
]


@pytest.mark.parametrize(
    ("dtype", "argument", "found", "change"), MALFORMED, ids=[f"{d}-{a}-{f}" for d, a, f, _ in MALFORMED]
)
def test_a_malformed_call_is_refused_by_the_name_of_its_argument_and_nothing_is_built_or_written(
    dtype: str, argument: str, found: str, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/no/such/compiler")
    call = generic_call(dtype)
    dst = call["dst"]
    call[argument] = change(call[argument])
    with pytest.raises(ValueError, match=f"^{argument}: found .*{found}|^{argument}: .*expected .*{found}"):
        gather_and_maybe_dequant_cache(**call)
    assert (dst == UNTOUCHED).all()


def test_token_to_seq_with_too_few_entries_is_refused_by_both_names() -> None:
    call = generic_call()
    call["token_to_seq"] = call["token_to_seq"][:4]
    with pytest.raises(ValueError, match=r"^num_tokens: found 5, expected at most 4, .*token_to_seq"):
        gather_and_maybe_dequant_cache(**call)


@pytest.mark.parametrize(("rows", "requests"), [(0, 2), (5, 0), (0, 0)])
def test_a_call_without_rows_or_requests_returns_at_once_also_without_a_compiler(
    rows: int, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/no/such/compiler")
    operators, call = Operators(), generic_call()
    call.update(num_tokens=rows, cu_seq_lens=call["cu_seq_lens"][: requests + 1])
    operators.gather_and_maybe_dequant_cache(**call)
    assert (call["dst"] == UNTOUCHED).all()
    assert operators.receipt()["generic"] == {}


@pytest.mark.parametrize("n", WIDTHS)
def test_rows_of_auto_are_the_bits_of_the_records_that_the_table_names(n: int) -> None:
    call = generic_call("auto", n)
    call["src_cache"][...] = np.random.default_rng(1).integers(0, 1 << 16, call["src_cache"].shape)
    call["src_cache"][2, 1, :4] = [0x7F81, 0xFFFF, 0x8000, 0x0001]  # NaN, signalling and with a sign; -0; subnormal
    call["scale"][:] = np.nan
    gather_and_maybe_dequant_cache(**call)
    cache = call["src_cache"]
    assert np.array_equal(call["dst"][:5], [cache[2, 0], cache[2, 1], cache[2, 2], cache[1, 1], cache[1, 2]])
    assert (call["dst"][5:] == UNTOUCHED).all()


@pytest.mark.parametrize("n", WIDTHS)
def test_rows_of_fp8_are_scaled_and_rounded_once_to_float_and_once_to_bf16(n: int) -> None:
    call = generic_call("fp8", n)
    call["src_cache"][2, 0, :6] = [0x38, 0xB8, 0x80, 0x7F, 0xFF, 0x7E]  # 1, -1, -0, NaN, NaN, 448
    call["src_cache"][1, 2, n - 2 :] = [0x3A, 0x3B]  # 1.25 and 1.375 as the last two numbers
    call["scale"] = np.array(1 + 2.0**-8, np.float32)  # between two bf16: the even one, 1
    gather_and_maybe_dequant_cache(**call)
    assert [hex(bits) for bits in call["dst"][0, :6]] == ["0x3f80", "0xbf80", "0x8000", "0x7fff", "0x7fff", "0x43e1"]
    assert [hex(bits) for bits in call["dst"][4, -2:]] == ["0x3fa1", "0x3fb1"]
    assert (call["dst"][5:] == UNTOUCHED).all()


def test_a_row_belongs_to_the_request_that_token_to_seq_names_whatever_cu_seq_lens_says() -> None:
    call = generic_call()
    call["src_cache"][...] = np.arange(12).reshape(3, 4, 1)
    call["token_to_seq"][4] = 0  # its fifth row, which is token 4 of request 0, in block 0
    gather_and_maybe_dequant_cache(**call)
    assert call["dst"][:5, 0].tolist() == [8, 9, 10, 5, 0]


def test_rows_and_pages_of_wider_arrays_are_gathered_in_place() -> None:
    plain, wide = generic_call(), generic_call()
    plain["src_cache"][...] = np.random.default_rng(0).integers(0, 1 << 16, plain["src_cache"].shape)
    wide["src_cache"] = np.pad(plain["src_cache"], ((0, 0), (0, 2), (0, 8)))[:, :4, :576]
    wide["block_table"] = np.pad(plain["block_table"], ((0, 0), (0, 3)), constant_values=-1)[:, :2]
    workspace = np.full((9, 600), UNTOUCHED, np.uint16)
    wide["dst"] = workspace[1:8, 8:584]
    gather_and_maybe_dequant_cache(**plain)
    gather_and_maybe_dequant_cache(**wide)
    assert np.array_equal(wide["dst"], plain["dst"])
    wide["dst"][:] = UNTOUCHED
    assert (workspace == UNTOUCHED).all()


@pytest.mark.parametrize("bf16", [np.uint16, ml_dtypes.bfloat16, torch.bfloat16], ids=["uint16", "ml_dtypes", "torch"])
def test_bf16_of_every_library_is_gathered_alike(bf16: Any) -> None:
    call = generic_call()
    call["src_cache"][...], dst = 0x3FC0, call["dst"]
    for name in ("src_cache", "dst"):
        array = call[name]
        call[name] = torch.from_numpy(array.view(np.int16)).view(bf16) if bf16 is torch.bfloat16 else array.view(bf16)
    gather_and_maybe_dequant_cache(**call)
    assert (dst[:5] == 0x3FC0).all()


def test_a_scale_that_is_not_used_may_stand_anywhere() -> None:
    call = generic_call()
    call["scale"] = off_by_two_bytes(call["scale"])
    gather_and_maybe_dequant_cache(**call)
    assert (call["dst"][:5] == 0).all()


def test_a_receipt_says_by_kv_cache_dtype_who_built_what_and_how_often_it_ran() -> None:
    operators = Operators()
    for name in ("fp8", "auto", "fp8"):
        operators.gather_and_maybe_dequant_cache(**generic_call(name))
    receipt = operators.receipt()
    assert receipt["launches"] == 0
    assert {name: facts["launches"] for name, facts in receipt["generic"].items()} == {"auto": 1, "fp8": 2}
    assert {facts["kernel"] for facts in receipt["generic"].values()} == {"generic_copy_gather", "generic_fp8_gather"}
