"""Where a writer writes: slots, strides, far offsets, and arrays of every library."""

import mmap
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from conformance.selfcheck.test_writer_ops import RECORD_BYTES, UNTOUCHED, bf16, write_call, writer
from kernels.writer import concat_and_cache_mla

DTYPES = [*RECORD_BYTES, "auto"]


def numbered(kv_cache_dtype: str, tokens: int) -> dict[str, Any]:
    """A call in which token t has t + 1 for every element."""
    call = write_call(kv_cache_dtype, tokens)
    for name in ("kv_c", "k_pe"):
        call[name][:] = bf16(*range(1, tokens + 1))[:, None]
    return call


def record_of(kv_cache_dtype: str, token: int) -> np.ndarray:
    """The record of a token of `numbered`, written alone at a place that nothing makes difficult."""
    call = numbered(kv_cache_dtype, token + 1)
    call["slot_mapping"] = np.array([-1] * token + [0])
    writer().concat_and_cache_mla(**call)
    return np.asarray(call["kv_cache"][0, 0])


def untouched(cache: np.ndarray) -> np.ndarray:
    """Which records of a cache hold what `write_call` put there."""
    return np.asarray((cache.view(np.uint8) == UNTOUCHED).all(axis=-1))


@pytest.mark.parametrize("kv_cache_dtype", DTYPES)
def test_a_token_goes_to_the_record_that_its_slot_names_and_no_other_is_touched(kv_cache_dtype: str) -> None:
    call = numbered(kv_cache_dtype, 3)
    call["slot_mapping"][:] = [6, 1, 4]
    concat_and_cache_mla(**call)
    cache = call["kv_cache"]
    assert untouched(cache).tolist() == [[True, False, True, True], [False, True, False, True]]
    places = ((1, 2), (0, 1), (1, 0))
    assert all(np.array_equal(cache[place], record_of(kv_cache_dtype, t)) for t, place in enumerate(places))
    assert len({cache[place].tobytes() for place in places}) == 3


@pytest.mark.parametrize("kv_cache_dtype", DTYPES)
@pytest.mark.parametrize("negative", [-1, -8, -(1 << 32), -(1 << 63)])
def test_a_token_with_a_negative_slot_is_skipped(kv_cache_dtype: str, negative: int) -> None:
    call = numbered(kv_cache_dtype, 2)
    call["slot_mapping"][:] = [0, negative]
    memory = np.concatenate([call["kv_cache"]] * 3)
    call["kv_cache"] = memory[2:4]
    concat_and_cache_mla(**call)
    assert np.argwhere(~untouched(memory)).tolist() == [[2, 0]]


@pytest.mark.parametrize("kv_cache_dtype", DTYPES)
def test_rows_without_a_slot_and_what_is_behind_the_slots_are_not_looked_at(kv_cache_dtype: str) -> None:
    call = numbered(kv_cache_dtype, 6)
    call["slot_mapping"] = np.array([3, 5], np.int64)[:1]
    concat_and_cache_mla(**call)
    assert untouched(call["kv_cache"]).tolist() == [[True, True, True, False], [True] * 4]


