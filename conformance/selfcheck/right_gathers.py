"""Gathers that are right in other ways than the golden model, written from SPEC.md; they refuse by its contract.

Each finds owners and pages, orders its scales and makes numbers in its own way.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from conformance.memory import ArrayMemory
from conformance.targets.base import GATHER, GATHER_STARTS, Target
from reference.contract import check_destination, check_well_formed
from reference.records import NVFP4_DS_MLA

Records = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.uint16]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

NAN = 0x7FFF
E2M1 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0], np.float32)


class RightGather(Target):
    """A gather of nvfp4_ds_mla: `gather` gets a well-formed call with R, T > 0, R starts and R first tokens."""

    capabilities = frozenset({GATHER, GATHER_STARTS})

    def __init__(self) -> None:
        """NumPy arrays on the CPU."""
        self.name, self.memory, self.slow = type(self).__name__, ArrayMemory(), True

    def describe(self) -> str:
        """See Target."""
        return "a right gather of another build"

    def receipt(self) -> dict[str, Any]:
        """See Target."""
        return {"device": "cpu", "numpy": np.__version__}

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """See Target."""
        check_destination(dst, NVFP4_DS_MLA)
        check_well_formed(src_cache, block_table, workspace_starts, batch_size, len(dst), seq_starts, NVFP4_DS_MLA)
        if len(dst) and batch_size:
            first = np.zeros(batch_size) if seq_starts is None else seq_starts[:batch_size]
            starts = workspace_starts[:batch_size].astype(np.int64)
            self.gather(src_cache, dst, block_table, starts, first.astype(np.int64))

    def gather(self, src_cache: Records, dst: Rows, block_table: Any, starts: Ints, first: Ints) -> None:
        """Write all rows of dst."""
        raise NotImplementedError


class PageParallel(RightGather):
    """Decodes each page once, with a table of 4,096 products, and scatters it to every row that is in it."""

    def gather(self, src_cache: Records, dst: Rows, block_table: Any, starts: Ints, first: Ints) -> None:
        """See RightGather; a request's rows are counted out between its start and the next one."""
        bounds = np.minimum(np.append(starts, len(dst)), len(dst))
        request = np.repeat(np.arange(len(starts)), np.diff(bounds))
        column, slot = np.divmod(np.arange(len(dst)) - starts[request] + first[request], src_cache.shape[1])
        block = block_table[request, column]
        order = np.argsort(block, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(block[order])) + 1):
            page = read_by_table(src_cache[block[rows[0]]])
            dst[rows] = page[slot[rows]]


def _e4m3(byte: int) -> float:
    field, mantissa = byte >> 3 & 15, byte & 7
    magnitude = (8 + mantissa) * 2.0 ** (field - 10) if field else mantissa * 2.0**-9
    return float("nan") if byte & 0x7F == 0x7F else -magnitude if byte & 0x80 else magnitude


E4M3 = np.array([_e4m3(byte) for byte in range(256)], np.float32)


def _upper_half(numbers: Floats) -> Rows:
    """Bf16 encodings of numbers that need no rounding."""
    return np.where(np.isnan(numbers), NAN, numbers.view(np.uint32) >> 16).astype(np.uint16)


PRODUCTS, ROPE = _upper_half(E4M3[:, None] * E2M1), _upper_half(E4M3)
BYTE_OF_SCALE = 320 + np.array([8 * (block & 3) + (block >> 2) for block in range(32)])


def read_by_table(records: Records) -> Rows:
    """uint8 [N, 352] -> uint16 [N, 576]: products looked up by scale byte and code."""
    codes = np.stack([records[:, :256] & 15, records[:, :256] >> 4], axis=2).reshape(-1, 32, 16)
    latent = PRODUCTS[records[:, BYTE_OF_SCALE, None], codes].reshape(-1, 512)
    return np.concatenate([latent, ROPE[records[:, 256:320]]], axis=1)


