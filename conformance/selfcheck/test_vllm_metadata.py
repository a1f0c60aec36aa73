"""The metadata builder and the sizing functions of an installed vLLM, with a stand-in for the package."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from conformance.selfcheck.running import gate
from conformance.targets.vllm_release import names
from conformance.targets.vllm_release.metadata import nothing_pinned

STAND_IN = """
import torch
from reference import context_metadata as right, workspace
from reference.shards import Sharding

PIN_MEMORY = True


def build_mla_chunked_context_metadata(
    *, context_lens_cpu, prefill_query_start_loc_cpu, chunked_prefill_workspace, chunked_prefill_workspace_size,
    block_size, align_chunk_to_block, device, dcp_world_size, dcp_local_block_size, dcp_virtual_block_size, other=None
):
    torch.tensor([1], pin_memory=PIN_MEMORY)
    assert dcp_virtual_block_size == dcp_world_size * dcp_local_block_size
    rows, sharding = chunked_prefill_workspace_size, Sharding(dcp_world_size, dcp_local_block_size)
    batch = context_lens_cpu.tolist(), prefill_query_start_loc_cpu.tolist()
    return right.build_mla_chunked_context_metadata(*batch, rows, block_size, align_chunk_to_block, sharding)


class MLACommonMetadataBuilder:
    @staticmethod
    def determine_chunked_prefill_workspace_size(config):
        parallel = config.parallel_config
        return workspace.determine_chunked_prefill_workspace_size(
            "dense", config.model_config.max_model_len, config.scheduler_config.max_num_seqs,
            config.cache_config.block_size, 1,
            Sharding(parallel.decode_context_parallel_size, parallel.cp_kv_cache_interleave_size),
        )
"""


def judged_as_vllm(source: str, folder: Path, chosen: str) -> str:
    package = folder / "vllm/model_executor/layers/attention"
    package.mkdir(parents=True)
    (package / "mla_attention.py").write_text(source)
    part = ("conformance/gate/test_metadata.py", "-k", chosen, "--target", "vllm", "-rs")
    return gate(*part, PYTHONPATH=str(folder)).stdout


def test_the_builders_of_an_installed_vllm_are_found_and_judged(tmp_path: Path) -> None:
    said = judged_as_vllm(STAND_IN, tmp_path, "broke_real or workspace_of_every or refused")
    assert "unsupported" in said and "has no sparse builder" in said
    assert "differs" not in said and "crashed" not in said and "1 skipped" in said, said


def test_what_an_installed_vllm_gets_wrong_differs_and_what_it_cannot_run_is_not_judged(tmp_path: Path) -> None:
    wrong = STAND_IN.replace("*batch, rows,", "*batch, rows + 16,")
    assert "PLAN-9: PLAN-2" in judged_as_vllm(wrong, tmp_path / "wrong", "49294")
    unknown = STAND_IN.replace("other=None", "other")
    assert "wants other, of which nothing is known here" in judged_as_vllm(unknown, tmp_path / "unknown", "49294")
    no_driver = STAND_IN.replace("pin_memory=PIN_MEMORY", "pin_memory=True")
    said = judged_as_vllm(no_driver, tmp_path / "driver", "49294")
    assert torch.cuda.is_available() or "not judged: plan.metadata: " in said, said


def test_a_builder_that_changes_the_tensors_it_is_handed_is_seen(tmp_path: Path) -> None:
    clearing = STAND_IN.replace("    return right.build", "    context_lens_cpu.zero_()\n    return right.build")
    assert "PLAN-23: after the call an argument is [0, " in judged_as_vllm(clearing, tmp_path, "49294")


def test_nothing_is_pinned_where_a_release_asks_a_function(tmp_path: Path) -> None:
    asks = STAND_IN.replace("PIN_MEMORY = True", "def is_pin_memory_available():\n    return True")
    asks = asks.replace("pin_memory=PIN_MEMORY", "pin_memory=is_pin_memory_available()")
    said = judged_as_vllm(asks, tmp_path, "broke_real")
    assert "not judged" not in said and " passed" in said and "failed" not in said, said


def test_pinning_is_off_wherever_it_was_copied_to_and_on_again_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    constant, function, neither, other = map(ModuleType, ("vllm.a", "vllm.b", "vllm.c", "vllmlike.a"))
    for module in (constant, function, neither, other):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    yes = lambda: True  # noqa: E731
    vars(constant)["PIN_MEMORY"] = vars(other)["PIN_MEMORY"] = True
    vars(function)["is_pin_memory_available"] = yes
    with nothing_pinned(names.pinning()):
        assert (vars(constant)["PIN_MEMORY"], vars(other)["PIN_MEMORY"]) == (False, True)
        assert vars(function)["is_pin_memory_available"]() is False
        assert not {*names.PINNED} & {*vars(neither)}
    assert (vars(constant)["PIN_MEMORY"], vars(function)["is_pin_memory_available"]) == (True, yes)
