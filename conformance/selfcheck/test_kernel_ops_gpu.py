"""The operator with arrays on a GPU: torch and CuPy, on the caller's stream. Without a GPU these tests are skipped."""

from typing import Any

import numpy as np
import pytest
import torch

from conformance.selfcheck.by_hand import UNTOUCHED, record, row, well_formed
from conformance.selfcheck.test_kernel_generic import generic_call
from conformance.selfcheck.test_kernel_merge import merge_call
from conformance.targets.kernels import HostTarget, why_no_device
from kernels.ops import (
    Operators,
    cp_gather_and_upconvert_nvfp4_kv_cache,
    gather_and_maybe_dequant_cache,
    merge_attn_states,
)

pytestmark = pytest.mark.skipif(why_no_device() is not None, reason=f"no GPU: {why_no_device()}")

EXPECTED = [row(-3.0, 1.5, -1.0)] * 5


def filled() -> dict[str, Any]:
    call = well_formed()
    call["src_cache"][:] = record(0x2C, 0x3C, 0xB8)
    return call


def on_torch(call: dict[str, Any]) -> dict[str, Any]:
    arrays = {name: torch.from_numpy(x).cuda() if isinstance(x, np.ndarray) else x for name, x in call.items()}
    arrays["dst"] = torch.from_numpy(call["dst"].view(np.int16)).cuda().view(torch.bfloat16)
    return arrays


def on_cupy(call: dict[str, Any]) -> dict[str, Any]:
    import cupy

    return {name: cupy.asarray(x) if isinstance(x, np.ndarray) else x for name, x in call.items()}


def bits(dst: torch.Tensor) -> np.ndarray:
    return np.asarray(dst.view(torch.int16).cpu()).view(np.uint16)


def test_torch_tensors_on_a_gpu_are_gathered() -> None:
    call = on_torch(filled())
    cp_gather_and_upconvert_nvfp4_kv_cache(**call)
    assert np.array_equal(bits(call["dst"]), EXPECTED)


def test_cupy_arrays_are_gathered() -> None:
    call = on_cupy(filled())
    cp_gather_and_upconvert_nvfp4_kv_cache(**call)
    assert np.array_equal(call["dst"].get(), EXPECTED)


def test_torch_and_cupy_arrays_on_one_gpu_may_be_mixed() -> None:
    call = {**on_cupy(filled()), "dst": on_torch(filled())["dst"]}
    torch.cuda.synchronize()
    cp_gather_and_upconvert_nvfp4_kv_cache(**call)
    assert np.array_equal(bits(call["dst"]), EXPECTED)


@pytest.mark.parametrize("argument", ["src_cache", "block_table", "workspace_starts", "seq_starts"])
def test_an_array_on_the_cpu_beside_those_on_a_gpu_is_refused(argument: str) -> None:
    call = {**on_torch(filled()), argument: filled()[argument]}
    with pytest.raises(ValueError, match=f"^{argument}: found device cpu, expected cuda:0"):
        cp_gather_and_upconvert_nvfp4_kv_cache(**call)
    assert (bits(call["dst"]) == UNTOUCHED).all()


def test_it_runs_on_cupys_current_stream() -> None:
    import cupy

    call = on_cupy(filled())
    operators = Operators()
    operators.cp_gather_and_upconvert_nvfp4_kv_cache(**call)
    call["dst"][...] = UNTOUCHED
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()  # what runs on another stream is not captured, and synchronising is an error
        operators.cp_gather_and_upconvert_nvfp4_kv_cache(**call)
        graph = stream.end_capture()
    assert (call["dst"].get() == UNTOUCHED).all()
    graph.launch(stream)
    stream.synchronize()
    assert np.array_equal(call["dst"].get(), EXPECTED)


def test_it_runs_on_torchs_current_stream() -> None:
    call = on_torch(filled())
    cp_gather_and_upconvert_nvfp4_kv_cache(**call)
    call["dst"].view(torch.int16).fill_(0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        cp_gather_and_upconvert_nvfp4_kv_cache(**call)
    assert (bits(call["dst"]) == 0).all()
    graph.replay()
    torch.cuda.synchronize()
    assert np.array_equal(bits(call["dst"]), EXPECTED)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two GPUs")
def test_arrays_of_another_than_the_current_gpu_are_gathered_there() -> None:
    call = on_torch(filled())
    call.update({name: x.to("cuda:1") for name, x in call.items() if isinstance(x, torch.Tensor)})
    operators = Operators()
    operators.cp_gather_and_upconvert_nvfp4_kv_cache(**call)
    assert np.array_equal(bits(call["dst"]), EXPECTED)
    assert list(operators.receipt()["devices"]) == ["cuda:1"] and torch.cuda.current_device() == 0


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two GPUs")
def test_arrays_of_two_gpus_are_refused() -> None:
    call = on_torch(filled())
    call["block_table"] = call["block_table"].to("cuda:1")
    with pytest.raises(ValueError, match=r"^block_table: found device cuda:1, expected cuda:0"):
        cp_gather_and_upconvert_nvfp4_kv_cache(**call)


@pytest.mark.skipif(bool(HostTarget().unavailable()), reason="the CUDA sources cannot be built for the CPU here")
@pytest.mark.parametrize("kv_cache_dtype", ["auto", "fp8"])
def test_records_of_numbers_alike_are_gathered_as_on_the_cpu(kv_cache_dtype: str) -> None:
    call = generic_call(kv_cache_dtype)
    raw = call["src_cache"].view(np.uint8)
    raw[...] = np.random.default_rng(2).integers(0, 256, raw.shape)
    on_gpu = on_cupy(call)
    for arguments in (call, on_gpu):
        gather_and_maybe_dequant_cache(**arguments)
    assert np.array_equal(on_gpu["dst"].get(), call["dst"])


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_partials_are_merged_in_place_on_a_gpu(kind: torch.dtype) -> None:
    call = {name: torch.from_numpy(array).cuda() for name, array in merge_call(shape=(70, 3, 100)).items()}
    call = {name: tensor.to(kind) if tensor.ndim == 3 else tensor for name, tensor in call.items()}
    merge_attn_states(**{**call, "output": call["prefix_output"], "output_lse": call["prefix_lse"]})
    assert bool((call["prefix_output"] == 2).all())
    assert bool((call["prefix_lse"] - np.log(2)).abs().max() < 1e-6)


def test_a_receipt_names_the_device_and_what_was_built_for_it() -> None:
    operators = Operators()
    operators.cp_gather_and_upconvert_nvfp4_kv_cache(**on_torch(filled()))
    built = operators.receipt()["devices"]["cuda:0"]
    assert built["launches"] == 1 and built["local_bytes"] == 0 and built["registers"] > 0
    major, minor = torch.cuda.get_device_capability()
    assert built["arch"].removesuffix("a") == f"sm_{major}{minor}"
