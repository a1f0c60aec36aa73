"""merge_attn_states of kernels/ as a caller sees it: what it refuses, what it accepts, what it writes."""

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from kernels.ops import Operators, merge_attn_states

Change = Callable[[Any], Any]
UNTOUCHED = 77
INF = float("inf")


def merge_call(dtype: Any = np.float32, shape: tuple[int, int, int] = (3, 2, 8)) -> dict[str, Any]:
    """Partials 1 and 3 under equal LSEs: 2 everywhere, with an LSE of log 2."""
    lse = np.zeros((shape[1], shape[0]), np.float32)
    return {
        "output": np.full(shape, UNTOUCHED, dtype),
        "prefix_output": np.full(shape, 1, dtype),
        "prefix_lse": lse.copy(),
        "suffix_output": np.full(shape, 3, dtype),
        "suffix_lse": lse.copy(),
        "output_lse": np.full(lse.shape, UNTOUCHED, np.float32),
    }


def strided(*strides: int) -> Change:
    """The elements of an array at other strides, in bytes, in memory that is large enough."""

    def change(array: np.ndarray) -> np.ndarray:
        memory = np.full(1 << 12, UNTOUCHED, array.dtype)
        return np.lib.stride_tricks.as_strided(memory, array.shape, strides)

    return change


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def off_by_two_bytes(array: np.ndarray) -> np.ndarray:
    return np.zeros(array.nbytes + 4, np.uint8)[2:-2].view(array.dtype).reshape(array.shape)


def elsewhere(array: np.ndarray) -> torch.Tensor:
    return torch.zeros(array.shape, device="meta")


# For a call with outputs of float32 [3, 2, 8].
MALFORMED: list[tuple[str, str, Change]] = [
    ("output", "float64", lambda a: a.astype(np.float64)),
    ("output", "int32", lambda a: a.view(np.int32)),
    ("output", "2 dimensions", lambda a: a[0]),
    ("output", "innermost", lambda a: np.zeros((3, 2, 16), np.float32)[:, :, ::2]),
    ("output", "negative", lambda a: a[::-1]),
    ("output", "read-only", read_only),
    ("output", "overlap", strided(64, 28, 4)),
    ("output", "overlap", strided(0, 32, 4)),
    ("output", "overlap", strided(32, 32, 4)),
    ("output", "address", off_by_two_bytes),
    ("output", "strides", strided(66, 32, 4)),
    ("output", "list", lambda a: a.tolist()),
    ("output", "device meta", elsewhere),
    ("prefix_output", "float16", lambda a: a.astype(np.float16)),
    ("prefix_output", "uint16", lambda a: a.astype(np.uint16)),
    ("prefix_output", "4 dimensions", lambda a: a[None]),
    ("prefix_output", r"shape \(2, 2, 8\)", lambda a: a[:2]),
    ("prefix_output", r"shape \(3, 2, 7\)", lambda a: a[:, :, :7]),
    ("prefix_output", "negative", lambda a: a[:, ::-1]),
    ("prefix_output", "device meta", elsewhere),
    ("suffix_output", "float64", lambda a: a.astype(np.float64)),
    ("suffix_output", r"shape \(3, 1, 8\)", lambda a: a[:, :1]),
    ("suffix_output", "innermost", np.asfortranarray),
    ("prefix_lse", "float64", lambda a: a.astype(np.float64)),
    ("prefix_lse", "1 dimensions", lambda a: a[0]),
    ("prefix_lse", r"shape \(3, 2\)", lambda a: a.T),
    ("prefix_lse", "negative", lambda a: a[:, ::-1]),
    ("prefix_lse", "address", off_by_two_bytes),
    ("prefix_lse", "strides", strided(14, 4)),
    ("prefix_lse", "strides", strided(20, 6)),
    ("prefix_lse", "NoneType", lambda a: None),
    ("suffix_lse", "float16", lambda a: a.astype(np.float16)),
    ("suffix_lse", r"shape \(2, 4\)", lambda a: np.zeros((2, 4), np.float32)),
    ("suffix_lse", "device meta", elsewhere),
    ("output_lse", "float64", lambda a: a.astype(np.float64)),
    ("output_lse", r"shape \(1, 3\)", lambda a: a[:1]),
    ("output_lse", "read-only", read_only),
    ("output_lse", "overlap", strided(0, 4)),
    ("output_lse", "overlap", strided(8, 4)),
]


