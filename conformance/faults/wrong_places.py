"""Define writers with wrong tokens, rows or addresses (WRITE-1 to WRITE-7)."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.faults.write_steps import (
    WIDTHS,
    Records,
    WriteCall,
    address,
    chosen,
    records,
    rows,
    slots,
    store,
    strided,
)
from conformance.faults.write_targets import wrong
from reference.paging import Ints
from reference.scalars import Bf16Bits

Chosen = tuple[Ints, Ints]


def _exchanged(call: WriteCall, slots: Ints) -> Ints:
    return strided(call, slots % call.block_size, slots // call.block_size)


def _by_shifts(call: WriteCall, slots: Ints) -> Ints:
    return strided(call, slots >> call.block_size.bit_length() - 1, slots & call.block_size - 1)


def _by_blocks_there_are(call: WriteCall, slots: Ints) -> Ints:
    blocks = max(call.num_blocks, 1)
    return strided(call, slots % blocks, slots // blocks)


def _but_the_last(call: WriteCall, slots: Ints) -> Chosen:
    return chosen(call, slots[:-1])


def _whole_groups_of_4(call: WriteCall, slots: Ints) -> Chosen:
    return chosen(call, slots[: len(slots) // 4 * 4])


def _first_65535(call: WriteCall, slots: Ints) -> Chosen:
    return chosen(call, slots[:65_535])


def _until_a_skipped_one(call: WriteCall, slots: Ints) -> Chosen:
    skipped = np.flatnonzero(slots < 0)
    return chosen(call, slots[: skipped[0]] if len(skipped) else slots)


def _minus_one_wraps(call: WriteCall, slots: Ints) -> Chosen:
    tokens = np.flatnonzero((slots >= 0) | (slots == -1))
    return tokens, slots[tokens] % max(call.num_blocks * call.block_size, 1)


def _all_kept(call: WriteCall, slots: Ints) -> Chosen:
    return np.arange(len(slots)), np.maximum(slots, 0)


def _all_but_minus_one(call: WriteCall, slots: Ints) -> Chosen:
    tokens = np.flatnonzero(slots != -1)
    return tokens, slots[tokens]


def _rows_of_those_kept(call: WriteCall, slots: Ints) -> Chosen:
    kept = slots[slots >= 0]
    return np.arange(len(kept)), kept


def _slots_for_all_rows(call: WriteCall) -> Ints:
    return call.at("slot_mapping", np.arange(len(call.arrays["kv_c"])))


def _clears_padding(call: WriteCall, address: Ints, records: Records) -> None:
    gap = call.stride("kv_cache", 1) - call.width
    if 0 < gap < 4 * call.width:  # no gap if the next record is another block's
        call.put("kv_cache", address + call.width, np.zeros((len(records), gap), records.dtype))
    store(call, address, records)


def _sixteen_more(call: WriteCall, address: Ints, records: Records) -> None:
    call.put("kv_cache", address + call.width, np.zeros((len(records), 16), records.dtype))
    store(call, address, records)


def _but_the_last_element(call: WriteCall, address: Ints, records: Records) -> None:
    store(call, address, records[:, :-1])


def _or_ed(call: WriteCall, address: Ints, records: Records) -> None:
    store(call, address, records | call.runs("kv_cache", address, records.shape[1]))


def _fresh_blocks_cleared(call: WriteCall, at: Ints, records: Records) -> None:
    cache = call.arrays["kv_cache"]
    beginning = np.arange(call.num_blocks)[np.isin(address(call, np.arange(call.num_blocks) * call.block_size), at)]
    for block in beginning:
        cache[block] = 0
    store(call, at, records)


def _into_a_copy(call: WriteCall, address: Ints, records: Records) -> None:
    if call.arrays["kv_cache"].flags.c_contiguous:
        store(call, address, records)


def _nan_cleared(call: WriteCall) -> None:
    kv_c = call.arrays["kv_c"][: call.num_tokens]
    kv_c[(kv_c & 0x7FFF) > 0x7F80] = 0


def _slots_clamped(call: WriteCall) -> None:
    np.maximum(call.arrays["slot_mapping"], -1, out=call.arrays["slot_mapping"])


def _padding_zeroed(call: WriteCall) -> None:
    call.arrays["k_pe"][: call.num_tokens][call.arrays["slot_mapping"] < 0] = 0


def _amax_of_the_batch(call: WriteCall, kv_c: Bf16Bits, k_pe: Bf16Bits) -> Records:
    written = records(call, kv_c, k_pe)
    scales = slice(*{"nvfp4_ds_mla": (320, 352), "fp8_ds_mla": (512, 528)}.get(call.kv_cache_dtype, (0, 0)))
    written[:, scales] = written[:1, scales]
    return written


def _rope_of_the_next(call: WriteCall, name: str, tokens: Ints) -> Bf16Bits:
    if name == "k_pe":
        tokens = np.minimum(tokens + 1, call.num_tokens - 1)
    return rows(call, name, tokens)


def _packed(packed: str) -> Any:
    def read(call: WriteCall, name: str, tokens: Ints) -> Bf16Bits:
        stride = WIDTHS[name] if name == packed else call.stride(name, 0)
        return call.runs(name, tokens * stride, WIDTHS[name])

    return read


def _stride_of_kv_c(call: WriteCall, name: str, tokens: Ints) -> Bf16Bits:
    slack = call.stride("kv_c", 0) - WIDTHS["kv_c"]
    return call.runs(name, tokens * (WIDTHS[name] + slack), WIDTHS[name])


def _rows_in_32_bits(call: WriteCall, name: str, tokens: Ints) -> Bf16Bits:
    first = (tokens * call.stride(name, 0) * 2).astype(np.int32).astype(np.int64) // 2
    return call.runs(name, first, WIDTHS[name])


def _packed_blocks(call: WriteCall, slots: Ints) -> Ints:
    return strided(call, np.zeros_like(slots), slots)


def _blocks_of_packed_records(call: WriteCall, slots: Ints) -> Ints:
    within = slots % call.block_size
    return (slots - within) * call.width + strided(call, np.zeros_like(slots), within)


def _packed_records(call: WriteCall, slots: Ints) -> Ints:
    within = slots % call.block_size
    return strided(call, slots // call.block_size, np.zeros_like(slots)) + within * call.width


def _slots_in_32_bits(call: WriteCall) -> Ints:
    return slots(call).astype(np.int32).astype(np.int64)


def _slots_in_binary32(call: WriteCall) -> Ints:
    return slots(call).astype(np.float32).astype(np.int64)


def _offset_in_32_bits(call: WriteCall, slots: Ints) -> Ints:
    item = call.arrays["kv_cache"].itemsize
    return (address(call, slots) * item).astype(np.int32).astype(np.int64) // item


DEFECTS = (
    wrong("slot-exchanged", "slot // block_size and slot % block_size exchanged", "WRITE-1", address=_exchanged),
    wrong(
        "block-size-a-power-of-two",
        "slots cut by shifts, as for a block_size of a power of two",
        "WRITE-1",
        address=_by_shifts,
    ),
    wrong("slot-by-num-blocks", "slots divided by the number of blocks", "WRITE-1", address=_by_blocks_there_are),
    wrong("last-token-skipped", "the last token not written", "WRITE-1", chosen=_but_the_last),
    wrong(
        "tail-of-4-skipped",
        "the tokens after the last whole group of 4 not written",
        "WRITE-1",
        chosen=_whole_groups_of_4,
    ),
    wrong("tokens-in-16-bits", "the tokens from 65,535 on not written", "WRITE-1", chosen=_first_65535),
    wrong(
        "minus-one-wraps",
        "slot -1 taken for the last record of the cache",
        "WRITE-2",
        chosen=_minus_one_wraps,
        source="vllm 43810",
    ),
    wrong(
        "padding-to-slot-0",
        "a negative slot taken for slot 0",
        "WRITE-2",
        chosen=_all_kept,
        source="ATOM 2008, vllm-ascend 15417",
    ),
    wrong("other-negative-slots-kept", "no negative slot but -1 skipped", "WRITE-2", chosen=_all_but_minus_one),
    wrong("stops-at-a-skipped-token", "no token written after a skipped one", "WRITE-2", chosen=_until_a_skipped_one),
    wrong("rows-of-those-kept", "rows counted without the skipped tokens", "WRITE-2", chosen=_rows_of_those_kept),
    wrong("tokens-of-kv-c", "as many tokens as kv_c has rows", "WRITE-3", slots=_slots_for_all_rows),
    wrong("padding-cleared", "bytes between records cleared", "WRITE-4", store=_clears_padding),
    wrong("sixteen-more", "sixteen elements behind a record cleared", "WRITE-4", store=_sixteen_more),
    wrong(
        "last-element-not-written", "the last element of a record not written", "WRITE-4", store=_but_the_last_element
    ),
    wrong("or-ed", "records or-ed into what the cache held", "WRITE-4", store=_or_ed),
    wrong(
        "fresh-block-cleared",
        "a block cleared when its first record is written",
        "WRITE-4",
        store=_fresh_blocks_cleared,
    ),
    wrong("nan-cleared-in-kv-c", "NaN in kv_c overwritten by 0", "WRITE-4", begin=_nan_cleared),
    wrong("slots-clamped", "negative slots in slot_mapping overwritten by -1", "WRITE-4", begin=_slots_clamped),
    wrong("padding-rows-zeroed", "rows of skipped tokens in k_pe overwritten by 0", "WRITE-4", begin=_padding_zeroed),
    wrong(
        "scales-of-the-first-token",
        "every token with the first one's scale bytes",
        "WRITE-5",
        records=_amax_of_the_batch,
    ),
    wrong("rope-of-the-next-token", "RoPE of the next token", "WRITE-5", rows=_rope_of_the_next),
    wrong("kv-c-stride-packed", "the row stride of kv_c taken as 512", "WRITE-6", rows=_packed("kv_c")),
    wrong("k-pe-stride-packed", "the row stride of k_pe taken as 64", "WRITE-6", rows=_packed("k_pe")),
    wrong(
        "k-pe-slack-of-kv-c", "rows of k_pe taken to be as far apart as those of kv_c", "WRITE-6", rows=_stride_of_kv_c
    ),
    wrong(
        "block-stride-packed",
        "the block stride taken as block_size times the record stride",
        "WRITE-6",
        address=_packed_blocks,
        source="vllm 37032",
    ),
    wrong(
        "block-stride-of-packed-records",
        "the block stride taken as block_size times the record",
        "WRITE-6",
        address=_blocks_of_packed_records,
        source="vllm 37032",
    ),
    wrong("record-stride-packed", "the record stride taken as the record", "WRITE-6", address=_packed_records),
    wrong(
        "into-a-copy", "a cache that is not contiguous copied, and the copy written to", "WRITE-6", store=_into_a_copy
    ),
    wrong("slots-in-32-bits", "slots cut to 32 bits", "WRITE-7", slots=_slots_in_32_bits),
    wrong("slots-in-binary32", "slots rounded to binary32", "WRITE-7", slots=_slots_in_binary32),
    wrong("offset-in-32-bits", "byte offsets into kv_cache cut to 32 bits", "WRITE-7", address=_offset_in_32_bits),
    wrong("rows-in-32-bits", "byte offsets into kv_c and k_pe cut to 32 bits", "WRITE-7", rows=_rows_in_32_bits),
)
