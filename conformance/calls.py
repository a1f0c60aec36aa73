"""Calls that a target must refuse, or may: each a change of one argument of a good call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from conformance.generation import Geometry, realize
from conformance.judge import Judge, expected_rows, needed_by
from conformance.malformed_changes import (
    Change,
    as_type,
    of_the_other_width,
    shorter,
    with_inner_stride_two,
    with_rows_that_overlap,
    with_shape,
    with_width,
)
from conformance.memory import Region
from conformance.observe import LeftPending, TargetError, call, look
from conformance.verdict import Differs
from fixtures.cases import Arrangement, GatherCase
from fixtures.placement import POISONS, Placement, others, place, whole


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

    @property
    def name(self) -> str:
        """Argument and fault, such as "dst int32", by which a fixture names the change."""
        return f"{self.argument} {self.found}"


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
"""Of gather_and_maybe_dequant_cache; beside these, OTHER_CACHE."""

OTHER_CACHE = {
    "auto": Malformed("src_cache", "of bytes", as_type(np.uint8)),
    "fp8": Malformed("src_cache", "of bf16", as_type(np.uint16)),
}
"""By kv_cache_dtype, a cache of the type of the other one."""


def good_call() -> GatherCase:
    """A case of three requests, every array of which has more than one element along each dimension."""
    return realize(Geometry(4, (5, 2, 9), (3, 1, 6)), seed=1)


def must_refuse(judge: Judge, malformed: Malformed, good: GatherCase | None = None) -> None:
    """Raise Differs unless the target refuses, names the argument and writes nothing (GATHER-11).

    The call is made with seq_starts, and without them if it is malformed without them too; with those that the target
    claims. `good` is the call before the change.
    """
    good = good or good_call()
    about_starts = "seq_starts" in (malformed.argument, malformed.changed)
    both = [good] if about_starts else [good, replace(good, seq_starts=None)]
    for case in [case for case in both if needed_by(case) in judge.target.capabilities] or both:
        must_refuse_call(judge, malformed, case)


def must_refuse_call(judge: Judge, malformed: Malformed, case: GatherCase) -> None:
    """Raise Differs unless the target refuses one malformed call, names the argument and writes nothing.

    `case` is the call before the change.
    """
    what = malformed.name if case.seq_starts is not None else f"{malformed.name}, no seq_starts"
    judge.need(needed_by(case))
    with judge.on(f"malformed {malformed.name}", case):
        refusal = _refusal(judge, case, *malformed_arguments(case, malformed))
        if refusal is None:
            raise Differs(judge.text("differs", [f"{what}: accepted"]))
        if malformed.argument not in refusal:
            raise Differs(judge.text("differs", [f"{what}: not named in {refusal}"]))
    judge.count.add(0, 0)


def malformed_arguments(case: GatherCase, malformed: Malformed) -> tuple[dict[str, Placement], dict[str, Any]]:
    """Return the arrays of a malformed call, and its other arguments."""
    placements = place(case, POISONS[0])
    name = malformed.changed or malformed.argument
    if malformed.change:
        placements[name] = malformed.change(whole(placements[name]))
    return placements, {**others(case), **malformed.instead}


def as_claimed(judge: Judge, case: GatherCase) -> GatherCase:
    """Return a case, without its seq_starts if the target claims no gather with them."""
    return case if needed_by(case) in judge.target.capabilities else replace(case, seq_starts=None)


def refuses_or_conforms(judge: Judge, case: GatherCase, argument: str) -> None:
    """Raise Differs unless the target gives the right bits, or refuses, names the argument and writes nothing.

    A target that claims no gather with seq_starts is asked without them.
    """
    case = as_claimed(judge, case)
    judge.need(needed_by(case))
    with judge.on(f"misaligned {argument}", case):
        refusal = _refusal(judge, case, place(case, POISONS[0]), others(case))
        if refusal is None:
            judge.must_conform(case)
        elif argument not in refusal:
            raise Differs(judge.text("differs", [f"{argument}, refused, is not named in {refusal}", repr(case)]))
        else:
            judge.count.add(0, 0)


def must_ignore_unused_strides(judge: Judge, name: str, case: GatherCase | None = None) -> None:
    """Raise Differs unless one row of one record is gathered right though no stride of an array means anything.

    A target that claims no gather with seq_starts is asked without them, unless the array is seq_starts.
    """
    case = case or one_row()
    case = case if name == "seq_starts" else as_claimed(judge, case)
    judge.need(needed_by(case))
    with judge.on(f"strides {name}", case):
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
    """Raise Differs unless a second call on the same arrays gathers what they hold by then (GATHER-14).

    A target that claims no gather with seq_starts is asked without them.
    """
    first, second = (as_claimed(judge, case) for case in cases or two_calls())
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
    """Return what the target raised, None if it did not. Raise Differs if it raised and wrote all the same."""
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
