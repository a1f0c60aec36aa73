"""Compute the expected records and rows: each request quantized alone, without a block table or a gather."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.scenarios.model import latents_of
from conformance.scenarios.scheduler import Request
from reference.profiles import Profile
from reference.reading import read_records
from reference.records import FP8_DS_MLA, NVFP4_DS_MLA
from reference.scalars import E4M3, Bf16Bits, bf16_from_f32
from reference.writing import records_of

SCALE = float.fromhex("0x1.2d0ed4p-4")
"""The scale of "fp8", neither a power of two nor a bf16. The other formats do not use it."""

LAYOUTS = {layout.name: layout for layout in (NVFP4_DS_MLA, FP8_DS_MLA)}


@dataclass(frozen=True)
class Alone:
    """Hold one request by position: kv_c uint16 [N, 512], k_pe uint16 [N, 64], records, and rows uint16 [N, 576]."""

    kv_c: Bf16Bits
    k_pe: Bf16Bits
    records: npt.NDArray[Any]
    rows: Bf16Bits


def alone(request: Request, kv_cache_dtype: str, profile: Profile) -> Alone:
    """Return one request's tokens, quantized as one batch."""
    return _alone(request.tokens.tobytes(), kv_cache_dtype, profile)


@lru_cache(maxsize=64)
def _alone(held: bytes, kv_cache_dtype: str, profile: Profile) -> Alone:
    tokens = np.frombuffer(held, np.int64)
    kv_c, k_pe = latents_of(tokens, np.arange(len(tokens)))
    records = records_of(kv_c, k_pe, kv_cache_dtype, np.array([SCALE], np.float32), profile)
    return Alone(kv_c, k_pe, records, decoded(records, kv_cache_dtype))


def decoded(records: npt.NDArray[Any], kv_cache_dtype: str) -> Bf16Bits:
    """Return the rows of records [N, n]: uint16 bf16 encodings [N, 576] (READ, TWIN-2 to 4, TWIN-8, TWIN-9)."""
    if kv_cache_dtype in LAYOUTS:
        return read_records(LAYOUTS[kv_cache_dtype], records)
    if kv_cache_dtype == "auto":
        return records
    return bf16_from_f32(E4M3.decode(records) * np.float32(SCALE))
