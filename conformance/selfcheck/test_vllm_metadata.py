"""The metadata builder and the sizing functions of an installed vLLM, with a stand-in for the package."""

from pathlib import Path

import torch

from conformance.selfcheck.running import gate

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
