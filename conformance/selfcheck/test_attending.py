"""ATTEND: wrong gathers, loops and merges are seen by the gate's own batches."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conformance import attending
from conformance.attend_calls import judge_alone, judge_attend, judge_cuts
from conformance.attending import must_attend_to_its_context
from conformance.context_cases import ACCEPTANCE, NAMED, SHARDED, of
from conformance.faults import loop_steps
from conformance.faults.defects import find_defect
from conformance.faults.loop import Loop, right_rows
from conformance.faults.loops import DEFECTS
from conformance.gate.test_attend import OWN_LOOPS
from conformance.judge import Judge
from conformance.selfcheck.bf16_loops import BF16, attend_with_a_sum_of_rounded_weights
from conformance.selfcheck.meddling import Call, Meddling, write_behind
from conformance.verdict import Crashed, Differs
from fixtures.context_cases import ContextCase
from reference import context
from reference.shards import interleaved

NUMPY = Loop()
CONTINUED, GAP = OWN_LOOPS["a continuation beside two others"], OWN_LOOPS["no context between two"]
STEEP = NAMED["scores that no exponential holds, of either sign"]
LARGE = NAMED["many query tokens, five heads of a real size"]
GAPS = NAMED["requests without context everywhere"]
UNEVEN = SHARDED["a workspace that is no multiple of blocks and stripes"]
UNALIGNED = NAMED["a row budget that is no multiple of the block"]

CASES: dict[str, ContextCase] = {
    "table-of-the-batch": GAPS,
    "query-start-loc-of-the-batch": GAPS,
    "starts-ignored": ACCEPTANCE,
    "empty-not-written": GAP,
    "empty-left-as-memory-was": GAP,
    "empty-has-weight": GAP,
    "without-scale": of(CONTINUED, "fp8"),
    "scale-in-bf16": of(CONTINUED, "fp8"),
    "without-a-maximum": STEEP,
    "merged-without-a-maximum": STEEP,
    "64-query-tokens": LARGE,
    "four-heads": LARGE,
    "maximum-of-all-requests": STEEP,
}
"""A batch of the gate that shows a defect, if it is not CONTINUED."""

AFTER_OTHERS = "attend-scale-of-the-first-call"
LOOPS = {defect.name: defect for defect in DEFECTS if defect.name != AFTER_OTHERS}
SAID_IN_BF16 = {"attend-queries-scaled-in-bf16", "attend-scale-in-bf16"}


def case_of(name: str) -> ContextCase:
    return CASES.get(name.removeprefix("attend-"), CONTINUED)


@pytest.mark.parametrize("name", LOOPS)
def test_a_faulty_loop_is_caught(name: str) -> None:
    with pytest.raises((Differs, Crashed)):
        judge_attend(Judge(LOOPS[name].target(), ["ATTEND-2"]), case_of(name))


def test_a_loop_that_remembers_a_call_is_caught() -> None:
    target = find_defect(AFTER_OTHERS).target()
    judge_attend(Judge(target, ["ATTEND-6"]), CONTINUED)
    with pytest.raises(Differs):
        judge_attend(Judge(target, ["ATTEND-6"]), STEEP)


@pytest.mark.parametrize("case", [ACCEPTANCE, CONTINUED, GAP, of(CONTINUED, "fp8")], ids=repr)
def test_a_loop_of_the_golden_steps_conforms(case: ContextCase) -> None:
    judge_attend(Judge(NUMPY, ["ATTEND-2"]), case)


def test_a_loop_that_merges_everything_conforms_if_its_merge_does() -> None:
    loop = Loop(accumulate=loop_steps.merged_everywhere, memory=loop_steps.infinities)
    judge_attend(Judge(loop, ["ATTEND-2"]), CONTINUED)


def test_a_loop_that_is_wrong_for_one_cut_alone_is_caught() -> None:
    def rows(call: Any, chunk: Any) -> Any:
        return (
            loop_steps.without_starts(call, chunk)
            if (chunk.starts, chunk.seq_lens) == ((7,), (4,))
            else right_rows(call, chunk)
        )

    with pytest.raises(Differs, match="workspace_rows=7"):
        judge_cuts(Judge(Loop(rows=rows), ["ATTEND-6"]), ContextCase((11,), (3,), 1, 1, False, seed=40))


def test_a_loop_that_is_wrong_for_a_request_alone_is_caught() -> None:
    def accumulate(result: Any, chunk: Any, partial: Any, merge: Any) -> None:
        context.accumulate(result, chunk, partial, merge)
        if len(result.output) == 3:
            result.lse[...] += 1

    with pytest.raises(Differs, match="origin='alone'"):
        judge_alone(Judge(Loop(accumulate=accumulate), ["ATTEND-6"]), ContextCase((40, 9), (2, 3), 16, 48))


@pytest.mark.parametrize("case", [ACCEPTANCE, CONTINUED, *NAMED.values()], ids=lambda case: case.origin or case.seed)
def test_a_loop_in_bf16_conforms_if_it_says_so(case: ContextCase) -> None:
    loop = Loop(**BF16)
    with pytest.raises(Differs):
        judge_attend(Judge(loop, ["ATTEND-2"]), case)
    loop.attends_in = "bf16"
    judge_attend(Judge(loop, ["ATTEND-2"]), case)


@pytest.mark.parametrize("largest_score", [16, 2.0**-10])
def test_a_loop_in_bf16_may_sum_rounded_weights(largest_score: float) -> None:
    loop = Loop(**{**BF16, "attend": attend_with_a_sum_of_rounded_weights})
    loop.attends_in = "bf16"
    judge_attend(
        Judge(loop, ["ATTEND-2"]), ContextCase((200, 5, 13), (2, 3, 1), 4, 7, False, largest_score=largest_score)
    )


@pytest.mark.parametrize("name", sorted(LOOPS.keys() - {"attend-row-behind-its-own", *SAID_IN_BF16}))
def test_a_faulty_loop_in_bf16_is_caught(name: str) -> None:
    faulty = LOOPS[name].target()
    assert isinstance(faulty, Loop)
    loop = Loop(**{**BF16, **faulty.replaced})
    loop.attends_in = "bf16"
    with pytest.raises((Differs, Crashed)):
        judge_attend(Judge(loop, ["ATTEND-2"]), case_of(name))


def ignore_starts(call: Call) -> None:
    call["seq_starts"] = None


def leave_the_last_row(call: Call) -> None:
    call["dst"] = call["dst"][:-1]


def write_a_row_more(call: Call) -> None:
    write_behind(call["dst"], 1)


@pytest.mark.parametrize(
    "case", [ACCEPTANCE, UNALIGNED, SHARDED["a workspace that is no multiple of blocks and stripes"]]
)
@pytest.mark.parametrize(
    "gatherer",
    [Meddling(before=ignore_starts), Meddling(before=leave_the_last_row), Meddling(after=write_a_row_more)],
    ids=["ignores starts", "leaves the last row", "writes a row more"],
)
def test_a_faulty_gather_is_caught(gatherer: Meddling, case: ContextCase) -> None:
    with pytest.raises((Differs, Crashed)):
        must_attend_to_its_context(Judge(gatherer, ["ATTEND-1"]), case)


def test_a_gather_that_gives_the_first_chunk_for_all_is_caught() -> None:
    first: list[Any] = []

    def repeat(call: Call) -> None:
        first.append(call["dst"].copy())
        call["dst"][:] = np.resize(first[0], call["dst"].shape)

    with pytest.raises(Differs, match="chunk 1, rows, row 0 = request 0 token 512"):
        must_attend_to_its_context(Judge(Meddling(after=repeat), ["ATTEND-1"]), ACCEPTANCE)


def test_a_last_row_that_the_chunk_before_left_is_caught_by_the_poison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attending, "LEFTOVERS", (None,))  # only what chunks leave
    with pytest.raises(Differs, match=r"expected 0x.*, got 0x"):
        must_attend_to_its_context(Judge(Meddling(before=leave_the_last_row), ["ATTEND-1"]), ACCEPTANCE)


@pytest.mark.parametrize("name", ["Q", "K", "V"])
def test_what_is_made_of_right_rows_is_compared_too(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def nudged(*arguments: Any) -> Any:
        k, v = right(*arguments)
        touched = k if name == "K" else v
        touched[-1, -1, -1] = np.nextafter(touched[-1, -1, -1], np.inf)
        return k, v

    case, right = ACCEPTANCE, context.keys_and_values
    if name == "Q":
        tokens = [replace(chunk, token_slice=slice(1, None)) for chunk in case.chunked_context.chunks]
        case = replace(ACCEPTANCE, seed=99)
        vars(case)["chunked_context"] = replace(case.chunked_context, chunks=tuple(tokens))
    else:
        monkeypatch.setattr(context, "keys_and_values", nudged)
    with pytest.raises(Differs, match=f"chunk 0, {name}, row"):
        must_attend_to_its_context(Judge(NUMPY, ["ATTEND-1"]), case)


def test_a_faulty_merge_of_the_target_is_caught() -> None:
    class Averages(Loop):
        def merge_attn_states(self, output: Any, prefix_output: Any, *others: Any, **named: Any) -> None:
            super().merge_attn_states(output, prefix_output, *others, **named)
            output[:] = (prefix_output + named["suffix_output"]) / 2

    with pytest.raises(Differs, match="output"):
        must_attend_to_its_context(Judge(Averages(), ["ATTEND-1"]), ACCEPTANCE)


def test_ranks_in_another_order_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attending, "interleaved", lambda shards, *others: interleaved(shards[::-1], *others))
    with pytest.raises(Differs, match="rows, row 0 = request 0 token 0"):
        must_attend_to_its_context(Judge(NUMPY, ["ATTEND-7"]), UNEVEN)


def test_starts_that_are_not_a_rank_s_own_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = attending.local

    def in_tokens(chunk: Any) -> Any:
        starts, *others = right(chunk)
        return (starts * 2, *others)

    monkeypatch.setattr(attending, "local", in_tokens)
    with pytest.raises((Differs, Crashed)):
        must_attend_to_its_context(
            Judge(NUMPY, ["ATTEND-7"]), SHARDED["a rank that is short of tokens in the last of two chunks"]
        )
