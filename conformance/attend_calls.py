"""ATTEND-2 to ATTEND-6: a target's own loop over chunks, against one softmax over the whole context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from conformance.close import must_be_close
from conformance.context_generation import Batch, alone, realize
from conformance.judge import Judge
from conformance.observe import TargetError, invoke
from conformance.one_softmax import Arithmetic, Float64s, Whole, attend_whole, error_bounds
from conformance.targets.base import ATTEND
from conformance.verdict import NotJudged, Unsupported
from fixtures.context_cases import ContextCase
from fixtures.placement import POISONS, placement
from reference.merging import Partial

Bounds = tuple[Float64s, Float64s]
Asked = tuple[Batch, float]
"""A batch and its softmax_scale."""


@dataclass(frozen=True)
class LoopSighting:
    """What the last of several calls of a loop over chunks gave: `found`, where `whole` is right within `bounds`."""

    asked: tuple[Asked, ...]
    whole: Whole
    found: Partial
    bounds: Bounds


def judge_attend(judge: Judge, case: ContextCase) -> None:
    """Raise Differs, Crashed or Unsupported unless the target attends to a batch's context."""
    need_attend(judge, case.kv_cache_dtype)
    with judge.on("compute_prefill_context", case):
        batch = realize(case, judge.target.profile, POISONS[case.seed % len(POISONS)])
        judge_batch(judge, batch, attend_whole(batch))


def need_attend(judge: Judge, kv_cache_dtype: str) -> None:
    """Raise Unsupported or NotJudged if the target has no such loop."""
    judge.need(ATTEND)
    if kv_cache_dtype not in judge.target.attends:
        raise Unsupported(f"target {judge.target.name} does not attend to {kv_cache_dtype}")


def judge_batch(judge: Judge, batch: Batch, whole: Whole, before: Sequence[Asked] = ()) -> None:
    """Judge one call on a batch whose answer is known, after those of `before`."""
    found = _call(judge, batch, whole.softmax_scale)
    bounds = bounds_of(batch, whole, judge.target.attends_in)
    asked = (*before, (batch, whole.softmax_scale))
    must_be_close(judge, batch, whole, found, bounds, LoopSighting(asked, whole, found, bounds))
    judge.count.add(0, 0)


def bounds_of(batch: Batch, whole: Whole, kind: Literal["binary32", "bf16"]) -> Bounds:
    """Return how far output and LSE of a loop that computes in a type may be off (ATTEND-2)."""
    terms = int(np.count_nonzero(batch.kv_b_proj, axis=2).max())
    return error_bounds(whole, batch.case.chunked_context, Arithmetic(terms, kind))


def _call(judge: Judge, batch: Batch, softmax_scale: float) -> Partial:
    arguments = batch.arguments(softmax_scale)
    answers: list[tuple[np.ndarray, np.ndarray]] = []

    def attend(**given: object) -> None:
        answers.append(judge.target.compute_prefill_context(**given))  # type: ignore[arg-type]

    leave_garbage(judge, batch)
    try:
        invoke(judge.target, attend, arguments)
        judge.target.memory.synchronize()
        output, lse = (np.array(each) for each in answers[0])
    except MemoryError as error:
        raise NotJudged(f"too little memory for {batch.case!r}: {error}") from error
    except TargetError as error:
        raise judge.crashed(batch.case, error) from error
    return Partial(output, lse)


def leave_garbage(judge: Judge, batch: Batch) -> None:
    """Free memory that is as large as the results, and full of NaN, for the next allocation to find (ATTEND-3)."""
    tokens, heads, size = len(batch.q), batch.case.heads, batch.case.v_head_dim
    for shape in ((tokens, heads, size), (heads, tokens)):
        garbage = np.full(shape, np.nan, np.float32)
        flat = tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
        regions = [judge.target.memory.place(placement(garbage, flat, 0x7F)) for _ in range(4)]
        copies = [garbage.copy() for _ in range(4)]
        del regions, copies


def judge_cuts(judge: Judge, case: ContextCase) -> None:
    """Raise Differs unless a batch has its result with every workspace that its requests can be cut for (ATTEND-6)."""
    need_attend(judge, case.kv_cache_dtype)
    batch = realize(case, judge.target.profile)
    whole = attend_whole(batch)
    least = case.block_size if case.aligned else 1
    for rows in range(least, sum(case.context_lens) + 2):
        judge_batch(judge, replace(batch, case=replace(case, workspace_rows=rows)), whole)


def judge_alone(judge: Judge, case: ContextCase) -> None:
    """Raise Differs unless each request has, by itself, what it has in the batch, and in the batch once more."""
    need_attend(judge, case.kv_cache_dtype)
    batch = realize(case, judge.target.profile)
    whole = attend_whole(batch)
    ones = [alone(batch, request) for request, length in enumerate(case.context_lens) if length]
    wholes = [attend_whole(one, whole.softmax_scale) for one in ones]
    _judge_in_turn(judge, [(batch, whole), *zip(ones, wholes, strict=True), (batch, whole)])


def judge_one_after_the_other(judge: Judge, cases: Sequence[ContextCase]) -> None:
    """Raise Differs unless each of several calls has its own result, whatever was called before (ATTEND-6)."""
    need_attend(judge, cases[0].kv_cache_dtype)
    batches = [realize(case, judge.target.profile, POISONS[case.seed % len(POISONS)]) for case in cases]
    _judge_in_turn(judge, [(batch, attend_whole(batch)) for batch in batches])


def _judge_in_turn(judge: Judge, batches: Sequence[tuple[Batch, Whole]]) -> None:
    before: list[Asked] = []
    for batch, whole in batches:
        judge_batch(judge, batch, whole, before)
        before.append((batch, whole.softmax_scale))
