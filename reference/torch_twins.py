"""Gather in torch from the other caches: the second golden model of SPEC.md's TWIN clauses.

It is written from SPEC.md and shares neither code nor method with the NumPy model. Numbers come from their bit fields
(no table of values or of products). Fields of a record are views of its bytes in another type. The generic gather works
on all rows at once (no slices by request). Where the models agree, they agree for different reasons.
"""

from numbers import Integral

import torch
from torch import Tensor

from reference.torch_model import (
    _INT32_MAX,
    LATENT,
    ROPE,
    ROW,
    _check_array,
    _first_rows,
    _locate,
    _require,
    decode_e4m3,
)

TILES = 4
SCALE_BYTE = LATENT
ROPE_BYTE = SCALE_BYTE + 4 * TILES
RECORD = ROPE_BYTE + 2 * ROPE

_WIDTHS = (ROW, LATENT)
_CACHES = {"auto": torch.bfloat16, "fp8": torch.uint8}
_NAN = 0x7FFF
# Bounds the float32 intermediates of a long gather to some tens of megabytes.
_CHUNK_ROWS = 4096


def _rounded(numbers: Tensor) -> Tensor:
    """Return binary32 numbers as int16 bf16 encodings of the same shape. Every NaN is 0x7FFF on every device."""
    return numbers.bfloat16().view(torch.int16).masked_fill(numbers.isnan(), _NAN)


