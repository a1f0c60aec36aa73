"""Calls that a target must refuse, or may: each a change of one argument of a good call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from conformance.generation import Geometry, realize
from conformance.judge import Differs, Judge, expected_rows, needed_by
from conformance.memory import Region
from conformance.observe import LeftPending, TargetError, call, look
from fixtures.cases import Arrangement, GatherCase
from fixtures.placement import POISONS, Placement, others, place

Change = Callable[[Placement], Placement]


@dataclass(frozen=True)
class Malformed:
    """A malformed call: the argument at fault, what it is instead of what it should be, and how it gets so.

    `change` applies to the array of that name, or to `changed`; `instead` replaces what is no array.
    """

    argument: str
    found: str
    change: Change | None = None
    changed: str = ""
    instead: Mapping[str, object] = field(default_factory=dict)


def as_type(dtype: type[np.generic]) -> Change:
    """Zeros of another type."""
    return lambda p: replace(p, data=np.zeros(p.data.shape, dtype), poison=p.poison & 0x7F)


def with_width(width: int) -> Change:
    """Zeros of another last dimension."""

    def change(p: Placement) -> Placement:
        data = np.zeros((*p.data.shape[:-1], width), p.data.dtype)
        return replace(p, data=data, strides=_contiguous(data.shape))

    return change


def of_the_other_width(p: Placement) -> Placement:
    """Zeros of 512 elements a row instead of 576, or the other way round."""
    return with_width(576 + 512 - p.data.shape[-1])(p)


def with_shape(*shape: int) -> Change:
    """Zeros of another shape."""
    return lambda p: replace(p, data=np.zeros(shape, p.data.dtype), strides=_contiguous(shape))


def with_inner_stride_two(p: Placement) -> Placement:
    """All strides twice as large, the innermost one included."""
    return replace(p, strides=tuple(2 * stride for stride in p.strides))


def with_rows_that_overlap(p: Placement) -> Placement:
    """A row stride of eight elements less than a row."""
    return replace(p, strides=(p.data.shape[1] - 8, 1))


def shorter(p: Placement) -> Placement:
    """Without the last entry of the first dimension."""
    return replace(p, data=p.data[:-1].copy())


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))


_OF_ANY_GATHER = (
    Malformed("src_cache", "int32", as_type(np.int32)),
    Malformed("src_cache", "int8", as_type(np.int8)),
    Malformed("src_cache", "of rank 2", with_shape(8, 352)),
    Malformed("src_cache", "of rank 4", with_shape(8, 4, 1, 352)),
    Malformed("src_cache", "of records of 351 bytes", with_width(351)),
    Malformed("src_cache", "of records of 656 bytes", with_width(656)),
    Malformed("src_cache", "of blocks of no record", with_shape(8, 0, 352)),
    Malformed("src_cache", "of every other byte", with_inner_stride_two),
    Malformed("dst", "int32", as_type(np.int32)),
    Malformed("dst", "uint8", as_type(np.uint8)),
    Malformed("dst", "float16", as_type(np.float16)),
    Malformed("dst", "of rank 1", with_shape(576)),
    Malformed("dst", "of rank 3", with_shape(2, 3, 576)),
    Malformed("dst", "of rows of 575", with_width(575)),
    Malformed("dst", "of rows of 640", with_width(640)),
    Malformed("dst", "of every other column", with_inner_stride_two),
    Malformed("dst", "of rows that overlap", with_rows_that_overlap),
    Malformed("block_table", "int64", as_type(np.int64)),
    Malformed("block_table", "int16", as_type(np.int16)),
    Malformed("block_table", "of rank 1", with_shape(8)),
    Malformed("block_table", "of rank 3", with_shape(1, 3, 4)),
    Malformed("block_table", "of every other column", with_inner_stride_two),
    Malformed("seq_starts", "int64", as_type(np.int64)),
    Malformed("seq_starts", "int16", as_type(np.int16)),
    Malformed("seq_starts", "of rank 2", with_shape(3, 1)),
    Malformed("seq_starts", "of every other entry", with_inner_stride_two),
)

MALFORMED = (
    *_OF_ANY_GATHER,
    Malformed("workspace_starts", "int64", as_type(np.int64)),
    Malformed("workspace_starts", "float32", as_type(np.float32)),
    Malformed("workspace_starts", "of rank 2", with_shape(3, 1)),
    Malformed("workspace_starts", "of every other entry", with_inner_stride_two),
    Malformed("batch_size", "-1", instead={"batch_size": -1}),
    Malformed("batch_size", "3.0", instead={"batch_size": 3.0}),
    Malformed("batch_size", "one more than the arrays have", instead={"batch_size": 4}),
    Malformed("batch_size", "more than block_table has rows", shorter, changed="block_table"),
    Malformed("batch_size", "more than workspace_starts has entries", shorter, changed="workspace_starts"),
    Malformed("batch_size", "more than seq_starts has entries", shorter, changed="seq_starts"),
)


MALFORMED_GENERIC = (
    *_OF_ANY_GATHER,
    Malformed("src_cache", "of records of 352 bytes", with_width(352)),
    Malformed("src_cache", "of records of 64 elements", with_width(64)),
    Malformed("dst", "of rows of the other width", of_the_other_width),
    Malformed("cu_seq_lens", "int64", as_type(np.int64)),
    Malformed("cu_seq_lens", "of rank 2", with_shape(4, 1)),
    Malformed("cu_seq_lens", "of no entry", with_shape(0)),
    Malformed("cu_seq_lens", "of every other entry", with_inner_stride_two),
    Malformed("token_to_seq", "int64", as_type(np.int64)),
    Malformed("token_to_seq", "of rank 2", with_shape(16, 1)),
    Malformed("token_to_seq", "of every other entry", with_inner_stride_two),
    Malformed("token_to_seq", "shorter than num_tokens", with_shape(15)),
    Malformed("block_table", "of fewer rows than requests", shorter),
    Malformed("seq_starts", "of fewer entries than requests", shorter),
    Malformed("num_tokens", "-1", instead={"num_tokens": -1}),
    Malformed("num_tokens", "16.0", instead={"num_tokens": 16.0}),
    Malformed("num_tokens", "more than dst has rows", shorter, changed="dst"),
    Malformed("kv_cache_dtype", "nvfp4_ds_mla", instead={"kv_cache_dtype": "nvfp4_ds_mla"}),
    Malformed("kv_cache_dtype", "fp8_ds_mla", instead={"kv_cache_dtype": "fp8_ds_mla"}),
    Malformed("kv_cache_dtype", "of no name", instead={"kv_cache_dtype": ""}),
    Malformed("scale", "float64", as_type(np.float64)),
    Malformed("scale", "int32", as_type(np.int32)),
    Malformed("scale", "of two entries", with_shape(2)),
    Malformed("scale", "of rank 2", with_shape(1, 1)),
)
"""Of gather_and_maybe_dequant_cache; beside these, a cache of the type of the other kv_cache_dtype."""


def good_call() -> GatherCase:
    """A case of three requests, every array of which has more than one element along each dimension."""
    return realize(Geometry(4, (5, 2, 9), (3, 1, 6)), seed=1)


def must_refuse(judge: Judge, malformed: Malformed, good: GatherCase | None = None) -> None:
    """Raise Differs unless the target refuses, names the argument and writes nothing (GATHER-11).

    Without seq_starts too, if the call is malformed without them. `good` is what the call is but for that.
    """
    good = good or good_call()
    for with_starts in (True, False) if "seq_starts" not in (malformed.argument, malformed.changed) else (True,):
        what = f"{malformed.argument} {malformed.found}{'' if with_starts else ', no seq_starts'}"
        case = good if with_starts else replace(good, seq_starts=None)
        refusal = attempt(judge, case, malformed)
        if refusal is None:
            raise Differs(judge.text("differs", [f"{what}: accepted"]))
        if malformed.argument not in refusal:
            raise Differs(judge.text("differs", [f"{what}: not named in {refusal}"]))
        judge.count.add(0, 0)


def attempt(judge: Judge, case: GatherCase, malformed: Malformed) -> str | None:
    """Make a malformed call; what the target raised, or None. Raise Differs if it raised but wrote all the same."""
    return _refusal(judge, case, *malformed_arguments(case, malformed))


def malformed_arguments(case: GatherCase, malformed: Malformed) -> tuple[dict[str, Placement], dict[str, Any]]:
    """The arrays of a malformed call, and its other arguments."""
    placements = place(case, POISONS[0])
    name = malformed.changed or malformed.argument
    if malformed.change:
        placements[name] = malformed.change(placements[name])
    return placements, {**others(case), **malformed.instead}


def refuses_or_conforms(judge: Judge, case: GatherCase, argument: str) -> None:
    """Raise Differs unless the target gives the right bits, or refuses, names the argument and writes nothing."""
    refusal = _refusal(judge, case, place(case, POISONS[0]), others(case))
    if refusal is None:
        judge(case)
    elif argument not in refusal:
        raise Differs(judge.text("differs", [f"{argument}, refused, is not named in {refusal}", repr(case)]))
    else:
        judge.count.add(0, 0)


def must_ignore_unused_strides(judge: Judge, name: str, case: GatherCase | None = None) -> None:
    """Raise Differs unless one row of one record is gathered right though no stride of an array means anything."""
    case = case or one_row()
    judge.need(needed_by(case))
    placements = place(case, POISONS[0])
    given = placements[name]
    odd = tuple(stride if size > 1 else 3 for stride, size in zip(given.strides, given.data.shape, strict=True))
    placements[name] = replace(given, strides=odd)
    regions = {each: judge.target.memory.place(placement) for each, placement in placements.items()}
    _legal_call(judge, case, regions)
    judge.compare(case, expected_rows(case), look(judge.target, regions, POISONS[0]))
    judge.count.add(1, case.layout.row)


def one_row() -> GatherCase:
    """A call in which no array has two entries along any dimension but the innermost."""
    return realize(Geometry(1, (1,), (0,)), seed=2)


def two_calls() -> tuple[GatherCase, GatherCase]:
    """Two cases of the same shapes that agree in no argument but workspace_starts."""
    first, second = (realize(Geometry(4, (5, 2, 9), starts), seed) for starts, seed in (((3, 1, 6), 3), ((2, 5, 5), 4)))
    return first, second


def must_read_anew(judge: Judge, cases: tuple[GatherCase, GatherCase] | None = None) -> None:
    """Raise Differs unless a second call on the same arrays gathers what they hold by then (GATHER-14)."""
    first, second = cases or two_calls()
    judge.need(needed_by(first))
    regions = {name: judge.target.memory.place(placement) for name, placement in place(first, POISONS[0]).items()}
    for case in (first, second):
        for name, placement in place(case, POISONS[0]).items():
            judge.target.memory.write(regions[name], placement.data)
        _legal_call(judge, case, regions)
        seen = judge.target.memory.read(regions["dst"])[: case.num_rows]
        judge.same(seen, expected_rows(case), "a call after another one, and the golden model")
        judge.count.add(case.num_rows, seen.size)


def _legal_call(judge: Judge, case: GatherCase, regions: dict[str, Region]) -> None:
    try:
        call(judge.target, regions, case.layout, **others(case))
    except TargetError as error:
        raise judge.crashed(case, error) from error
    judge.target.memory.synchronize()


def _refusal(judge: Judge, case: GatherCase, placements: dict[str, Placement], arguments: dict[str, Any]) -> str | None:
    judge.need(needed_by(case))
    regions = {name: judge.target.memory.place(placement) for name, placement in placements.items()}
    try:
        call(judge.target, regions, case.layout, **arguments)
    except TargetError as error:
        if isinstance(error, LeftPending) or not isinstance(error.__cause__, Exception):  # or tried to end the process
            raise judge.crashed(case, error) from error
        refusal = str(error)
    else:
        return None
    judge.target.memory.synchronize()
    before = placements["dst"].data.copy()
    seen = look(judge.target, regions, POISONS[0])
    if (seen.dst != before).any() or seen.strays or seen.changed:
        raise Differs(judge.text("differs", [f"refused with {refusal}, but wrote"]))
    return refusal


MISALIGNED = {
    "cache by one byte": ("src_cache", Arrangement(cache_shift=1)),
    "cache by eight bytes": ("src_cache", Arrangement(cache_shift=8)),
    "blocks by one byte": ("src_cache", Arrangement(cache_block_slack=1)),
    "blocks by four bytes": ("src_cache", Arrangement(cache_block_slack=4)),
    "records by two bytes": ("src_cache", Arrangement(cache_record_slack=2)),
    "dst by one element": ("dst", Arrangement(dst_shift=2)),
    "dst by two elements": ("dst", Arrangement(dst_shift=4)),
    "dst by four elements": ("dst", Arrangement(dst_shift=8)),
    "dst rows by one element": ("dst", Arrangement(dst_row_slack=1)),
    "dst rows by two elements": ("dst", Arrangement(dst_row_slack=2)),
    "dst rows by four elements": ("dst", Arrangement(dst_row_slack=4)),
}
"""The argument that is aligned less than the contract asks, and how; slack counts elements."""
