"""Define the classes of random writes: slots, arrangement in memory, and quantized numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.reports.classes_of_numbers import CONTIGUOUS, KINDS, kinds_of, memory_hits, sized
from conformance.reports.coverage import Domain, Hit
from conformance.strategies import BLOCK_SIZES
from conformance.write_generation import SCALES
from fixtures.write_cases import WriteCase
from reference.scalars import Bf16Bits

TOKENS, _tokens = sized(0, 1, 2, 17)
SKIPPED = ("none", "the first", "one between", "the last", "all")
"""The tokens with a negative slot."""

MEMORY = (
    CONTIGUOUS,
    *("kv_c_row_slack", "k_pe_row_slack", "cache_block_slack", "cache_record_slack"),
    *("cache_shift", "input_shift", "spare_tokens", "slots_outermost"),
)
BLOCKS = {"nvfp4_ds_mla": 16, "fp8_ds_mla": 128}
"""The number of latent elements that share a scale."""

FINITE = KINDS[:3]
BEYOND = "finite, beyond e4m3"
LARGEST_E4M3, INFINITY = 0x43E0, 0x7F80
"""448 and infinity as bf16 encodings."""


def _beyond(numbers: Bf16Bits) -> bool:
    magnitudes = numbers & 0x7FFF
    return bool(((magnitudes > LARGEST_E4M3) & (magnitudes < INFINITY)).any())


def slot_hits(case: WriteCase) -> Iterator[Hit]:
    """Yield the classes of a case's slots: tokens, block size, and which tokens are skipped."""
    negative = (case.slot_mapping < 0).tolist()
    yield "tokens", _tokens(case.tokens)
    yield "block size", str(case.block_size)
    if not any(negative):
        yield "skipped", "none"
    elif all(negative):
        yield "skipped", "all"
    else:
        places = {"the first": negative[:1], "one between": negative[1:-1], "the last": negative[-1:]}
        yield from (("skipped", place) for place, are in places.items() if any(are))


def domain(form: str) -> Domain:
    """Return the domain of writes of a kv_cache_dtype."""
    block = BLOCKS.get(form)
    saturates = form in ("nvfp4_ds_mla", "fp8")
    largest = f"largest of {block}" if block else "kv_c"
    classes = {
        "tokens": TOKENS,
        "skipped": SKIPPED,
        "block size": tuple(str(size) for size in BLOCK_SIZES),
        "memory": MEMORY,
        largest: FINITE if form == "fp8_ds_mla" else KINDS,  # of which others are no legal input
        "k_pe": (*KINDS, *([BEYOND] if saturates else [])),
        **({"scale": tuple(str(scale) for scale in SCALES)} if form == "fp8" else {}),
    }

    def hits(case: WriteCase) -> Iterator[Hit]:
        yield from slot_hits(case)
        yield from memory_hits(case.arrangement)
        latent = case.kv_c if block is None else (case.kv_c & 0x7FFF).reshape(-1, block).max(axis=1, initial=0)
        yield from ((largest, kind) for kind in kinds_of(latent))
        yield from (("k_pe", kind) for kind in kinds_of(case.k_pe))
        if saturates and _beyond(case.k_pe):
            yield "k_pe", BEYOND
        if "scale" in classes:
            yield "scale", str(case.scale)

    return Domain(f"write {form}", classes, hits)


DOMAINS: tuple[Domain, ...] = tuple(domain(form) for form in ("nvfp4_ds_mla", "fp8_ds_mla", "auto", "fp8"))


def domain_of(case: Any) -> str:
    """Return the name of a write's domain."""
    return f"write {case.kv_cache_dtype}"