@pytest.mark.parametrize(("argument", "found", "change"), MALFORMED, ids=[f"{a}-{f}" for a, f, _ in MALFORMED])
def test_a_malformed_call_is_refused_by_the_name_of_its_argument_and_nothing_is_built_or_written(
    argument: str, found: str, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/no/such/compiler")
    call = merge_call()
    written = [call["output"], call["output_lse"]]
    call[argument] = change(call[argument])
    with pytest.raises(ValueError, match=f"^{argument}: found .*{found}|^{argument}: .*expected .*{found}"):
        merge_attn_states(**call)
    assert all((array == UNTOUCHED).all() for array in written)


@pytest.mark.parametrize("shape", [(3, 0, 8), (3, 2, 0)], ids=str)
def test_heads_that_are_none_or_empty_are_refused(shape: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=f"^output: found shape {re.escape(str(shape))}, expected at least one head"):
        merge_attn_states(**merge_call(shape=shape))


def test_a_call_without_tokens_returns_at_once_also_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/no/such/compiler")
    operators = Operators()
    operators.merge_attn_states(**merge_call(shape=(0, 2, 8)))
    assert operators.receipt()["merge"] == {}


@pytest.mark.parametrize("bf16", [ml_dtypes.bfloat16, np.float16, np.float32])
@pytest.mark.parametrize("size", [1, 31, 33, 100])
def test_equal_weights_give_the_mean(bf16: Any, size: int) -> None:
    call = merge_call(bf16, (5, 3, size))
    merge_attn_states(**call)
    assert (call["output"].astype(np.float32) == 2).all()
    assert (call["output_lse"] == np.float32(np.log(2))).all()


@pytest.mark.parametrize("in_place_of", ["prefix", "suffix"])
@pytest.mark.parametrize("lse_in_place_of", ["prefix", "suffix"])
def test_results_may_replace_a_partial_and_every_element_still_sees_both_lses(
    in_place_of: str, lse_in_place_of: str
) -> None:
    apart, together = merge_call(shape=(3, 2, 100)), merge_call(shape=(3, 2, 100))
    for call in (apart, together):
        call["prefix_lse"][...], call["suffix_lse"][...] = [[0, 3, -INF]], [[1, -5, 2]]
    together["output"] = together[f"{in_place_of}_output"]
    together["output_lse"] = together[f"{lse_in_place_of}_lse"]
    merge_attn_states(**apart)
    merge_attn_states(**together)
    assert np.array_equal(together["output"], apart["output"])
    assert np.array_equal(together["output_lse"], apart["output_lse"])


@pytest.mark.parametrize("nothing", [INF, -INF])
@pytest.mark.parametrize(("without", "other"), [("prefix", "suffix"), ("suffix", "prefix")])
@pytest.mark.parametrize("kept", [0.0, -0.0, 1e30, -1e-40])
def test_a_partial_without_weight_leaves_the_other_as_it_is(
    kept: float, without: str, other: str, nothing: float
) -> None:
    call = merge_call()
    call[f"{without}_output"][...], call[f"{without}_lse"][...] = np.nan, nothing
    call[f"{other}_output"][...], call[f"{other}_lse"][...] = 1.1, kept
    merge_attn_states(**call)
    assert (call["output"] == np.float32(1.1)).all()
    assert call["output_lse"].tobytes() == call[f"{other}_lse"].tobytes()


@pytest.mark.parametrize("prefix", [INF, -INF])
@pytest.mark.parametrize("suffix", [INF, -INF])
def test_two_partials_without_weight_give_nothing(prefix: float, suffix: float) -> None:
    call = merge_call()
    call["prefix_output"][...], call["suffix_output"][...] = np.nan, np.inf
    call["prefix_lse"][...], call["suffix_lse"][...] = prefix, suffix
    merge_attn_states(**call)
    assert (call["output"] == 0).all()
    assert np.isneginf(call["output_lse"]).all()


def test_lses_far_apart_and_far_from_0_overflow_nowhere() -> None:
    call = merge_call()
    call["prefix_lse"][...], call["suffix_lse"][...] = [[3e38, 1000, -3e38]], [[-3e38, 1000, -3e38]]
    merge_attn_states(**call)
    assert call["output"][:, 0, 0].tolist() == [1, 2, 2]
    assert np.array_equal(call["output_lse"][0], np.array([3e38, 1000 + np.log(2), -3e38], np.float32))


def test_without_output_lse_the_output_is_the_same() -> None:
    call = merge_call()
    call["output_lse"] = None
    merge_attn_states(**call)
    assert (call["output"] == 2).all()


def test_tokens_heads_and_lses_may_lie_apart_and_in_any_order() -> None:
    call = merge_call()
    memory = {}
    for name in ("output", "prefix_output", "suffix_output"):
        memory[name] = np.full((4, 5, 11), UNTOUCHED, np.float32)
        view = memory[name].transpose(1, 0, 2)[1:4, 1:3, 2:10]
        view[...] = call[name]
        call[name] = view
    for name in ("prefix_lse", "suffix_lse", "output_lse"):
        memory[name] = np.full((7, 6), UNTOUCHED, np.float32)
        view = memory[name].T[1:5:2, 1:7:2]
        view[...] = call[name]
        call[name] = view
    merge_attn_states(**call)
    assert (call["output"] == 2).all()
    assert (call["output_lse"] == np.float32(np.log(2))).all()
    call["output"][...] = call["output_lse"][...] = UNTOUCHED
    assert (memory["output"] == UNTOUCHED).all()
    assert (memory["output_lse"] == UNTOUCHED).all()


def test_strides_that_are_never_used_do_not_count() -> None:
    call = merge_call(shape=(1, 1, 8))
    for name, array in call.items():
        odd = (-3, 3, 4) if array.ndim == 3 else (-3, 3)
        call[name] = np.lib.stride_tricks.as_strided(array, strides=odd)
    merge_attn_states(**call)
    assert (call["output"] == 2).all()


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_tensors_are_merged_like_arrays(kind: torch.dtype) -> None:
    call = {name: torch.from_numpy(array) for name, array in merge_call().items()}
    call = {name: tensor.to(kind) if tensor.ndim == 3 else tensor for name, tensor in call.items()}
    merge_attn_states(**call)
    assert (call["output"] == 2).all()


def test_encodings_of_bf16_are_taken_for_what_they_stand_for() -> None:
    call = merge_call(ml_dtypes.bfloat16)
    for name in ("output", "suffix_output"):
        call[name] = call[name].view(np.uint16)
    merge_attn_states(**call)
    assert (call["output"] == 0x4000).all()


def test_a_receipt_says_by_type_who_built_what_and_how_often_it_ran() -> None:
    operators = Operators()
    for dtype in (np.float16, np.float32, np.float16):
        operators.merge_attn_states(**merge_call(dtype))
    merges = operators.receipt()["merge"]
    assert {name: facts["launches"] for name, facts in merges.items()} == {"float16": 2, "float32": 1}
    assert merges["float16"]["kernel"] == "merge_f16"
