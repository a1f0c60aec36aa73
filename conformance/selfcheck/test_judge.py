"""The judge sees every way of not conforming; each target here is wrong in one way."""

from collections.abc import Callable

import numpy as np
import pytest

from conformance.generation import Geometry, realize
from conformance.judge import Judge
from conformance.observe import wrong_elements
from conformance.selfcheck.meddling import Call, Meddling, case, write, write_behind
from conformance.targets.base import GATHER, Target
from conformance.targets.models import NumpyTarget, TorchTarget
from conformance.verdict import Crashed, Differs, NotJudged, Unsupported
from fixtures.cases import GatherCase


def without_negative_zero(call: Call) -> None:
    call["dst"][call["dst"] == 0x8000] = 0


@pytest.mark.parametrize("model", [NumpyTarget(), TorchTarget()], ids=lambda model: model.name)
def test_a_target_that_conforms_passes_and_is_counted(model: Target) -> None:
    judge = Judge(model)
    judge(case(dst_row_slack=8))
    assert (judge.count.cases, judge.count.rows, judge.count.elements) == (1, 8, 8 * 576)


@pytest.mark.parametrize(
    ("after", "says"),
    [
        (write("dst", (7, 575), 0x1234), "row 7 = request 2 token 8.*\n.*element 575 = RoPE 63, byte 319"),
        (write("dst", (0, 17), 0x1234), "element 17 = latent block 1, byte 8 high nibble .*scale byte 328"),
        (without_negative_zero, r"expected 0x8000 -0 +got 0x0000 \+0"),
        (write("src_cache", (0, 0, 0), 1), r"src_cache: an input, but overwritten at \[0, 0, 0\]"),
        (write("block_table", (1, 0), 1), r"block_table: an input, but overwritten at \[1, 0\]"),
        (write("workspace_starts", 1, 3), r"workspace_starts: an input, but overwritten at \[1\]"),
        (write("seq_starts", 1, 0), r"seq_starts: an input, but overwritten at \[1\]"),
    ],
)
def test_a_wrong_element_and_a_changed_input_are_named(after: Callable[[Call], None], says: str) -> None:
    with pytest.raises(Differs, match=says):
        Judge(Meddling(after=after))(case())


@pytest.mark.parametrize("name", ["dst", "src_cache", "block_table", "workspace_starts", "seq_starts"])
@pytest.mark.parametrize("by", [1, 3])
def test_a_write_behind_an_array_is_seen(name: str, by: int) -> None:
    def after(call: Call) -> None:
        write_behind(call[name], by)

    with pytest.raises(Differs, match=f"{name}: written outside its elements"):
        Judge(Meddling(after=after))(case())


@pytest.mark.parametrize("column", [576, 577, 583])
def test_a_write_between_the_rows_of_dst_is_seen_with_row_and_column(column: int) -> None:
    def after(call: Call) -> None:
        wide = np.lib.stride_tricks.as_strided(call["dst"], (8, 584), call["dst"].strides)
        wide[2, column] = 0

    with pytest.raises(Differs, match=f"dst: written outside its elements: row 2 column {column}"):
        Judge(Meddling(after=after))(case(dst_row_slack=8))


@pytest.mark.parametrize("row", [0, 3, 7])
def test_a_row_that_is_never_written_is_seen(row: int) -> None:
    kept: list[np.ndarray] = []

    def before(call: Call) -> None:
        kept[:] = [call["dst"][row].copy()]

    def after(call: Call) -> None:
        call["dst"][row] = kept[0]

    with pytest.raises(Differs, match=f"row {row} = .*\n.*\n.*never written"):
        Judge(Meddling(before, after))(case())


def test_rows_written_without_any_request_are_seen() -> None:
    some = case()
    none = np.empty(0, np.int32)
    nobody = GatherCase(some.records, np.empty((0, 1), np.int32), none, 8, none)
    with pytest.raises(Differs, match="dst was written although R = 0"):
        Judge(Meddling(after=write("dst", (0, 0), 0)))(nobody)


def test_a_target_that_raises_has_crashed() -> None:
    def before(call: Call) -> None:
        raise RuntimeError("no kernel image is available")

    with pytest.raises(Crashed, match=r"crashed  target numpy .*\n.*\n.*RuntimeError: no kernel image is available"):
        Judge(Meddling(before))(case())


def test_too_little_memory_is_not_judged() -> None:
    def before(call: Call) -> None:
        raise MemoryError("out of memory")

    with pytest.raises(NotJudged, match="too little memory"):
        Judge(Meddling(before))(case())


def test_a_capability_that_a_target_does_not_claim_is_unsupported() -> None:
    class WithoutStarts(NumpyTarget):
        capabilities = frozenset({GATHER})

    judge = Judge(WithoutStarts())
    judge(realize(Geometry(4, (5,)), seed=1))
    with pytest.raises(Unsupported, match=r"lacks gather.nvfp4.seq_starts"):
        judge(case())


@pytest.mark.clause("READ-6")
def test_any_nan_passes_for_a_nan_and_for_nothing_else_if_the_target_says_so() -> None:
    expected = np.array([[0x7FFF, 0x7FFF, 0x3F80, 0x0000]], np.uint16)
    observed = np.array([[0x7FC0, 0xFF81, 0x7FC0, 0x8000]], np.uint16)
    assert wrong_elements(expected, observed, "any").tolist() == [[False, False, True, True]]
    assert wrong_elements(expected, observed, "canonical").tolist() == [[True, True, True, True]]


@pytest.mark.clause("READ-6")
def test_an_infinity_is_no_nan() -> None:
    expected, observed = np.array([[0x7FFF]], np.uint16), np.array([[0x7F80]], np.uint16)
    assert wrong_elements(expected, observed, "any").all()


def test_what_differs_is_told_when_somebody_reads_it_and_no_sooner() -> None:
    read: list[str] = []

    def text() -> str:
        read.append("once")
        return "GATHER-1  differs"

    error = Differs(text, rest=["the case"])
    assert read == []
    assert [str(error), error.text, read] == ["GATHER-1  differs\n  the case", "GATHER-1  differs", ["once"]]
