"""Gather in torch: the second golden model of SPEC.md's SCALAR, RECORD, READ, PAGE and GATHER clauses.

It is written from SPEC.md and shares neither code nor method with the NumPy model. A request is a slice of rows (no
search for owners). Numbers come from their bit fields (no table of values). Scales are put in order by a transposition
(no index array). Where the two models agree, they agree for different reasons.
"""

from itertools import pairwise
from numbers import Integral
from typing import NamedTuple

import torch
from torch import Tensor

LATENT, ROPE, BLOCK = 512, 64, 16
ROW = LATENT + ROPE
SCALES = LATENT // BLOCK
ROPE_BYTE = LATENT // 2
SCALE_BYTE = ROPE_BYTE + ROPE
RECORD = SCALE_BYTE + SCALES

# Bounds the float32 intermediates of a long gather to some tens of megabytes.
_CHUNK_ROWS = 4096
_INT32_MAX = 2**31 - 1


class _Format(NamedTuple):
    """Describe a binary format with a sign and subnormals. Its only special value is the NaN that it encodes to."""

    exponent_bits: int
    mantissa_bits: int
    min_exponent: int
    largest: float
    nan: int


_E2M1 = _Format(exponent_bits=2, mantissa_bits=1, min_exponent=0, largest=6.0, nan=7)
_E4M3 = _Format(exponent_bits=4, mantissa_bits=3, min_exponent=-6, largest=448.0, nan=0x7F)
# bf16 does not saturate: the infinities stand where 2^128 would, had it an encoding.
_BF16 = _Format(exponent_bits=8, mantissa_bits=7, min_exponent=-126, largest=2.0**128, nan=0x7FFF)


def _require(holds: bool, name: str, found: object, allowed: str) -> None:
    if not holds:
        raise ValueError(f"{name}: found {found}, allowed {allowed}")


def _encode(x: Tensor, form: _Format) -> Tensor:
    _require(x.dtype == torch.float32, "x.dtype", x.dtype, "torch.float32")
    # binary64, because the reciprocal of bf16's least quantum is no binary32 number.
    magnitude = torch.where(x.isnan(), 0.0, x.double().abs().clamp(max=form.largest))
    exponent = ((magnitude.view(torch.int64) >> 52) - 1023).clamp(min=form.min_exponent)
    quantum = ((exponent - form.mantissa_bits + 1023) << 52).view(torch.float64)
    # Rounding up to the next power of two carries into the exponent field by itself, and a binade starts at an even
    # code, so that the even multiple of the quantum has the even code.
    code = (magnitude / quantum).round().long() + ((exponent - form.min_exponent) << form.mantissa_bits)
    sign = x.signbit().long() << (form.exponent_bits + form.mantissa_bits)
    return torch.where(x.isnan(), form.nan, sign | code)


def _decode(codes: Tensor, form: _Format) -> Tensor:
    _require(codes.dtype == torch.uint8, "codes.dtype", codes.dtype, "torch.uint8")
    bits = codes.int()
    field = (bits >> form.mantissa_bits) & ((1 << form.exponent_bits) - 1)
    significand = (bits & ((1 << form.mantissa_bits) - 1)) + ((field > 0).int() << form.mantissa_bits)
    # Field 0 holds the subnormals, which share the quantum of field 1.
    quantum = ((field.clamp(min=1) + (126 + form.min_exponent - form.mantissa_bits)) << 23).view(torch.float32)
    negative = ((bits >> (form.exponent_bits + form.mantissa_bits)) & 1).bool()
    magnitude = significand * quantum
    return torch.where(negative, -magnitude, magnitude)


def encode_e2m1(x: Tensor) -> Tensor:
    """Return the uint8 codes, 0 to 15, of float32 of any shape (SCALAR-2, 3). Raises ValueError for another dtype."""
    return _encode(x, _E2M1).to(torch.uint8)


def encode_e4m3(x: Tensor) -> Tensor:
    """Return the uint8 bytes of float32 numbers of any shape (SCALAR-5, 6). Raises ValueError for another dtype."""
    return _encode(x, _E4M3).to(torch.uint8)


def bf16_bits(x: Tensor) -> Tensor:
    """Return the bf16 encodings, int32, of float32 of any shape (SCALAR-7, 8). Raises ValueError for another dtype."""
    return _encode(x, _BF16).int()


def decode_e2m1(codes: Tensor) -> Tensor:
    """Return the values of uint8 codes of any shape, whose bits 4 to 7 are ignored (SCALAR-1).

    Returns:
        float32 of the same shape. Another dtype of `codes` raises ValueError.

    """
    return _decode(codes, _E2M1)


