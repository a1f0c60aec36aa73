"""Calls that a target must refuse, or may: each a change of one argument of a good call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conformance.generation import Geometry, realize
from conformance.judge import Differs, Judge
from conformance.observe import call, look
from fixtures.cases import Arrangement, GatherCase
from fixtures.placement import POISONS, Placement, place

Change = Callable[[Placement], Placement]


@dataclass(frozen=True)
class Malformed:
    """A malformed call: the argument at fault, and what it is instead of what it should be."""

    argument: str
    found: str
    change: Change | None = None
    batch_size: int | None = None


def _as_type(dtype: type[np.generic]) -> Change:
    return lambda p: replace(p, data=np.zeros(p.data.shape, dtype), poison=p.poison & 0x7F)


def _with_width(width: int) -> Change:
    def change(p: Placement) -> Placement:
        data = np.zeros((*p.data.shape[:-1], width), p.data.dtype)
        return replace(p, data=data, strides=_contiguous(data.shape))

    return change


def _with_shape(*shape: int) -> Change:
    return lambda p: replace(p, data=np.zeros(shape, p.data.dtype), strides=_contiguous(shape))


def _with_inner_stride_two(p: Placement) -> Placement:
    return replace(p, strides=tuple(2 * stride for stride in p.strides))


def _with_row_stride(stride: int) -> Change:
    return lambda p: replace(p, strides=(stride, 1))


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))


MALFORMED = (
    Malformed("src_cache", "int32", _as_type(np.int32)),
    Malformed("src_cache", "of rank 2", _with_shape(8, 352)),
    Malformed("src_cache", "of records of 351 bytes", _with_width(351)),
    Malformed("src_cache", "of records of 656 bytes", _with_width(656)),
    Malformed("src_cache", "of blocks of no record", _with_shape(8, 0, 352)),
    Malformed("src_cache", "of every other byte", _with_inner_stride_two),
    Malformed("dst", "int32", _as_type(np.int32)),
    Malformed("dst", "uint8", _as_type(np.uint8)),
    Malformed("dst", "of rank 1", _with_shape(576)),
    Malformed("dst", "of rank 3", _with_shape(2, 3, 576)),
    Malformed("dst", "of rows of 575", _with_width(575)),
    Malformed("dst", "of rows of 640", _with_width(640)),
    Malformed("dst", "of every other column", _with_inner_stride_two),
    Malformed("dst", "of rows that overlap", _with_row_stride(568)),
    Malformed("block_table", "int64", _as_type(np.int64)),
    Malformed("block_table", "of rank 1", _with_shape(8)),
    Malformed("block_table", "of every other column", _with_inner_stride_two),
    Malformed("workspace_starts", "int64", _as_type(np.int64)),
    Malformed("workspace_starts", "of rank 2", _with_shape(3, 1)),
    Malformed("workspace_starts", "of every other entry", _with_inner_stride_two),
    Malformed("seq_starts", "int64", _as_type(np.int64)),
    Malformed("seq_starts", "of rank 2", _with_shape(3, 1)),
    Malformed("seq_starts", "of every other entry", _with_inner_stride_two),
    Malformed("batch_size", "-1", batch_size=-1),
    Malformed("batch_size", "one more than the arrays have", batch_size=4),
    Malformed("batch_size", "more than block_table has rows", lambda p: p, batch_size=3),
)
"""The last one's table is a row short."""


def good_call() -> GatherCase:
    """A case of three requests, every array of which has more than one element along each dimension."""
    return realize(Geometry(4, (5, 2, 9), (3, 1, 6)), seed=1)


def must_refuse(judge: Judge, malformed: Malformed) -> None:
    """Raise Differs unless the target refuses, names the argument and writes nothing (GATHER-11)."""
    error = attempt(judge, good_call(), malformed)
    if error is None:
        raise Differs(judge.text("differs", [f"{malformed.argument} {malformed.found}: accepted"]))
    if malformed.argument not in str(error):
        raise Differs(judge.text("differs", [f"{malformed.argument} {malformed.found}: not named in {error!r}"]))


def attempt(judge: Judge, case: GatherCase, malformed: Malformed) -> Exception | None:
    """Make a malformed call; what the target raised, or None. Raise Differs if it raised but wrote all the same."""
    placements = place(case, POISONS[0])
    if malformed.found == "more than block_table has rows":
        placements["block_table"] = replace(placements["block_table"], data=case.block_table[:2].copy())
    elif malformed.change:
        placements[malformed.argument] = malformed.change(placements[malformed.argument])
    regions = {name: judge.target.memory.place(placement) for name, placement in placements.items()}
    count = case.batch_size if malformed.batch_size is None else malformed.batch_size
    try:
        call(judge.target, regions, count)
    except Exception as error:  # of whatever kind: it is a refusal
        refusal = error
    else:
        return None
    judge.target.memory.synchronize()
    _nothing_written(judge, regions, refusal)
    return refusal


def refuses_or_conforms(judge: Judge, case: GatherCase) -> None:
    """Raise Differs unless the target gives the right bits, or refuses and writes nothing (GATHER-12)."""
    regions = {name: judge.target.memory.place(placement) for name, placement in place(case, POISONS[0]).items()}
    try:
        call(judge.target, regions, case.batch_size)
    except Exception as refusal:
        judge.target.memory.synchronize()
        _nothing_written(judge, regions, refusal)
        judge.count.add(0, 0)
    else:
        judge(case)


def _nothing_written(judge: Judge, regions: dict[str, Any], refusal: Exception) -> None:
    before = regions["dst"].placement.data.copy()
    seen = look(judge.target, regions, POISONS[0])
    if (seen.dst != before).any() or seen.strays or seen.changed:
        raise Differs(judge.text("differs", [f"refused with {refusal!r}, but wrote"]))


MISALIGNED = {
    "cache by one byte": Arrangement(cache_shift=1),
    "cache by eight bytes": Arrangement(cache_shift=8),
    "blocks by one byte": Arrangement(cache_block_slack=1),
    "blocks by four bytes": Arrangement(cache_block_slack=4),
    "records by two bytes": Arrangement(cache_record_slack=2),
    "dst by one element": Arrangement(dst_shift=2),
    "dst by two elements": Arrangement(dst_shift=4),
    "dst by four elements": Arrangement(dst_shift=8),
    "dst rows by one element": Arrangement(dst_row_slack=1),
    "dst rows by four elements": Arrangement(dst_row_slack=4),
}