class RowParallel(RightGather):
    """One row at a time: a binary search of its owner, an address, 352 bytes from there, one float product each."""

    def gather(self, src_cache: Records, dst: Rows, block_table: Any, starts: Ints, first: Ints) -> None:
        """See RightGather; all places are Python's integers, which know no 2^31."""
        base, strides, block_size = src_cache.ctypes.data, src_cache.strides, src_cache.shape[1]
        row_of, token_of = starts.tolist(), first.tolist()
        for row in range(len(dst)):
            request = bisect_right(row_of, row) - 1
            token = row - row_of[request] + token_of[request]
            block = int(block_table[request, token // block_size])
            address = base + block * strides[0] + token % block_size * strides[1]
            dst[row] = read_by_multiplying(np.frombuffer(ctypes.string_at(address, 352), np.uint8))


def read_by_multiplying(record: Records) -> Rows:
    """uint8 [352] -> uint16 [576]: float32 products, one after the other from four runs of scales."""
    numbers = np.empty(576, np.float32)
    numbers[0:512:2], numbers[1:512:2] = E2M1[record[:256] & 15], E2M1[record[:256] >> 4]
    blocks = numbers[:512].reshape(32, 16)
    for run in range(4):
        blocks[run::4] *= E4M3[record[320 + 8 * run : 328 + 8 * run], None]
    numbers[512:] = E4M3[record[256:320]]
    return _upper_half(numbers)


class CopiedBlocks(RightGather):
    """Copies the referenced blocks side by side, decodes all of them, and picks rows from the result."""

    def gather(self, src_cache: Records, dst: Rows, block_table: Any, starts: Ints, first: Ints) -> None:
        """See RightGather; a row's owner is found by counting the starts at or before it, duplicates together."""
        distinct = np.unique(starts)
        last = np.searchsorted(starts, distinct, side="right") - 1
        request = last[np.cumsum(np.isin(np.arange(len(dst)), distinct)) - 1]
        token, block_size = np.arange(len(dst)) + (first - starts)[request], src_cache.shape[1]
        blocks, which = np.unique(block_table[request, token // block_size], return_inverse=True)
        staging = np.empty((len(blocks), block_size, 352), np.uint8)
        for copy, block in zip(staging, blocks, strict=True):
            copy[:] = src_cache[block]
        self.store(dst, self.read(staging.reshape(-1, 352))[which * block_size + token % block_size])

    def read(self, records: Records) -> Rows:
        """uint8 [N, 352] -> uint16 [N, 576]."""
        return read_by_float16(records)

    def store(self, dst: Rows, rows: Rows) -> None:
        """Write the rows."""
        dst[:] = rows


def read_by_float16(records: Records) -> Rows:
    """uint8 [N, 352] -> uint16 [N, 576]: both formats are float16 with other biases, moved to where its fields are."""
    scales = _from_e4m3(records[:, 320:].reshape(-1, 4, 8).transpose(0, 2, 1).reshape(-1, 32))
    codes = (np.repeat(records[:, :256], 2, axis=1) >> np.tile(np.array([0, 4], np.uint8), 256)).astype(np.uint16)
    latent = ((codes & 7) << 9 | (codes & 8) << 12).view(np.float16).astype(np.float32) * np.float32(2.0**14)
    latent *= np.repeat(scales, 16, axis=1)
    return _upper_half(np.concatenate([latent, _from_e4m3(records[:, 256:320])], axis=1))


def _from_e4m3(bytes_: Records) -> Floats:
    wide = bytes_.astype(np.uint16)
    numbers = ((wide & 0x7F) << 7 | (wide & 0x80) << 8).view(np.float16).astype(np.float32) * np.float32(2.0**8)
    return np.where(wide & 0x7F == 0x7F, np.float32(np.nan), numbers)


class BitArithmetic(RightGather):
    """Neither a table nor a float: exponents are added, significands multiplied, and bf16 put together from bits."""

    def gather(self, src_cache: Records, dst: Rows, block_table: Any, starts: Ints, first: Ints) -> None:
        """See RightGather; as many rows at a time as a block of threads has, the owner by comparing with all starts."""
        for begin in range(0, len(dst), 1024):
            row = np.arange(begin, min(begin + 1024, len(dst)))
            request = np.sum(starts[:, None] <= row, axis=0) - 1
            token = row - starts[request] + first[request]
            column = token // src_cache.shape[1]
            records = src_cache[block_table[request, column], token - column * src_cache.shape[1]]
            dst[row] = read_by_bits(records)


def read_by_bits(records: Records) -> Rows:
    """uint8 [N, 352] -> uint16 [N, 576]; no product has more than six significant bits, so that none is rounded."""
    words = records.astype(np.int32)
    latent, rope, scales = words[:, :256], words[:, 256:320], words[:, 320:]
    codes = np.dstack([latent & 15, latent >> 4]).reshape(-1, 32, 16)
    scales = np.hstack([scales[:, block::8] for block in range(8)])[..., None]
    # A field of 0 has the exponent of 1 and no leading bit.
    of_code, of_scale = np.maximum(codes >> 1 & 3, 1), np.maximum(scales >> 3 & 15, 1)
    significand = (codes & 1 | ((codes & 6) > 0) << 1) * (scales & 7 | ((scales & 0x78) > 0) << 3)
    sign = (codes >> 3 ^ scales >> 7) << 15
    products = _bf16(sign, significand, of_code + of_scale - 12, scales & 0x7F == 0x7F)
    of_rope = np.maximum(rope >> 3 & 15, 1) - 10
    numbers = _bf16(rope >> 7 << 15, rope & 7 | ((rope & 0x78) > 0) << 3, of_rope, rope & 0x7F == 0x7F)
    return np.hstack([products.reshape(-1, 512), numbers])


def _bf16(sign: Any, significand: Any, exponent: Any, is_nan: Any) -> Rows:
    """The encodings of significand * 2^exponent, or of NaN."""
    top = sum((significand >> bit > 0).astype(np.int32) for bit in range(1, 6))
    magnitude = np.where(significand > 0, (top + exponent + 127) << 7 | (significand << 7 - top) & 0x7F, 0)
    return np.where(is_nan, NAN, sign | magnitude).astype(np.uint16)


class AnyNan(CopiedBlocks):
    """Declares that its NaN is any: of all signs and payloads, never the same twice in a row."""

    nan: Literal["canonical", "any"] = "any"
    count = 0

    def read(self, records: Records) -> Rows:
        """See CopiedBlocks."""
        rows = super().read(records)
        nans = np.flatnonzero(rows == NAN)
        number = self.count + np.arange(len(nans))
        rows.reshape(-1)[nans] = (number & 1) << 15 | 0x7F80 | 1 + number % 127
        self.count += len(nans)
        return rows


class InTiles(CopiedBlocks):
    """Writes dst in tiles of 3 rows and 64 columns, the last tile first."""

    def store(self, dst: Rows, rows: Rows) -> None:
        """See CopiedBlocks."""
        for bottom in range(len(dst), 0, -3):
            for left in range(512, -1, -64):
                tile = slice(max(0, bottom - 3), bottom), slice(left, left + 64)
                dst[tile] = rows[tile]


class WrittenTwice(CopiedBlocks):
    """Writes every row twice, first with what it is not to hold."""

    def store(self, dst: Rows, rows: Rows) -> None:
        """See CopiedBlocks."""
        dst[:] = ~rows
        dst[:] = rows


BUILDS = (PageParallel, RowParallel, CopiedBlocks, BitArithmetic, AnyNan)
STORES = (InTiles, WrittenTwice)