def decode_e4m3(codes: Tensor) -> Tensor:
    """Return the values of uint8 bytes of any shape, NaN for 0x7F and 0xFF (SCALAR-4).

    Returns:
        float32 of the same shape. Another dtype of `codes` raises ValueError.

    """
    return _decode(codes, _E4M3).masked_fill((codes & 0x7F) == 0x7F, torch.nan)


def _read_latent(records: Tensor) -> Tensor:
    n, pairs = records.shape[0], records[:, :ROPE_BYTE]
    elements = decode_e2m1(torch.stack((pairs & 15, pairs >> 4), dim=2)).reshape(n, SCALES, BLOCK)
    scales = decode_e4m3(records[:, SCALE_BYTE:].reshape(n, 4, SCALES // 4).transpose(1, 2)).reshape(n, SCALES, 1)
    return (elements * scales).reshape(n, LATENT)


def decode_records(records: Tensor) -> Tensor:
    """Read records into rows: RECORD-1 to RECORD-5, READ-1 to READ-6.

    records is uint8 [N, 352] on any device with any strides, one record of 352 bytes a row. Another dtype or shape
    raises ValueError.

    Returns:
        A new torch.bfloat16 [N, 576]: 512 latent elements, then 64 RoPE elements. View it as torch.int16 to compare
        bits:
        every NaN is 0x7FFF, and -0 is kept.

    """
    _require(records.dtype == torch.uint8, "records.dtype", records.dtype, "torch.uint8")
    fits = records.ndim == 2 and records.shape[1] == RECORD
    _require(fits, "records.shape", tuple(records.shape), f"[N, {RECORD}]")
    values = torch.cat((_read_latent(records), decode_e4m3(records[:, ROPE_BYTE:SCALE_BYTE])), dim=1)
    rows = values.bfloat16()
    # Which NaN a conversion or a product gives differs between devices, and READ-6 allows only one.
    rows.view(torch.int16).masked_fill_(values.isnan(), _BF16.nan)
    return rows


def _check_array(
    name: str, array: object, dtype: torch.dtype, shape: tuple[int | None, ...], device: torch.device | None = None
) -> None:
    if not isinstance(array, Tensor):
        raise ValueError(f"{name}: found {type(array).__name__}, allowed torch.Tensor")
    _require(array.dtype == dtype, f"{name}.dtype", array.dtype, str(dtype))
    fits = array.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    allowed = ", ".join("any" if n is None else str(n) for n in shape)
    _require(fits, f"{name}.shape", list(array.shape), f"[{allowed}]")
    packed = array.numel() == 0 or array.shape[-1] == 1 or array.stride(-1) == 1
    _require(packed, f"{name}.stride(-1)", array.stride(-1), "1 element")
    _require(device in (None, array.device), f"{name}.device", array.device, f"{device}, that of src_cache")


def _check_inputs(
    src_cache: Tensor, block_table: Tensor, workspace_starts: Tensor, batch_size: int, seq_starts: Tensor | None
) -> None:
    _check_array("src_cache", src_cache, torch.uint8, (None, None, RECORD))
    _require(src_cache.shape[1] >= 1, "src_cache.shape[1]", src_cache.shape[1], "a block_size of at least 1")
    _check_array("block_table", block_table, torch.int32, (None, None), src_cache.device)
    _check_array("workspace_starts", workspace_starts, torch.int32, (None,), src_cache.device)
    limit = min(block_table.shape[0], workspace_starts.shape[0])
    if seq_starts is not None:
        _check_array("seq_starts", seq_starts, torch.int32, (None,), src_cache.device)
        limit = min(limit, seq_starts.shape[0])
    counts = isinstance(batch_size, Integral) and not isinstance(batch_size, bool)
    _require(counts, "batch_size", f"{batch_size!r}", "an integer")
    _require(0 <= batch_size <= limit, "batch_size", batch_size, f"[0, {limit}], as many as the arrays hold")


def _first_rows(workspace_starts: Tensor, batch_size: int) -> list[int]:
    starts: list[int] = workspace_starts[:batch_size].tolist()
    _require(starts[0] == 0, "workspace_starts[0]", starts[0], "[0, 0]")
    for r, (before, start) in enumerate(pairwise(starts), 1):
        _require(start >= before, f"workspace_starts[{r}]", start, f"[{before}, {_INT32_MAX}]")
    return starts


def _blocks_of(tokens: Tensor, r: int, block_table: Tensor, src_cache: Tensor) -> Tensor:
    num_blocks, block_size = src_cache.shape[:2]
    columns = tokens // block_size
    first, last, width = int(columns[0]), int(columns[-1]), block_table.shape[1]
    beyond = max(first, width)
    _require(last < width, f"block_table[{r}, {beyond}]", f"column {beyond}", f"columns [0, {width})")
    blocks = block_table[r, first : last + 1].long()
    outside = (blocks < 0) | (blocks >= num_blocks)
    at = int(outside.int().argmax())
    _require(not outside[at], f"block_table[{r}, {first + at}]", int(blocks[at]), f"[0, {num_blocks})")
    return blocks[columns - first]


def _locate(
    src_cache: Tensor, block_table: Tensor, starts: list[int], num_rows: int, seq_starts: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the physical block and the record in it of each row, two int64 [num_rows] (GATHER-1 to 3, PAGE-1)."""
    blocks, slots = torch.empty((2, num_rows), dtype=torch.int64, device=src_cache.device)
    origins = [0] * len(starts) if seq_starts is None else seq_starts[: len(starts)].tolist()
    for r, (first, following) in enumerate(pairwise([*starts, num_rows])):
        end = min(following, num_rows)
        if first < end:
            _require(origins[r] >= 0, f"seq_starts[{r}]", origins[r], f"[0, {_INT32_MAX}]")
            tokens = torch.arange(origins[r], origins[r] + end - first, device=src_cache.device)
            blocks[first:end] = _blocks_of(tokens, r, block_table, src_cache)
            slots[first:end] = tokens % src_cache.shape[1]
    return blocks, slots


def gather(
    src_cache: Tensor,
    block_table: Tensor,
    workspace_starts: Tensor,
    batch_size: int,
    num_rows: int,
    seq_starts: Tensor | None = None,
) -> Tensor:
    """Gather the rows [0, num_rows) of a workspace: PAGE-1 to PAGE-5, GATHER-1 to GATHER-5, GATHER-9, GATHER-13.

    src_cache is uint8 [num_blocks, block_size, 352]; block_table int32 [>= R, max_blocks] of physical block numbers;
    workspace_starts int32 [>= R] of rows; batch_size is R; seq_starts int32 [>= R] of tokens or None. Only the records
    needed are read. A malformed or illegal call raises ValueError, and so do rows without an owner. With num_rows = 0
    no value is checked.

    Returns:
        A new torch.bfloat16 [num_rows, 576] on the device of src_cache.

    """
    _check_inputs(src_cache, block_table, workspace_starts, batch_size, seq_starts)
    _require(num_rows >= 0, "num_rows", num_rows, "at least 0")
    out = torch.empty((num_rows, ROW), dtype=torch.bfloat16, device=src_cache.device)
    if num_rows == 0:
        return out
    _require(batch_size > 0, "batch_size", batch_size, "at least 1, as there are rows to own")
    starts = _first_rows(workspace_starts, batch_size)
    blocks, slots = _locate(src_cache, block_table, starts, num_rows, seq_starts)
    for rows in (slice(i, i + _CHUNK_ROWS) for i in range(0, num_rows, _CHUNK_ROWS)):
        out[rows] = decode_records(src_cache[blocks[rows], slots[rows]])
    return out


def cp_gather_and_upconvert_nvfp4_kv_cache(
    src_cache: Tensor,
    dst: Tensor,
    block_table: Tensor,
    workspace_starts: Tensor,
    batch_size: int,
    seq_starts: Tensor | None = None,
) -> None:
    """Write the T rows of dst, torch.bfloat16 [T, 576] with any row stride that keeps them apart: all of GATHER.

    The other arguments are those of `gather`. T = 0 or R = 0 writes nothing (GATHER-10). Every alignment is served
    (GATHER-12). A malformed call (GATHER-11) raises ValueError that names the argument, its value and what is allowed.
    An illegal call also names the index. Nothing is written in either case.
    """
    _check_inputs(src_cache, block_table, workspace_starts, batch_size, seq_starts)
    _check_array("dst", dst, torch.bfloat16, (None, ROW), src_cache.device)
    num_rows, stride = dst.shape[0], dst.stride(0)
    _require(num_rows <= 1 or stride >= ROW, "dst.stride(0)", stride, f"at least {ROW} elements, or rows overlap")
    if num_rows > 0 and batch_size > 0:
        dst.copy_(gather(src_cache, block_table, workspace_starts, batch_size, num_rows, seq_starts))
