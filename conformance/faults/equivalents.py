"""Describe changes that look like faults but change no legal call. Each has a check of the argument."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from unittest.mock import patch

import numpy as np

from conformance.cases import NAMED, cases_of
from conformance.plans import PlanCase, small_scope
from fixtures.placement import POISONS, place
from reference import chunks, quantize
from reference.chunks import plan_mla_context_chunks
from reference.records import NVFP4_DS_MLA
from reference.scalars import E2M1, E4M3, Bf16Bits, Floats, bf16_from_f32, f32_from_bf16
from reference.shards import Sharding


@dataclass(frozen=True)
class Equivalent:
    """Describe a change that no legal call shows: the reason, and a check that raises AssertionError if it is wrong."""

    name: str
    argument: str
    check: Callable[[], None]


def _shifted_and_clamped() -> None:
    for size, start, length in product(range(1, 6), range(20), range(1, 20)):
        last = (start + length - 1) // size  # column of a table row without a spare column
        row = np.arange(length)
        shifted = np.minimum(start // size + row // size, last) * size + row % size
        assert (shifted == start // size * size + row).all(), (size, start, length)


def _the_one_before_the_last() -> None:
    for case in (case for named in NAMED for case in cases_of(named)):
        starts, silent = case.workspace_starts, ~case.owners
        for poison in POISONS:
            arrays = place(case, poison)
            for request in np.flatnonzero(silent[:-1] & silent[1:] & (starts[:-1] == starts[1:])):
                for name in {"block_table", "seq_starts"} & arrays.keys():
                    first, second = arrays[name].data[request : request + 2]
                    assert (first == second).all(), (repr(case), poison.name, request)


def _products_are_exact() -> None:
    codes, scales = np.meshgrid(np.arange(16, dtype=np.uint8), np.arange(256, dtype=np.uint8))
    with np.errstate(invalid="ignore"):
        exact = E2M1.decode(codes).astype(np.float64) * E4M3.decode(scales)
    known = ~np.isnan(exact)
    assert NVFP4_DS_MLA.scales.scalar is E4M3 and NVFP4_DS_MLA.latent.scalar is E2M1
    assert (f32_from_bf16(bf16_from_f32(exact.astype(np.float32)))[known] == exact[known]).all()
    assert (exact[known] == exact[known].astype(np.float32)).all()


def _every_amax() -> Floats:
    """Return all finite magnitudes of bf16, ascending: float32 [32,640]."""
    bits: Bf16Bits = np.arange(0x7F80, dtype=np.uint16)
    return f32_from_bf16(bits)


def _sixths_round_alike() -> None:
    bytes_of = [quantize.scale_bytes(quantize.scale_factors(_every_amax(), how), "nearest") for how in HOW]
    assert (bytes_of[0] == bytes_of[1]).all()


HOW = ("divided", "multiplied")


def _plans(requests: int, longest: int) -> Iterator[tuple[PlanCase, list[chunks.Chunk]]]:
    for case in small_scope(requests, longest):
        yield case, plan_mla_context_chunks(*case.arguments)


def _all_of_the_rest() -> None:
    """Check that plans stay equal if a cut piece may be as long as the rest.

    The planner cuts only after the rest did not fit, so the longer bound changes nothing.
    """
    expected = [*_plans(2, 7)]
    right = chunks._largest_piece
    with patch.object(chunks, "_largest_piece", lambda rest, *more: right(rest + 1, *more)):
        for case, plan in expected:
            assert plan_mla_context_chunks(*case.arguments) == plan, case


def _largest_piece_as_it_is() -> None:
    for case in small_scope(2, 7):
        alignment = case.split_alignment
        for most in range(alignment, case.max_context_chunk + 1, alignment):  # those that bind, too
            bound = replace(case, max_context_chunk=most)
            expected = plan_mla_context_chunks(*bound.arguments)
            for more in range(1, alignment):
                found = plan_mla_context_chunks(*replace(bound, max_context_chunk=most + more).arguments)
                assert found == expected, (bound, more)


def _starts_over_ranks() -> None:
    for ranks, interleave, alignment, turns in product(range(1, 9), range(1, 9), (1, 16, 64), range(20)):
        sharding = Sharding(ranks, interleave)
        start = turns * sharding.alignment(alignment)
        assert sharding.padded_rows(start) == start // ranks == sharding.local_length(start, ranks - 1)


EQUIVALENTS = (
    Equivalent(
        "a block table shifted by whole blocks and clamped at its last column (the abandoned design)",
        "it is the fault start-rounded-down, since the token that a legal call then reads is never beyond the last one "
        "that is due, and the clamp never binds. Enumerated: blocks up to 5, starts and lengths below 20, tables "
        "without a spare column.",
        _shifted_and_clamped,
    ),
    Equivalent(
        "the request before the last one on equal workspace_starts, instead of the first",
        "neither owns a row, so that what belongs to them is poison alike. Checked: every input that broke a kernel.",
        _the_one_before_the_last,
    ),
    Equivalent(
        "a product of READ rounded once, twice, toward zero, or with ties away",
        "every product of a code of e2m1 and a scale of e4m3 is a number of bf16. Proved: 16 codes, 256 bytes.",
        _products_are_exact,
    ),
    Equivalent(
        "amax times the binary32 next to 1/6 instead of amax / 6, with a scale byte to the nearest",
        "no quotient of a bf16 by 6 is so near to a tie of e4m3 that the last bit of binary32 matters. "
        "Proved: all 32,640 finite amax.",
        _sixths_round_alike,
    ),
    Equivalent(
        "a planner that lets a piece that is cut off be all of the rest",
        "it cuts only where the rest did not fit. Enumerated: two requests of up to 7 tokens, every budget.",
        _all_of_the_rest,
    ),
    Equivalent(
        "max_context_chunk not rounded down to split_alignment by the caller",
        "pieces are multiples of split_alignment anyway. Enumerated: as before, every remainder.",
        _largest_piece_as_it_is,
    ),
    Equivalent(
        "a local start as start // ranks instead of padded_rows(start)",
        "chunks are cut where every rank's turn is over. Enumerated: up to 8 ranks, turns of up to 8.",
        _starts_over_ranks,
    ),
)
