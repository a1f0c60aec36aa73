"""Define defects of the loop over chunks of context: golden steps, some of them replaced."""

from __future__ import annotations

from functools import partial
from typing import Any

from conformance.faults import loop_steps as steps
from conformance.faults.defect import Defect
from conformance.faults.loop import Loop
from conformance.targets.base import ATTEND


def of_steps(**wrong: Any) -> Loop:
    """Return a loop with these steps replaced. It claims ATTEND only."""
    loop = Loop(**wrong)
    loop.capabilities = frozenset({ATTEND})  # type: ignore[misc]
    return loop


def _defect(clause: int, name: str, sentence: str, source: str = "", **wrong: Any) -> Defect:
    return Defect(f"attend-{name}", sentence, f"ATTEND-{clause}", "context", partial(of_steps, **wrong), source)


DEFECTS = (
    _defect(
        2, "starts-ignored", "each chunk's rows are those from a request's first token on", rows=steps.without_starts
    ),
    _defect(2, "average", "partial results are averaged without weights", merge=steps.average),
    _defect(2, "lse-of-the-last", "the LSE is that of the last chunk alone", merge=steps.lse_of_the_last),
    _defect(
        2,
        "plus-infinity-has-weight",
        "chunks are merged into what was there, and an LSE of +inf is a weight",
        "vllm 15492",
        merge=steps.inf_as_weight,
        accumulate=steps.merged_everywhere,
        memory=steps.infinities,
    ),
    _defect(2, "values-first", "kv_b_proj is taken to have values before keys", project=steps.values_first),
    _defect(
        2, "rope-for-head-0", "RoPE elements are keys of the first head alone", project=steps.rope_for_head_0_alone
    ),
    _defect(2, "without-softmax-scale", "softmax_scale is left out", attend=steps.without_softmax_scale),
    _defect(
        2,
        "queries-scaled-in-bf16",
        "queries times softmax_scale are rounded to bf16",
        attend=steps.with_queries_scaled_in_bf16,
    ),
    _defect(2, "without-scale", "the scale of fp8 is left out", rows=steps.without_fp8_scale),
    _defect(2, "scale-in-bf16", "the scale of fp8 is rounded to bf16", rows=steps.with_the_scale_in_bf16),
    _defect(2, "causal", "the last token of a chunk is masked", attend=steps.with_a_causal_mask),
    _defect(2, "lse-to-base-2", "the LSE is to the base 2", attend=steps.to_base_2),
    _defect(2, "without-a-maximum", "exponentials are those of the scores themselves", attend=steps.without_a_maximum),
    _defect(
        2,
        "merged-without-a-maximum",
        "weights of a merge are exponentials of the LSEs",
        merge=steps.merge_without_a_maximum,
    ),
    _defect(
        2,
        "64-query-tokens",
        "query tokens of a request from the 65th on are left out",
        attend=steps.with_64_queries_of_a_request,
    ),
    _defect(2, "four-heads", "heads from the fifth on are left out", attend=steps.with_the_first_four_heads),
    _defect(
        3,
        "empty-not-written",
        "the result of a request without context is not written",
        "sglang 22291",
        write_empty=steps.untouched,
    ),
    _defect(
        3,
        "empty-left-as-memory-was",
        "the result of a request without context is what uninitialised memory holds",
        "flashinfer 3047",
        write_empty=steps.untouched,
        memory=steps.whatever_was_there,
    ),
    _defect(
        3,
        "empty-has-weight",
        "the LSE of a request without context is 0, a weight",
        write_empty=steps.untouched,
        memory=steps.zeros,
    ),
    _defect(
        4,
        "row-of-the-chunk-before",
        "the last row of a chunk is what an earlier, longer one left there",
        rows=steps.with_a_row_of_the_chunk_before,
    ),
    _defect(
        4,
        "row-behind-its-own",
        "the last request of a chunk attends to a row behind the chunk's own",
        rows=steps.with_a_row_behind_its_own,
        attend=steps.attend_to_all_rows,
    ),
    _defect(
        5,
        "merged-into-the-next-request",
        "a continuation is merged with the first token of the next request too",
        accumulate=steps.boundary_moved(1),
    ),
    _defect(
        5,
        "zeros-merged-into-the-next-request",
        "a continuation is merged with the first token of the next request too, in memory of zeros",
        accumulate=steps.boundary_moved(1),
        memory=steps.zeros,
    ),
    _defect(
        5,
        "continuation-stops-short",
        "the last token of a continued request is overwritten, not merged",
        accumulate=steps.boundary_moved(-1),
    ),
    _defect(
        5, "continuation-overwritten", "a continued request is overwritten, not merged", accumulate=steps.overwritten
    ),
    _defect(
        5,
        "merged-with-zeros",
        "every chunk is merged with what was there, which begins as zeros",
        accumulate=steps.merged_everywhere,
        memory=steps.zeros,
    ),
    _defect(6, "first-chunk-for-all", "every chunk has the first one's rows", rows=steps.of_the_first_chunk),
    _defect(
        6,
        "table-of-the-batch",
        "a chunk's requests are counted from the first of the batch",
        rows=steps.from_the_top_of_the_table,
    ),
    _defect(
        6,
        "query-start-loc-of-the-batch",
        "a chunk's query tokens are counted from the first of the batch",
        attend=steps.with_the_batch_s_query_start_loc,
    ),
    Defect(
        "attend-scale-of-the-first-call",
        "softmax_scale is that of the first call",
        "ATTEND-6",
        "context",
        lambda: of_steps(attend=steps.with_the_first_softmax_scale()),
    ),
    _defect(
        6,
        "maximum-of-all-requests",
        "one maximum is subtracted from the scores of all requests of a chunk",
        attend=steps.with_one_maximum,
    ),
)