def decode_fp8_ds_mla(records: Tensor) -> Tensor:
    """Read records of fp8_ds_mla into rows: TWIN-2 to TWIN-4, WRITE-16.

    records is uint8 [N, 656] on any device with any strides. Another dtype or shape raises ValueError.

    Returns:
        A new torch.bfloat16 [N, 576].

    """
    _require(records.dtype == torch.uint8, "records.dtype", records.dtype, "torch.uint8")
    fits = records.ndim == 2 and records.shape[1] == RECORD
    _require(fits, "records.shape", tuple(records.shape), f"[N, {RECORD}]")
    scales = records[:, SCALE_BYTE:ROPE_BYTE].clone(memory_format=torch.contiguous_format).view(torch.float32)
    tiles = decode_e4m3(records[:, :LATENT].reshape(len(records), TILES, LATENT // TILES))
    latent = _rounded(tiles * scales.unsqueeze(2)).flatten(1)
    rope = records[:, ROPE_BYTE:].clone(memory_format=torch.contiguous_format).view(torch.int16)
    return torch.cat((latent, rope), dim=1).view(torch.bfloat16)


def decode_alike(records: Tensor, scale: Tensor) -> Tensor:
    """Read records of n equal numbers into rows.

    records is torch.bfloat16 [N, n], which is returned as it is (TWIN-8), or uint8 [N, n], multiplied by a float32
    scale of one element (TWIN-9). Another dtype raises ValueError.

    Returns:
        torch.bfloat16 [N, n].

    """
    if records.dtype == torch.bfloat16:
        return records
    _require(records.dtype == torch.uint8, "records.dtype", records.dtype, "torch.uint8 or torch.bfloat16")
    return _rounded(decode_e4m3(records) * scale.reshape(())).view(torch.bfloat16)


def _check_requests(block_table: Tensor, seq_starts: Tensor | None, requests: int, device: torch.device) -> None:
    _check_array("block_table", block_table, torch.int32, (None, None), device)
    held = block_table.shape[0]
    _require(held >= requests, "block_table.shape[0]", held, f"at least {requests}, as batch_size or cu_seq_lens has")
    if seq_starts is not None:
        _check_array("seq_starts", seq_starts, torch.int32, (None,), device)
        held = seq_starts.shape[0]
        _require(
            held >= requests, "seq_starts.shape[0]", held, f"at least {requests}, as batch_size or cu_seq_lens has"
        )


def _check_count(name: str, count: object) -> None:
    integer = isinstance(count, Integral) and not isinstance(count, bool)
    _require(integer and int(count) >= 0, name, repr(count), "an integer of at least 0")  # type: ignore[call-overload]


def _check_dst(dst: Tensor, width: int, device: torch.device) -> None:
    _check_array("dst", dst, torch.bfloat16, (None, width), device)
    apart = dst.shape[0] <= 1 or dst.stride(0) >= width
    _require(apart, "dst.stride(0)", dst.stride(0), f"at least {width} elements, or rows overlap")


def cp_gather_and_upconvert_fp8_kv_cache(
    src_cache: Tensor,
    dst: Tensor,
    block_table: Tensor,
    workspace_starts: Tensor,
    batch_size: int,
    seq_starts: Tensor | None = None,
) -> None:
    """Write the T rows of dst, torch.bfloat16 [T, 576], from a cache of fp8_ds_mla: TWIN-1 to TWIN-4.

    src_cache is uint8 [num_blocks, block_size, 656]; block_table int32 [>= R, max_blocks]; workspace_starts int32
    [>= R]; batch_size is R; seq_starts int32 [>= R] or None. A malformed or illegal call raises ValueError and writes
    nothing. T = 0 or R = 0 writes nothing.
    """
    _check_array("src_cache", src_cache, torch.uint8, (None, None, RECORD))
    _require(src_cache.shape[1] >= 1, "src_cache.shape[1]", src_cache.shape[1], "a block_size of at least 1")
    device = src_cache.device
    _check_count("batch_size", batch_size)
    _check_array("workspace_starts", workspace_starts, torch.int32, (None,), device)
    most = workspace_starts.shape[0]
    _require(batch_size <= most, "batch_size", batch_size, f"at most {most}, as many as workspace_starts holds")
    _check_requests(block_table, seq_starts, batch_size, device)
    _check_dst(dst, ROW, device)
    rows = dst.shape[0]
    if rows == 0 or batch_size == 0:
        return
    starts = _first_rows(workspace_starts, batch_size)
    blocks, slots = _locate(src_cache, block_table, starts, rows, seq_starts)
    for some in (slice(i, i + _CHUNK_ROWS) for i in range(0, rows, _CHUNK_ROWS)):
        dst[some] = decode_fp8_ds_mla(src_cache[blocks[some], slots[some]])


def _check_generic(
    src_cache: Tensor,
    dst: Tensor,
    block_table: Tensor,
    cu_seq_lens: Tensor,
    token_to_seq: Tensor,
    num_tokens: int,
    kv_cache_dtype: str,
    scale: Tensor,
    seq_starts: Tensor | None,
) -> None:
    known = isinstance(kv_cache_dtype, str) and kv_cache_dtype in _CACHES
    _require(known, "kv_cache_dtype", repr(kv_cache_dtype), " or ".join(_CACHES))
    _check_array("src_cache", src_cache, _CACHES[kv_cache_dtype], (None, None, None))
    width, device = src_cache.shape[2], src_cache.device
    _require(src_cache.shape[1] >= 1, "src_cache.shape[1]", src_cache.shape[1], "a block_size of at least 1")
    _require(width in _WIDTHS, "src_cache.shape[2]", width, " or ".join(map(str, _WIDTHS)))
    _check_dst(dst, width, device)
    _check_count("num_tokens", num_tokens)
    _require(num_tokens <= dst.shape[0], "num_tokens", num_tokens, f"at most {dst.shape[0]}, the rows of dst")
    _check_array("cu_seq_lens", cu_seq_lens, torch.int32, (None,), device)
    _require(cu_seq_lens.shape[0] >= 1, "cu_seq_lens.shape[0]", 0, "at least 1, one more than requests")
    _check_array("token_to_seq", token_to_seq, torch.int32, (None,), device)
    owned = token_to_seq.shape[0]
    _require(owned >= num_tokens, "token_to_seq.shape[0]", owned, f"at least {num_tokens}, num_tokens")
    _check_requests(block_table, seq_starts, cu_seq_lens.shape[0] - 1, device)
    single = scale.reshape(1) if isinstance(scale, Tensor) and scale.ndim == 0 else scale
    _check_array("scale", single, torch.float32, (1,), device)


def _require_each(holds: Tensor, name: str, values: Tensor, allowed: str) -> None:
    if not bool(holds.all()):
        at = int(holds.int().argmin())
        _require(False, f"{name}[{at}]", int(values[at]), allowed)


def _sources(
    src_cache: Tensor, block_table: Tensor, cu_seq_lens: Tensor, token_to_seq: Tensor, seq_starts: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the physical block and the record in it of each row, two int64 [T] (TWIN-6, GATHER-2 and 3, PAGE-1)."""
    num_blocks, block_size = src_cache.shape[:2]
    requests, rows = cu_seq_lens.shape[0] - 1, token_to_seq.shape[0]
    firsts, owners = cu_seq_lens.long(), token_to_seq.long()
    _require(int(firsts[0]) == 0, "cu_seq_lens[0]", int(firsts[0]), "[0, 0]")
    _require_each(firsts.diff(prepend=firsts[:1]) >= 0, "cu_seq_lens", firsts, "no less than the entry before it")
    _require(int(firsts[-1]) == rows, f"cu_seq_lens[{requests}]", int(firsts[-1]), f"num_tokens, {rows}")
    _require_each((owners >= 0) & (owners < requests), "token_to_seq", owners, f"[0, {requests})")
    into = torch.arange(rows, device=src_cache.device) - firsts[owners]
    inside = (into >= 0) & (into < firsts.diff()[owners])
    _require_each(inside, "token_to_seq", owners, "the request between whose entries of cu_seq_lens the row lies")
    if seq_starts is not None:
        start = seq_starts.long()[owners]
        at = int(owners[int(start.argmin())])
        _require(int(start.min()) >= 0, f"seq_starts[{at}]", int(start.min()), f"[0, {_INT32_MAX}]")
        into = into + start
    column, slot = into // block_size, into % block_size
    width = block_table.shape[1]
    row = int(column.argmax())
    _require(
        int(column[row]) < width, f"block_table[{int(owners[row])}]", f"column {int(column[row])}", f"[0, {width})"
    )
    block = block_table[owners, column].long()
    bad = int(((block < 0) | (block >= num_blocks)).int().argmax())
    place = f"block_table[{int(owners[bad])}, {int(column[bad])}]"
    _require(0 <= int(block[bad]) < num_blocks, place, int(block[bad]), f"[0, {num_blocks})")
    return block, slot


def gather_and_maybe_dequant_cache(
    src_cache: Tensor,
    dst: Tensor,
    block_table: Tensor,
    cu_seq_lens: Tensor,
    token_to_seq: Tensor,
    num_tokens: int,
    kv_cache_dtype: str,
    scale: Tensor,
    seq_starts: Tensor | None = None,
) -> None:
    """Write the first num_tokens rows of dst, torch.bfloat16 [>= T, n], n = 576 or 512: TWIN-5 to TWIN-9.

    src_cache is [num_blocks, block_size, n], torch.bfloat16 for "auto" and uint8 for "fp8"; block_table int32
    [>= R, max_blocks]; cu_seq_lens int32 [R + 1]; token_to_seq int32 [>= T]; scale float32 [1] or []; seq_starts int32
    [>= R] or None. A malformed or illegal call raises ValueError and writes nothing. T = 0 or R = 0 writes nothing.
    """
    _check_generic(
        src_cache, dst, block_table, cu_seq_lens, token_to_seq, num_tokens, kv_cache_dtype, scale, seq_starts
    )
    if num_tokens == 0 or cu_seq_lens.shape[0] == 1:
        return
    block, slot = _sources(src_cache, block_table, cu_seq_lens, token_to_seq[:num_tokens], seq_starts)
    for some in (slice(i, min(i + _CHUNK_ROWS, num_tokens)) for i in range(0, num_tokens, _CHUNK_ROWS)):
        dst[some] = decode_alike(src_cache[block[some], slot[some]], scale)
