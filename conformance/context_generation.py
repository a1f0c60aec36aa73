"""From a batch to its numbers: prompts, records, paged caches, queries and weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.generation import Random
from fixtures.context_cases import ContextCase
from fixtures.placement import POISONS, Poison
from reference.profiles import Profile
from reference.scalars import Bf16Bits, Floats, bf16_from_f32, f32_from_bf16
from reference.writing import FORMATS, LATENT, ROPE, records_of

Cells = npt.NDArray[Any]
"""Records: bytes, or bf16 encodings for "auto"."""

SCALE = float.fromhex("0x1.2d0ed4p-4")
"""What "fp8" divides by: no power of two, so that products are rounded, and no bf16 either."""


@dataclass(frozen=True)
class PagedCache:
    """kv_cache [num_blocks, block_size, n] and block_table int32 [R, columns] of one rank; what is unused is poison."""

    kv_cache: Cells
    block_table: npt.NDArray[np.int32]

    def records_at(self, request: int, tokens: npt.NDArray[np.int64]) -> Cells:
        """The records of a request's tokens, one by one (PAGE-1)."""
        block_size = self.kv_cache.shape[1]
        blocks = self.block_table[request, tokens // block_size]
        found: Cells = self.kv_cache[blocks, tokens % block_size]
        return found


@dataclass(frozen=True)
class Batch:
    """The numbers of a case: a cache for each rank, queries binary32 [tokens, H, D], weights, and softmax_scale."""

    case: ContextCase
    caches: tuple[PagedCache, ...]
    scale: float
    q: Floats
    kv_b_proj: Floats

    def arguments(self, softmax_scale: float) -> dict[str, Any]:
        """Those of compute_prefill_context, on one rank, copied."""
        (cache,) = self.caches
        return {
            "q": self.q.copy(),
            "kv_cache": cache.kv_cache.copy(),
            "kv_cache_dtype": self.case.kv_cache_dtype,
            "scale": self.scale,
            "block_table": cache.block_table.copy(),
            "chunked_context": self.case.chunked_context,
            "kv_b_proj": self.kv_b_proj.copy(),
            "softmax_scale": softmax_scale,
        }


def realize(case: ContextCase, profile: Profile, poison: Poison = POISONS[0]) -> Batch:
    """The same numbers for the same case and profile, whatever the poison."""
    random = Random(case.seed)
    contexts = [_records(case, length, profile, random) for length in case.context_lens]
    caches = tuple(_paged(case, contexts, rank, random, poison) for rank in range(case.sharding.ranks))
    return Batch(case, caches, SCALE, _queries(case, random), _weights(case, random))


def alone(batch: Batch, request: int) -> Batch:
    """One request of a batch on one rank, with its own rows of everything, as a batch."""
    case, (cache,) = batch.case, batch.caches
    first = case.query_start_loc[request]
    one = replace(
        case, context_lens=(case.context_lens[request],), query_lens=(case.query_lens[request],), origin="alone"
    )
    row = replace(cache, block_table=cache.block_table[request : request + 1])
    return replace(batch, case=one, caches=(row,), q=batch.q[first : first + case.query_lens[request]])


def numbers(random: Random, shape: tuple[int, ...]) -> Floats:
    """Bell-shaped numbers of variance 1 that bf16 holds: a sum of four bytes, rounded."""
    drawn = random.bytes((*shape, 4)).sum(axis=-1, dtype=np.float32)
    return f32_from_bf16(bf16_from_f32((drawn - np.float32(510)) / np.float32(147.8)))


def _records(case: ContextCase, tokens: int, profile: Profile, random: Random) -> Cells:
    if case.records == "quantized":
        # A magnitude of its own for each token, so that no two have like rows and scale bytes vary.
        magnitude = np.ldexp(np.float32(1), random.bytes((tokens, 1)).astype(np.int32) % 5 - 2)
        rows = bf16_from_f32(numbers(random, (tokens, LATENT + ROPE)) * magnitude)
        scale = np.array([SCALE], np.float32)
        return records_of(rows[:, :LATENT], rows[:, LATENT:], case.kv_cache_dtype, scale, profile)
    return FINITE_BYTES[case.kv_cache_dtype](random, tokens)


def _finite_nvfp4(random: Random, tokens: int) -> Cells:
    """Any code, any RoPE byte and any scale byte but the two NaN."""
    records = random.bytes((tokens, FORMATS["nvfp4_ds_mla"].width))
    return np.concatenate([records[:, :256], _without_nan(records[:, 256:])], axis=1)


def _finite_fp8(random: Random, tokens: int) -> Cells:
    """Any byte but the two NaN."""
    return _without_nan(random.bytes((tokens, FORMATS["fp8"].width)))


def _finite_fp8_ds_mla(random: Random, tokens: int) -> Cells:
    """Any e4m3 byte but NaN, scales of any significand, RoPE of any sign and significand."""
    scales = np.frombuffer(random.bytes((tokens, 4, 4)).tobytes(), "<u4").reshape(tokens, 4)
    scales = scales & 0x807FFFFF | (118 + (scales >> 23 & 3)) << 23
    parts = [_finite_fp8(random, tokens)[:, :LATENT], scales.astype("<u4").view(np.uint8)]
    return np.concatenate([*parts, _finite_bf16(random, (tokens, ROPE)).view(np.uint8)], axis=1)


def _finite_bf16(random: Random, shape: tuple[int, ...]) -> Bf16Bits:
    """Any sign and significand, magnitudes from 2^-15 to 2^17, more than binary16 holds."""
    drawn = np.frombuffer(random.bytes((*shape, 2)).tobytes(), "<u2").reshape(shape)
    return (drawn & 0x807F | (112 + (drawn >> 7 & 31)) << 7).astype("<u2")


FINITE_BYTES: dict[str, Callable[[Random, int], Cells]] = {
    "nvfp4_ds_mla": _finite_nvfp4,
    "fp8_ds_mla": _finite_fp8_ds_mla,
    "fp8": _finite_fp8,
    "auto": lambda random, tokens: _finite_bf16(random, (tokens, LATENT + ROPE)),
}
"""For each kv_cache_dtype, records whose elements are finite and whose sums binary64 holds exactly."""


def _without_nan(e4m3: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.where(e4m3 & 0x7F == 0x7F, e4m3 ^ 0x40, e4m3)


def _paged(case: ContextCase, contexts: list[Cells], rank: int, random: Random, poison: Poison) -> PagedCache:
    """A rank's own tokens over blocks in random order; the rows of SHARD-2 that are padding have a block, too."""
    sharding, size, form = case.sharding, case.block_size, FORMATS[case.kv_cache_dtype]
    rows = [sharding.padded_rows(len(records)) if sharding.ranks > 1 else len(records) for records in contexts]
    needed = [-(-count // size) for count in rows]
    columns, blocks = max(needed) + 1, sum(needed) + 1
    free = iter(random.permutation(blocks))
    table = np.full((len(contexts), columns), {"before": -1, "behind": blocks}.get(poison.table, 0), np.int32)
    cache = np.full((blocks, size, form.width), poison.cache * 0x101 % (1 << 8 * form.dtype().itemsize), form.dtype)
    for request, records in enumerate(contexts):
        table[request, : needed[request]] = [next(free) for _ in range(needed[request])]
        tokens = np.arange(len(records))
        mine = tokens[sharding.rank_of(tokens) == rank]
        local = sharding.local_index(mine)
        cache[table[request, local // size], local % size] = records[mine]
    return PagedCache(cache, table)


def _queries(case: ContextCase, random: Random) -> Floats:
    return numbers(random, (sum(case.query_lens), case.heads, case.qk_nope_head_dim + ROPE))


def _weights(case: ContextCase, random: Random) -> Floats:
    """kv_b_proj of few weights, each plus or minus 1/2, which use every latent element at least once in all.

    Sums of so few products are exact in binary64 in any order, and nearly so in binary32.
    """
    outputs = case.heads * (case.qk_nope_head_dim + case.v_head_dim)
    weights = np.zeros((outputs, LATENT), np.float32)
    each = max(4, -(-LATENT // outputs))
    places = np.resize(random.permutation(LATENT), (outputs, each))
    weights[np.arange(outputs)[:, None], places] = np.where(random.bytes(places.shape) & 1, 0.5, -0.5)
    return weights.reshape(case.heads, -1, LATENT)
