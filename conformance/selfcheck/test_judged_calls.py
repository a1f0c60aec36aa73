"""Batches, refusals and repeated calls: what judges them sees every way of going wrong."""

from collections.abc import Callable
from typing import Any

import pytest

from conformance.calls import (
    MALFORMED,
    good_call,
    must_ignore_unused_strides,
    must_read_anew,
    must_refuse,
    refuses_or_conforms,
)
from conformance.cases import STRIDED, strided_gather
from conformance.judge import Judge
from conformance.selfcheck.meddling import Call, Meddling, case, write, write_behind
from conformance.small_scope import Batch, Part, batches, judge_batch
from conformance.targets.models import NumpyTarget
from conformance.verdict import Crashed, Differs


def batch() -> Batch:
    return next(some for some in batches(2, Part(2)) if some.lengths[0] == (2, 3))


def test_a_batch_of_small_gathers_that_conform_is_counted_call_by_call() -> None:
    judge = Judge(NumpyTarget())
    judge_batch(judge, batch())
    assert (judge.count.cases, judge.count.rows) == (25, 25 * 5)


@pytest.mark.parametrize(
    ("after", "says"),
    [
        (write("dst", (4, 100), 1), "row 4 = request 1 token .*\n.*element 100"),
        (lambda call: write_behind(call["dst"], 1), "dst: written outside its elements: row 5 column 0"),
        (write("block_table", (1, 3), 3), r"block_table: an input, but overwritten at \[1, 3\]"),
        (lambda call: write_behind(call["src_cache"], 1), "outside of all calls' rows: .*src_cache"),
    ],
)
def test_a_small_gather_that_goes_wrong_is_seen(after: Callable[[Call], None], says: str) -> None:
    with pytest.raises(Differs, match=says):
        judge_batch(Judge(Meddling(after=after)), batch())


class Lenient(NumpyTarget):
    """Accepts everything."""

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, *args: Any, **named: Any) -> None:
        """Do nothing."""


class Grumpy(NumpyTarget):
    """Refuses everything, without a word on why, after it has written."""

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, *args: Any, **named: Any) -> None:
        named["dst"][...] = 0
        raise ValueError("no")


class Mute(NumpyTarget):
    """Refuses everything with the same words."""

    def __init__(self, words: str = "no") -> None:
        super().__init__()
        self.words = words

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, *args: Any, **named: Any) -> None:
        raise ValueError(self.words)


@pytest.mark.parametrize("malformed", MALFORMED, ids=lambda m: f"{m.argument} {m.found}")
def test_a_malformed_call_that_is_accepted_is_seen(malformed: Any) -> None:
    with pytest.raises(Differs, match=f"{malformed.argument} {malformed.found}: accepted"):
        must_refuse(Judge(Lenient()), malformed)


def test_a_refusal_that_names_no_argument_is_seen() -> None:
    with pytest.raises(Differs, match="not named in ValueError: no"):
        must_refuse(Judge(Mute()), MALFORMED[0])


def test_a_refusal_after_writing_is_seen() -> None:
    with pytest.raises(Differs, match=r"refused with .*, but wrote"):
        must_refuse(Judge(Grumpy()), MALFORMED[0])
    with pytest.raises(Differs, match=r"refused with .*, but wrote"):
        refuses_or_conforms(Judge(Grumpy()), good_call(), "dst")


def test_a_misaligned_call_may_be_refused_but_not_answered_wrongly() -> None:
    refuses_or_conforms(Judge(Mute("dst: address")), good_call(), "dst")
    with pytest.raises(Differs, match="dst, refused, is not named"):
        refuses_or_conforms(Judge(Mute("no")), good_call(), "dst")
    with pytest.raises(Differs):
        refuses_or_conforms(Judge(Lenient()), good_call(), "dst")


@pytest.mark.parametrize("kind", [SystemExit, pytest.exit.Exception, pytest.skip.Exception])
def test_a_target_cannot_leave_the_process_or_skip_its_test(kind: type[BaseException]) -> None:
    def before(call: Call) -> None:
        raise kind("so long")

    for judged in (lambda judge: judge(case()), lambda judge: must_refuse(judge, MALFORMED[0])):
        with pytest.raises((Crashed, Differs), match="so long"):
            judged(Judge(Meddling(before)))
    with pytest.raises(Crashed, match="so long"):
        judge_batch(Judge(Meddling(before)), batch())


class Remembers(NumpyTarget):
    """Gathers from the first content that it saw in an array."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.of = name
        self.seen: dict[int, Any] = {}

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        call = dict(src_cache=src_cache, block_table=block_table, seq_starts=seq_starts)
        call[self.of] = self.seen.setdefault(call[self.of].ctypes.data, call[self.of].copy())
        super().cp_gather_and_upconvert_nvfp4_kv_cache(
            dst=dst, workspace_starts=workspace_starts, batch_size=batch_size, **call
        )


@pytest.mark.parametrize("name", ["src_cache", "block_table", "seq_starts"])
def test_a_target_that_remembers_an_array_is_seen(name: str) -> None:
    with pytest.raises((Differs, Crashed), match=r"a call after another one|needed by row"):
        must_read_anew(Judge(Remembers(name)))


def test_a_target_that_heeds_a_stride_that_is_never_used_is_seen() -> None:
    def before(call: Call) -> None:
        if call["block_table"].strides[-1] != 4:
            raise ValueError("block_table is not contiguous")

    with pytest.raises(Crashed, match="not contiguous"):
        must_ignore_unused_strides(Judge(Meddling(before)), "block_table")


@pytest.mark.parametrize("name", ["block_table", "workspace_starts", "seq_starts"])
def test_a_target_that_takes_the_length_of_an_array_for_r_is_seen(name: str) -> None:
    class TakesLength(NumpyTarget):
        def cp_gather_and_upconvert_nvfp4_kv_cache(self, **call: Any) -> None:  # type: ignore[override]
            super().cp_gather_and_upconvert_nvfp4_kv_cache(**{**call, "batch_size": len(call[name])})

    with pytest.raises((Differs, Crashed)):
        Judge(TakesLength())(strided_gather(STRIDED["more entries than requests, as cu_seq_lens has"]))
