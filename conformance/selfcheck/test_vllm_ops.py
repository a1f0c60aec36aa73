"""The target vllm-ops: what it reads off a library that cannot be loaded, and the verdicts on schemas."""

from pathlib import Path
from typing import Any

import pytest

from conformance.judge import Judge
from conformance.observe import TargetError
from conformance.schemas import judge_schema
from conformance.selfcheck.running import gate
from conformance.targets.models import NumpyTarget
from conformance.targets.registry import UnknownTarget, find
from conformance.targets.vllm_release import probes
from conformance.targets.vllm_release.ops import schemas_in
from conformance.verdict import Differs, NotJudged, Unsupported

NVFP4, FP8 = "cp_gather_and_upconvert_nvfp4_kv_cache", "cp_gather_and_upconvert_fp8_kv_cache"
ARGUMENTS = "(Tensor src_cache, Tensor! dst, Tensor block_table, Tensor workspace_starts, int batch_size"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "_C.so"
    schemas = [f"{NVFP4}{ARGUMENTS}) -> ()", f"{FP8}{ARGUMENTS},   \n   Tensor? seq_starts=None) -> ()"]
    path.write_bytes(b"\x7fELF\0junk\0" + b"\0\xff".join(schema.encode() for schema in schemas) + b"\0" + FP8.encode())
    return path


def test_schemas_are_found_among_the_strings_of_a_file(library: Path) -> None:
    assert schemas_in(library) == {
        NVFP4: f"{NVFP4}{ARGUMENTS}) -> ()",
        FP8: f"{FP8}{ARGUMENTS}, Tensor? seq_starts=None) -> ()",
    }


def test_capabilities_come_from_the_schemas(library: Path) -> None:
    target = find(f"vllm-ops:{library}")
    assert target.capabilities == {"gather.nvfp4", "gather.fp8", "gather.fp8.seq_starts"}


def test_the_generic_gather_s_released_schema_has_starts_but_no_default(tmp_path: Path) -> None:
    generic = "gather_and_maybe_dequant_cache"
    arguments = "Tensor token_to_seq, int num_tokens, str kv_cache_dtype, Tensor scale, Tensor? seq_starts"
    schema = f"{generic}(Tensor src_cache, Tensor! dst, Tensor block_table, Tensor cu_seq_lens, {arguments}) -> ()"
    (tmp_path / "_C.so").write_bytes(b"\x7fELF\0" + schema.encode())
    target = find(f"vllm-ops:{tmp_path / '_C.so'}")
    assert target.capabilities == {"gather.generic", "gather.generic.seq_starts"}
    with pytest.raises(Differs, match=r"expected seq_starts last, .*\n  seq_starts has no default"):
        judge_schema(Judge(target, ["GATHER-15"]), generic)


def test_another_profile_may_be_declared(library: Path) -> None:
    assert find(f"vllm-ops:{library}").profile.name == "vllm-0.33"
    older = find(f"vllm-ops-arbitrary-tiles:{library}")
    assert older.profile.name == "arbitrary-tiles" and older.name == f"vllm-ops-arbitrary-tiles:{library}"


@pytest.mark.parametrize("name", ["vllm-ops", "vllm-ops:", "vllm-ops:no/such/file", f"vllm-ops:{__file__}"])
def test_what_is_no_such_library_is_a_usage_error(name: str, tmp_path: Path) -> None:
    if name.endswith(".py"):
        (tmp_path / "empty.so").write_bytes(b"\x7fELF")
        name = f"vllm-ops:{tmp_path / 'empty.so'}"
    with pytest.raises(UnknownTarget, match="vllm-ops"):
        find(name)


def test_without_a_gpu_the_schemas_are_judged_and_the_operators_are_not(library: Path) -> None:
    done = gate("conformance/gate/test_schema.py", "conformance/gate/test_twin.py", "--target", f"vllm-ops:{library}")
    assert done.returncode == 6, done.stdout[-2000:]
    assert "unsupported: cp_gather_and_upconvert_nvfp4_kv_cache has no seq_starts" in done.stdout
    assert "not judged: gather.fp8.seq_starts: torch sees no CUDA device" in done.stdout
    assert "1 passed" in done.stdout and "failed" not in done.stdout


class Registered(NumpyTarget):
    def __init__(self, schema: str) -> None:
        super().__init__()
        self.schemas = {NVFP4: schema}


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        (", Tensor? seq_starts", "seq_starts has no default"),
        (", Tensor? seq_starts=None, Tensor? host_cache=None", "seq_starts is followed by host_cache"),
        (", Tensor seq_starts", "seq_starts is of the type Tensor"),
        (", int? seq_starts=None", r"seq_starts is of the type Optional\[int\]"),
        (", Tensor[]? seq_starts=None", "seq_starts is of the type"),
        (", Tensor(b!)? seq_starts=None", "seq_starts is written to"),
        (", *, Tensor? seq_starts=None", "seq_starts cannot be given by position"),
        (", Tensor? seq_start=None", "has no seq_starts among"),
        (", Tensor? rows=None, Tensor? seq_starts=None", None),
    ],
)
def test_a_schema_that_differs_says_how(rest: str, said: str | None) -> None:
    judge = Judge(Registered(f"{NVFP4}{ARGUMENTS}{rest}) -> ()"), ["GATHER-15"])
    if said is None:
        judge_schema(judge, NVFP4)
        return
    with pytest.raises(Differs, match=said):
        judge_schema(judge, NVFP4)


def test_arguments_in_another_order_differ() -> None:
    swapped = ARGUMENTS.replace("Tensor src_cache, Tensor! dst", "Tensor! dst, Tensor src_cache")
    with pytest.raises(Differs, match="first arguments are dst, src_cache"):
        judge_schema(Judge(Registered(f"{NVFP4}{swapped}, Tensor? seq_starts=None) -> ()"), ["GATHER-15"]), NVFP4)


def test_a_schema_without_seq_starts_or_none_at_all_is_unsupported() -> None:
    with pytest.raises(Unsupported, match="has no seq_starts"):
        judge_schema(Judge(Registered(f"{NVFP4}{ARGUMENTS}) -> ()")), NVFP4)
    with pytest.raises(Unsupported, match="not registered"):
        judge_schema(Judge(Registered("")), FP8)


class OfAnotherDevice(NumpyTarget):
    """Refuses this device, in words of its own."""

    said = "nvfp4 gather requires SM100; got SM90"

    def hindrance(self, capability: str) -> str | None:
        return probes.refusal_of_device(self, capability)

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, *arguments: Any, **more: Any) -> None:
        raise TargetError(self.said)


def test_a_refusal_of_the_device_is_not_judged_in_the_targets_own_words() -> None:
    with pytest.raises(NotJudged, match=r"gather\.nvfp4: .*requires SM100; got SM90"):
        Judge(OfAnotherDevice()).need("gather.nvfp4")
    Judge(OfAnotherDevice()).need("gather.fp8")


def test_another_refusal_is_no_excuse() -> None:
    target = OfAnotherDevice()
    target.said = "block_table must be int64"
    Judge(target).need("gather.nvfp4")


def test_a_ruined_cuda_context_is_blamed_on_one_case_and_the_rest_is_not_judged() -> None:
    done = gate("conformance/gate/test_read.py", "--target", "conformance.selfcheck.losing:Losing")
    assert done.returncode == 1 and "1 failed" in done.stdout, done.stdout[-2000:]
    assert "RuntimeError: CUDA error: an illegal memory access" in done.stdout
    assert "not judged: an earlier call has ruined this process's CUDA context" in done.stdout
