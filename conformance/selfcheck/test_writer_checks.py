"""What the writer refuses and what it accepts, by the names of the arguments."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from conformance.selfcheck.test_writer_ops import UNTOUCHED, write_call
from kernels.writer import Writer, concat_and_cache_mla

Change = Callable[[Any], Any]


def strided(*strides: int) -> Change:
    """The first elements of an array, at other strides, in memory that is large enough."""

    def change(array: np.ndarray) -> np.ndarray:
        memory = np.full(1 << 16, UNTOUCHED, np.uint8).view(array.dtype)
        return np.lib.stride_tricks.as_strided(memory, array.shape, (*strides, array.itemsize))

    return change


def shifted(by: int) -> Change:
    """The array, `by` bytes behind a multiple of 16."""

    def change(array: np.ndarray) -> np.ndarray:
        memory = np.full(array.nbytes + 32, UNTOUCHED, np.uint8)
        start = -memory.ctypes.data % 16 + by
        moved = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        moved[...] = array
        return moved

    return change


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def elsewhere(array: np.ndarray) -> torch.Tensor:
    kind = torch.uint16 if array.dtype == np.uint16 else torch.from_numpy(array).dtype
    return torch.zeros(array.shape, dtype=kind, device="meta")


# For a call with two tokens, and a cache of two blocks of four records.
MALFORMED: list[tuple[str, str, str, Change]] = [
    ("nvfp4_ds_mla", "kv_c", "float16", lambda a: a.view(np.float16)),
    ("nvfp4_ds_mla", "kv_c", "int16", lambda a: a.view(np.int16)),
    ("nvfp4_ds_mla", "kv_c", "float32", lambda a: a.astype(np.float32)),
    ("nvfp4_ds_mla", "kv_c", "1 dimensions", lambda a: a[0]),
    ("nvfp4_ds_mla", "kv_c", "511", lambda a: a[:, :511]),
    ("nvfp4_ds_mla", "kv_c", "innermost", lambda a: np.zeros((2, 1024), np.uint16)[:, ::2]),
    ("nvfp4_ds_mla", "kv_c", "negative", lambda a: a[::-1]),
    ("nvfp4_ds_mla", "kv_c", "1 rows", lambda a: a[:1]),
    ("nvfp4_ds_mla", "kv_c", "address", shifted(2)),
    ("nvfp4_ds_mla", "kv_c", "strides", strided(1026)),
    ("nvfp4_ds_mla", "kv_c", "list", lambda a: a.tolist()),
    ("nvfp4_ds_mla", "kv_c", "device meta", elsewhere),
    ("nvfp4_ds_mla", "k_pe", ">u2", lambda a: a.astype(">u2")),
    ("nvfp4_ds_mla", "k_pe", "3 dimensions", lambda a: a[None]),
    ("nvfp4_ds_mla", "k_pe", "63", lambda a: a[:, :63]),
    ("nvfp4_ds_mla", "k_pe", "innermost", lambda a: np.asfortranarray(a)),
    ("nvfp4_ds_mla", "k_pe", "negative", lambda a: a[::-1]),
    ("nvfp4_ds_mla", "k_pe", "0 rows", lambda a: a[:0]),
    ("nvfp4_ds_mla", "k_pe", "address", shifted(2)),
    ("nvfp4_ds_mla", "k_pe", "strides", strided(130)),
    ("nvfp4_ds_mla", "k_pe", "device meta", elsewhere),
    ("nvfp4_ds_mla", "kv_cache", "int8", lambda a: a.view(np.int8)),
    ("nvfp4_ds_mla", "kv_cache", "2 dimensions", lambda a: a[0]),
    ("nvfp4_ds_mla", "kv_cache", "351", lambda a: a[:, :, :351]),
    ("fp8_ds_mla", "kv_cache", "652", lambda a: a[:, :, :652]),
    ("fp8", "kv_cache", "572", lambda a: a[:, :, :572]),
    ("auto", "kv_cache", "574", lambda a: a[:, :, :574]),
    ("auto", "kv_cache", "uint8", lambda a: a.view(np.uint8)),
    ("fp8_ds_mla", "kv_cache", "uint16", lambda a: a.view(np.uint16)),
    ("fp8", "kv_cache", "float8_e4m3fn", lambda a: a.view(ml_dtypes.float8_e4m3fn)),
    ("nvfp4_ds_mla", "kv_cache", "innermost", lambda a: np.zeros((2, 4, 704), np.uint8)[:, :, ::2]),
    ("nvfp4_ds_mla", "kv_cache", "negative", lambda a: a[::-1]),
    ("nvfp4_ds_mla", "kv_cache", "negative", lambda a: a[:, ::-1]),
    ("nvfp4_ds_mla", "kv_cache", "block_size 0", lambda a: a[:, :0]),
    ("nvfp4_ds_mla", "kv_cache", "read-only", read_only),
    ("nvfp4_ds_mla", "kv_cache", "address", shifted(2)),
    ("nvfp4_ds_mla", "kv_cache", "multiples of 4", strided(1410, 352)),
    ("nvfp4_ds_mla", "kv_cache", "multiples of 4", strided(1420, 354)),
    ("nvfp4_ds_mla", "kv_cache", "overlap", strided(1408, 348)),
    ("nvfp4_ds_mla", "kv_cache", "overlap", strided(0, 352)),
    ("nvfp4_ds_mla", "kv_cache", "overlap", strided(1404, 352)),
    ("nvfp4_ds_mla", "kv_cache", "overlap", strided(352, 352)),
    ("nvfp4_ds_mla", "kv_cache", "overlap", strided(3 * 352 - 4, 2 * 352)),
    ("nvfp4_ds_mla", "kv_cache", "overlap", strided(3 * 352 + 4, 2 * 352)),
    ("auto", "kv_cache", "overlap", strided(1148, 2 * 1152)),
    ("nvfp4_ds_mla", "kv_cache", "device meta", elsewhere),
    ("nvfp4_ds_mla", "slot_mapping", "int32", lambda a: a.astype(np.int32)),
    ("nvfp4_ds_mla", "slot_mapping", "uint64", lambda a: a.astype(np.uint64)),
    ("nvfp4_ds_mla", "slot_mapping", "2 dimensions", lambda a: a[None]),
    ("nvfp4_ds_mla", "slot_mapping", "innermost", lambda a: np.zeros(4, np.int64)[::2]),
    ("nvfp4_ds_mla", "slot_mapping", "negative", lambda a: a[::-1]),
    ("nvfp4_ds_mla", "slot_mapping", "address", shifted(4)),
    ("nvfp4_ds_mla", "slot_mapping", "device meta", elsewhere),
    ("nvfp4_ds_mla", "kv_cache_dtype", "'nvfp4'", lambda a: "nvfp4"),
    ("nvfp4_ds_mla", "kv_cache_dtype", "None", lambda a: None),
    ("nvfp4_ds_mla", "kv_cache_dtype", r"\[\]", lambda a: []),
    ("nvfp4_ds_mla", "scale", "last dimension 2", lambda a: np.ones(2, np.float32)),
    ("fp8_ds_mla", "scale", "last dimension 0", lambda a: np.ones(0, np.float32)),
    ("auto", "scale", "2 dimensions", lambda a: a[None]),
    ("fp8", "scale", "float32", lambda a: np.float32(1)),
    ("fp8", "scale", "float64", lambda a: np.ones(())),
    ("fp8", "scale", "float64", lambda a: a.astype(np.float64)),
    ("auto", "scale", "float64", lambda a: a.astype(np.float64)),
    ("fp8", "scale", "float", lambda a: 1.0),
    ("nvfp4_ds_mla", "scale", "NoneType", lambda a: None),
    ("fp8", "scale", "address", shifted(2)),
    ("nvfp4_ds_mla", "scale", "device meta", elsewhere),
]


@pytest.mark.parametrize(
    ("dtype", "argument", "found", "change"), MALFORMED, ids=[f"{d}-{a}-{f}" for d, a, f, _ in MALFORMED]
)
def test_a_malformed_call_is_refused_by_the_name_of_its_argument_and_nothing_is_built_or_written(
    dtype: str, argument: str, found: str, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/no/such/compiler")
    call = write_call(dtype, tokens=2)
    caches = [call["kv_cache"]]
    call[argument] = change(call[argument])
    if argument == "kv_cache" and isinstance(call["kv_cache"], np.ndarray):
        caches.append(call["kv_cache"])
    before = [cache.tobytes() for cache in caches]
    with pytest.raises(ValueError, match=f"^{argument}: found .*{found}|^{argument}: .*expected .*{found}"):
        concat_and_cache_mla(**call)
    assert [cache.tobytes() for cache in caches] == before


@pytest.mark.parametrize(
    ("strides", "shape"),
    [
        ((5 * 352, 2 * 352), (2, 4)),  # 0 2 4 6 and 5 7 9 11
        ((3 * 352, 2 * 352), (2, 4)),  # 0 2 4 6 and 3 5 7 9
        ((352, 2 * 352), (2, 4)),
        ((3 * 352, 352), (4, 3)),
        ((3 * 352 + 40, 2 * 352 + 40), (2, 4)),
        ((0, 352), (1, 4)),
        ((352, 0), (4, 1)),
        ((0, 0), (1, 1)),
        ((-352, 352), (1, 4)),
    ],
    ids=str,
)
def test_records_may_lie_in_any_order_that_does_not_overlap(strides: tuple[int, int], shape: tuple[int, int]) -> None:
    call = write_call()
    memory = np.zeros(1 << 16, np.uint8)
    call["kv_cache"] = np.lib.stride_tricks.as_strided(memory, (*shape, 352), (*strides, 1))
    concat_and_cache_mla(**call)
    assert memory[320:352].all()


def test_strides_that_are_never_used_do_not_count() -> None:
    call = write_call()
    for name in ("kv_c", "k_pe", "kv_cache"):
        array = call[name] if name != "kv_cache" else call[name][:1, :1]
        call[name] = np.lib.stride_tricks.as_strided(array, strides=(-3,) * (array.ndim - 1) + (array.itemsize,))
    call["slot_mapping"], call["scale"] = np.zeros(4, np.int64)[::-3][:1], np.ones(9, np.float32)[::-5][:1]
    concat_and_cache_mla(**call)
    assert call["kv_cache"][0, 0, 320] == 0x01


def test_a_cache_without_blocks_is_well_formed_and_every_token_is_skipped() -> None:
    call = write_call(tokens=2)
    call["slot_mapping"][:] = -1
    for strides in ((1408, 352, 1), (-3, 0, 2)):
        call["kv_cache"] = np.lib.stride_tricks.as_strided(np.empty(8, np.uint8)[3:], (0, 4, 352), strides)
        concat_and_cache_mla(**call)


def test_a_scale_that_is_not_used_may_stand_anywhere() -> None:
    call = write_call()
    call["scale"] = shifted(1)(call["scale"])
    concat_and_cache_mla(**call)
    assert call["kv_cache"][0, 0, 320] == 0x01


def test_a_call_without_tokens_returns_at_once_also_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/no/such/compiler")
    writer, call = Writer(), write_call()
    for rows in (1, 0):
        call.update(kv_c=call["kv_c"][:rows], k_pe=call["k_pe"][:rows], slot_mapping=np.empty(0, np.int64))
        writer.concat_and_cache_mla(**call)
    assert (call["kv_cache"] == UNTOUCHED).all()
    assert writer.receipt()["launches"] == 0
