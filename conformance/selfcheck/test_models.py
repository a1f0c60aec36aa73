"""The two golden models: alike on legal calls, and plain about the others."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from conformance.cases import NAMED, Named, cases_of
from conformance.generation import Geometry, realize
from conformance.judge import expected_rows
from conformance.strategies import gather_cases
from fixtures.cases import GatherCase
from reference import gather, torch_model
from reference.paging import row_owners


def by_torch(case: GatherCase) -> np.ndarray:
    rows = torch_model.gather(
        torch.from_numpy(case.records),
        torch.from_numpy(case.block_table),
        torch.from_numpy(case.workspace_starts),
        case.batch_size,
        case.num_rows,
        None if case.seq_starts is None else torch.from_numpy(case.seq_starts),
    )
    return np.asarray(rows.view(torch.int16)).view(np.uint16)


@settings(max_examples=200, deadline=None)
@given(gather_cases(with_starts=True) | gather_cases(with_starts=False))
def test_both_models_gather_alike(case: GatherCase) -> None:
    assert (expected_rows(case) == by_torch(case)).all()


@pytest.mark.parametrize("named", NAMED, ids=lambda named: named.__name__)
def test_both_models_gather_the_named_cases_alike(named: Named) -> None:
    for case in cases_of(named):
        assert (expected_rows(case) == by_torch(case)).all()


@pytest.mark.clause("GATHER-1")
@pytest.mark.parametrize(
    ("starts", "owners"),
    [
        ([0, 2], [0, 0, 1, 1]),
        ([0, 0, 2], [1, 1, 2, 2]),
        ([0, 2, 2], [0, 0, 2, 2]),
        ([0, 0, 0], [2, 2, 2, 2]),
        ([0, 3, 9], [0, 0, 0, 1]),
    ],
)
def test_a_row_belongs_to_the_last_request_that_starts_at_or_before_it(starts: list[int], owners: list[int]) -> None:
    assert row_owners(starts, 4).tolist() == owners


@pytest.mark.clause("PAGE-1", "GATHER-2")
def test_an_unaligned_start_crosses_blocks_where_its_tokens_do() -> None:
    case = realize(Geometry(4, (5,), (3,)), seed=1)
    assert list(zip(*(part.tolist() for part in case.sources[1:]), strict=True)) == [
        (3, 0, 3),
        (4, 1, 0),
        (5, 1, 1),
        (6, 1, 2),
        (7, 1, 3),
    ]


def good() -> dict[str, Any]:
    case = realize(Geometry(4, (5, 0, 3), (3, -9, 6)), seed=2)  # a request without rows may have any start
    return {
        "src_cache": case.records,
        "dst": np.zeros((8, 576), np.uint16),
        "block_table": case.block_table,
        "workspace_starts": case.workspace_starts,
        "batch_size": 3,
        "seq_starts": case.seq_starts,
    }


def changed(array: Any, index: Any, value: int) -> Any:
    array = array.copy()
    array[index] = value
    return array


ILLEGAL: list[tuple[str, Callable[[dict[str, Any]], Any], str]] = [
    ("workspace_starts", lambda c: changed(c["workspace_starts"], 0, 1), r"workspace_starts\[0\].*1.*0"),
    ("workspace_starts", lambda c: changed(c["workspace_starts"], 1, 6), r"workspace_starts\[2\].*5"),
    ("seq_starts", lambda c: changed(c["seq_starts"], 0, -1), r"seq_starts\[0\].*-1.*0"),
    ("seq_starts", lambda c: changed(c["seq_starts"], 2, 7000), "block_table.*column"),
    ("block_table", lambda c: c["block_table"][:, :1].copy(), "block_table.*column"),
    ("block_table", lambda c: changed(c["block_table"], (0, 1), 99), r"block_table\[0, 1\].*99"),
    ("block_table", lambda c: changed(c["block_table"], (2, 1), -1), r"block_table\[2, 1\].*-1"),
]


@pytest.mark.parametrize("model", ["numpy", "torch"])
@pytest.mark.parametrize(("argument", "change", "says"), ILLEGAL, ids=[i[2] for i in ILLEGAL])
def test_a_value_that_is_not_legal_is_named_with_its_place(
    model: str, argument: str, change: Callable[[dict[str, Any]], Any], says: str
) -> None:
    call = good()
    call[argument] = change(call)
    with pytest.raises(ValueError, match=says):
        run(model, call)
    assert (call["dst"] == 0).all()


@pytest.mark.parametrize("model", ["numpy", "torch"])
def test_a_legal_call_is_served(model: str) -> None:
    call = good()
    run(model, call)
    assert (call["dst"] != 0).any(axis=1).all()


@pytest.mark.parametrize("count", [True, 1.0, "1", None])
@pytest.mark.parametrize("model", ["numpy", "torch"])
def test_a_batch_size_that_is_no_integer_is_refused(model: str, count: Any) -> None:
    with pytest.raises(ValueError, match="batch_size"):
        run(model, {**good(), "batch_size": count})


def test_a_read_only_dst_is_refused() -> None:
    call = good()
    call["dst"].flags.writeable = False
    with pytest.raises(ValueError, match="dst is read-only"):
        run("numpy", call)


def run(model: str, call: dict[str, Any]) -> None:
    if model == "numpy":
        gather.cp_gather_and_upconvert_nvfp4_kv_cache(**call)
        return
    tensors: dict[str, Any] = {
        name: torch.from_numpy(x) if isinstance(x, np.ndarray) else x for name, x in call.items()
    }
    tensors["dst"] = torch.from_numpy(call["dst"].view(np.int16)).view(torch.bfloat16)
    torch_model.cp_gather_and_upconvert_nvfp4_kv_cache(**tensors)