def arranged(cache: np.ndarray, block_stride: int, record_stride: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Memory of `size` bytes, and the records of `cache` in it at these strides of bytes."""
    memory = np.full(size, UNTOUCHED, np.uint8).view(cache.dtype)
    strides = (block_stride, record_stride, cache.itemsize)
    return memory, np.lib.stride_tricks.as_strided(memory, cache.shape, strides)


# The block and the record stride in bytes, for two blocks of four records.
ARRANGEMENTS = {
    "blocks apart": (5000, 1152),
    "records apart": (4 * 1200, 1200),
    "slots outermost": (1156, 2400),
    "blocks between the records of others": (3 * 1156, 2 * 1156),
}


@pytest.mark.parametrize("kv_cache_dtype", DTYPES)
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_the_strides_of_the_cache_are_honoured(kv_cache_dtype: str, arrangement: str) -> None:
    plain, apart = numbered(kv_cache_dtype, 4), numbered(kv_cache_dtype, 4)
    plain["slot_mapping"][:] = apart["slot_mapping"][:] = [7, 2, -1, 4]
    memory, apart["kv_cache"] = arranged(apart["kv_cache"], *ARRANGEMENTS[arrangement], size=12_000)
    concat_and_cache_mla(**plain)
    concat_and_cache_mla(**apart)
    assert np.array_equal(apart["kv_cache"], plain["kv_cache"])
    apart["kv_cache"].view(np.uint8)[:] = UNTOUCHED
    assert (memory.view(np.uint8) == UNTOUCHED).all()


@pytest.mark.parametrize("kv_cache_dtype", DTYPES)
def test_rows_may_be_slices_of_one_projection(kv_cache_dtype: str) -> None:
    plain, sliced = numbered(kv_cache_dtype, 3), numbered(kv_cache_dtype, 3)
    projection = np.full((3, 1538), 0x7FC0, np.uint16)
    projection[:, 2:514], projection[:, 600:664] = sliced["kv_c"], sliced["k_pe"]
    sliced["kv_c"], sliced["k_pe"] = projection[:, 2:514], projection[:, 600:664]
    before = projection.copy()
    concat_and_cache_mla(**plain)
    concat_and_cache_mla(**sliced)
    assert np.array_equal(sliced["kv_cache"], plain["kv_cache"])
    assert np.array_equal(projection, before)


def test_all_tokens_may_share_one_row() -> None:
    call = numbered("auto", 2)
    call["kv_c"], call["k_pe"] = (np.broadcast_to(call[name][1], call[name].shape) for name in ("kv_c", "k_pe"))
    concat_and_cache_mla(**call)
    assert np.array_equal(call["kv_cache"][0, :2], [record_of("auto", 1)] * 2)


MAP_NORESERVE = 0x4000  # Linux's; Python has no name for it before 3.13
FAR = (1 << 31) + 8


# np.zeros takes address space, and memory only where something is written.
@pytest.mark.parametrize("kv_cache_dtype", DTYPES)
@pytest.mark.parametrize("strides", [(FAR, 1152), (1152, FAR), (FAR // 2, 2 * FAR)], ids=["blocks", "records", "both"])
def test_records_more_than_two_gib_away_are_reached(kv_cache_dtype: str, strides: tuple[int, int]) -> None:
    call = numbered(kv_cache_dtype, 2)
    shape = (3, 2, call["kv_cache"].shape[2])
    offset = 2 * strides[0] + strides[1]
    memory = np.zeros(offset + 1152, np.uint8).view(call["kv_cache"].dtype)
    call["kv_cache"] = np.lib.stride_tricks.as_strided(memory, shape, (*strides, memory.itemsize))
    call["slot_mapping"][:] = [5, -1]
    concat_and_cache_mla(**call)
    record = record_of(kv_cache_dtype, 0)
    assert np.array_equal(memory[offset // memory.itemsize :][: len(record)], record)
    assert not call["kv_cache"].reshape(-1, shape[2])[:5].any()


@pytest.mark.parametrize("argument", ["kv_c", "k_pe"])
def test_rows_more_than_two_gib_away_are_reached(argument: str) -> None:
    call, plain = numbered("auto", 3), numbered("auto", 3)
    width = call[argument].shape[1]
    memory = np.zeros(2 * (FAR // 2) + width, np.uint16)
    memory[-width:] = call[argument][2]
    call[argument] = np.lib.stride_tricks.as_strided(memory, (3, width), (FAR, 2))
    call["slot_mapping"][:] = plain["slot_mapping"][:] = [-1, -1, 0]
    concat_and_cache_mla(**call)
    concat_and_cache_mla(**plain)
    assert np.array_equal(call["kv_cache"], plain["kv_cache"])


def test_a_slot_above_two_to_the_32_is_written() -> None:
    slots = (1 << 32) + 3
    try:
        reserved = mmap.mmap(-1, slots * 352, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
    except OSError as error:
        pytest.skip(f"no 1.4 TiB of address space: {error}")
    call = numbered("nvfp4_ds_mla", 1)
    call["kv_cache"] = np.frombuffer(reserved, np.uint8).reshape(1, slots, 352)
    call["slot_mapping"][:] = slots - 1
    concat_and_cache_mla(**call)
    assert np.array_equal(call["kv_cache"][0, slots - 1], record_of("nvfp4_ds_mla", 0))
    assert not call["kv_cache"][0, :3].any()


@pytest.mark.parametrize("kv_cache_dtype", DTYPES)
@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
@pytest.mark.parametrize("kind", [np.uint16, ml_dtypes.bfloat16, torch.bfloat16], ids=["uint16", "ml_dtypes", "torch"])
def test_arrays_of_every_library_are_written_alike(
    kv_cache_dtype: str, convert: Callable[[Any], Any], kind: Any
) -> None:
    plain, call = numbered(kv_cache_dtype, 2), numbered(kv_cache_dtype, 2)
    cache = call["kv_cache"]
    for name, array in call.items():
        if name != "kv_cache_dtype" and array.dtype == np.uint16:
            is_torch = kind is torch.bfloat16
            call[name] = torch.from_numpy(array.view(np.int16)).view(kind) if is_torch else array.view(kind)
        elif name != "kv_cache_dtype":
            call[name] = convert(array)
    concat_and_cache_mla(**call)
    concat_and_cache_mla(**plain)
    assert np.array_equal(cache, plain["kv_cache"])
