"""The two golden models of the other gathers: alike on legal calls, and plain about the others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.faults.steps import Gather, in_memory
from conformance.generation import Geometry, realize
from conformance.generics import over, uneven_requests
from conformance.judge import Judge, expected_rows
from conformance.strategies import twin_cases
from conformance.targets.models import TorchTarget
from fixtures.cases import GatherCase
from fixtures.placement import POISONS, others, place
from reference import gather, torch_twins
from reference.records import FP8_DS_MLA, GENERIC, RecordLayout

LAYOUTS = [FP8_DS_MLA, *GENERIC.values()]
EACH = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: f"{layout.name}-{layout.row}")


@EACH
def test_both_models_gather_alike_and_so_do_the_steps_without_a_fault(layout: RecordLayout) -> None:
    @settings(max_examples=40, deadline=None)
    @given(st.booleans().flatmap(lambda with_starts: twin_cases(layout, with_starts)))
    def alike(case: GatherCase) -> None:
        Judge(TorchTarget())(case)
        if case.batch_size:
            assert (Gather()(in_memory(case, POISONS[0])) == expected_rows(case)).all()

    alike()


@pytest.mark.clause("TWIN-6")
@pytest.mark.parametrize("seed", range(8))
def test_both_models_agree_on_uneven_requests(seed: int) -> None:
    case = uneven_requests(GENERIC["fp8", 512], seed)
    lengths = np.diff(case.cu_seq_lens)
    assert {0, 1} <= set(lengths.tolist()) and lengths.max() > 10
    Judge(TorchTarget())(case)


def good() -> dict[str, Any]:
    case = over(realize(Geometry(4, (5, 0, 3), (3, -9, 6)), seed=2), GENERIC["fp8", 576])
    return {**{name: placed.data.copy() for name, placed in place(case, POISONS[0]).items()}, **others(case)}


def changed(array: Any, index: Any, value: int) -> Any:
    array = array.copy()
    array[index] = value
    return array


ILLEGAL: list[tuple[str, Callable[[dict[str, Any]], Any], str]] = [
    ("cu_seq_lens", lambda c: changed(c["cu_seq_lens"], 0, 1), r"cu_seq_lens\[0\].*1.*0"),
    ("cu_seq_lens", lambda c: changed(c["cu_seq_lens"], 1, 6), r"cu_seq_lens\[2\].*5"),
    ("cu_seq_lens", lambda c: changed(c["cu_seq_lens"], 3, 9), r"cu_seq_lens\[3\].*9.*num_tokens, 8"),
    ("token_to_seq", lambda c: changed(c["token_to_seq"], 2, 3), r"token_to_seq\[2\].*3"),
    ("token_to_seq", lambda c: changed(c["token_to_seq"], 2, -1), r"token_to_seq\[2\].*-1"),
    ("token_to_seq", lambda c: changed(c["token_to_seq"], 4, 2), r"token_to_seq\[4\].*2.*cu_seq_lens"),
    ("seq_starts", lambda c: changed(c["seq_starts"], 0, -1), r"seq_starts\[0\].*-1.*0"),
    ("seq_starts", lambda c: changed(c["seq_starts"], 2, 7000), "block_table.*column"),
    ("block_table", lambda c: c["block_table"][:, :1].copy(), "block_table.*column"),
    ("block_table", lambda c: changed(c["block_table"], (0, 1), 99), r"block_table\[0, 1\].*99"),
    ("block_table", lambda c: changed(c["block_table"], (2, 1), -1), r"block_table\[2, 1\].*-1"),
]
MODELS = pytest.mark.parametrize("model", ["numpy", "torch"])


@MODELS
@pytest.mark.parametrize(("argument", "change", "says"), ILLEGAL, ids=[i[2] for i in ILLEGAL])
def test_a_value_that_is_not_legal_is_named_with_its_place(
    model: str, argument: str, change: Callable[[dict[str, Any]], Any], says: str
) -> None:
    call = good()
    before = call["dst"].copy()
    call[argument] = change(call)
    with pytest.raises(ValueError, match=says):
        run(model, call)
    assert (call["dst"] == before).all()


@MODELS
def test_a_legal_call_is_served_and_touches_no_row_behind_its_tokens(model: str) -> None:
    call = good()
    before = call["dst"].copy()
    run(model, call)
    assert (call["dst"] != before).any(axis=1).tolist() == [True] * 8 + [False] * 3


@MODELS
@pytest.mark.parametrize("count", [True, 1.0, "1", None])
def test_a_count_that_is_no_integer_is_refused(model: str, count: Any) -> None:
    with pytest.raises(ValueError, match="num_tokens"):
        run(model, {**good(), "num_tokens": count})


@pytest.mark.parametrize("model", ["records", "reading", "paging", "gather", "contract", "scalars"])
def test_the_second_model_shares_nothing_with_the_first(model: str) -> None:
    assert f"reference.{model}" not in Path(torch_twins.__file__).read_text()


def run(model: str, call: dict[str, Any]) -> None:
    if model == "numpy":
        gather.gather_and_maybe_dequant_cache(**call)
        return
    tensors: dict[str, Any] = {
        name: torch.from_numpy(x) if isinstance(x, np.ndarray) and x.dtype != np.uint16 else x
        for name, x in call.items()
    }
    tensors["dst"] = torch.from_numpy(call["dst"].view(np.int16)).view(torch.bfloat16)
    torch_twins.gather_and_maybe_dequant_cache(**tensors)
