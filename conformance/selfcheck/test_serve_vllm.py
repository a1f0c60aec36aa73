"""The installed vLLM's sites and startup, with stand-ins for the package."""

import os
import time
from pathlib import Path

import pytest

from conformance.selfcheck.running import gate
from conformance.targets.vllm_release import startup_server
from conformance.targets.vllm_release.startup import Refused, Server, Starting
from conformance.verdict import NotJudged
from reference.serving import Serving

OPERATORS = """
def cp_gather_and_upconvert_nvfp4_kv_cache(src_cache, dst, block_table, workspace_starts, batch_size, seq_starts=None):
    raise AssertionError("an operator ran")

def gather_and_maybe_dequant_cache(
    src_cache, dst, block_table, cu_seq_lens, token_to_seq, num_tokens, kv_cache_dtype, scale, seq_starts=None
):
    raise AssertionError("an operator ran")
"""

SITE = """
from vllm import _custom_ops as ops

class MLACommonBaseImpl:
    def _compute_prefill_context(self, q, cache, metadata, k_scale):
        context = metadata.prefill.chunked_context
        for chunk in context.chunks:
            table, rows = metadata.prefill.block_table[chunk.request_slice], chunk.num_context_tokens
            GATHER
"""

RIGHT = "ops.cp_gather_and_upconvert_nvfp4_kv_cache(cache, context.workspace[:rows], table, chunk.cu_seq_lens, "
GATHERS = {
    "right": (RIGHT + "chunk.num_requests, chunk.starts)", 0, ""),
    "without starts": (RIGHT + "chunk.num_requests)", 1, "SERVE-2  differs"),
    "the generic gather": (
        "ops.gather_and_maybe_dequant_cache(cache, context.workspace, table, chunk.cu_seq_lens, chunk.token_to_seq, "
        "rows, self.kv_cache_dtype, k_scale, chunk.starts)",
        1,
        "SERVE-1  differs",
    ),
    "stops": ("raise RuntimeError('no device')", 6, "stopped after 0 gathers: RuntimeError: no device"),
}


@pytest.mark.parametrize(("gather", "code", "text"), GATHERS.values(), ids=GATHERS)
def test_a_site_of_an_installed_vllm_is_run_and_judged(gather: str, code: int, text: str, tmp_path: Path) -> None:
    package = tmp_path / "vllm/model_executor/layers/attention"
    package.mkdir(parents=True)
    (package / "mla_attention.py").write_text(SITE.replace("GATHER", gather))
    (tmp_path / "vllm/_custom_ops.py").write_text(OPERATORS)
    arguments = ("conformance/gate/test_serve.py", "--target", "vllm", "-k", "dense-nvfp4_ds_mla")
    done = gate(*arguments, PYTHONPATH=str(tmp_path))
    assert (done.returncode, text in done.stdout) == (code, True), done.stdout[-3000:]


def test_a_site_that_a_release_does_not_have_is_unsupported(tmp_path: Path) -> None:
    package = tmp_path / "vllm/model_executor/layers/attention"
    package.mkdir(parents=True)
    (package / "mla_attention.py").write_text(SITE.replace("GATHER", "pass"))
    (tmp_path / "vllm/_custom_ops.py").write_text(OPERATORS)
    arguments = ("conformance/gate/test_serve.py", "--target", "vllm", "-k", "kimi_k3-nvfp4_ds_mla")
    done = gate(*arguments, PYTHONPATH=str(tmp_path))
    assert done.returncode == 6 and "this vLLM has no site kimi_k3" in done.stdout


TOPK = """
from vllm import _custom_ops as ops

QUANTIZED_DS_MLA_CACHE_FORMATS = ("nvfp4_ds_mla", "fp8_ds_mla")
current_workspace_manager = None

class FlashMLASparseMetadata:
    class FP8SeparatePrefillDecode:
        def __init__(self, num_prefills, num_decodes, num_prefill_tokens, num_decode_tokens, decode, prefill):
            self.prefill = prefill

class FlashMLASparseImpl:
    def _forward_fp8_kv_separate_prefill_decode(self, q, cache, topk, metadata):
        workspace = WORKSPACE
        for chunk in metadata.fp8_extra_metadata.prefill.chunks:
            ops.cp_gather_and_upconvert_nvfp4_kv_cache(
                cache, workspace[:chunk.chunk_tot_seqlen], TABLE, chunk.workspace_starts, len(chunk.block_table)
            )
"""
WORKSPACES = {
    "the layer's": "self.prefill_bf16_workspace",
    "the manager's": "current_workspace_manager().get_simultaneous(*self.workspace_specs)[1]",
}
TABLES = {"right": ("chunk.block_table", 0), "of the first requests": ("metadata.block_table", 1)}


@pytest.mark.parametrize(("table", "code"), TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("workspace", WORKSPACES.values(), ids=WORKSPACES)
def test_whole_requests_are_gathered_into_the_workspace_of_either_owner(
    workspace: str, table: str, code: int, tmp_path: Path
) -> None:
    attention, sparse = tmp_path / "vllm/model_executor/layers/attention", tmp_path / "vllm/v1/attention/backends/mla"
    attention.mkdir(parents=True)
    sparse.mkdir(parents=True)
    (attention / "mla_attention.py").write_text(SITE.replace("GATHER", "pass"))
    (sparse / "flashmla_sparse.py").write_text(TOPK.replace("WORKSPACE", workspace).replace("TABLE", table))
    (tmp_path / "vllm/_custom_ops.py").write_text(OPERATORS)
    arguments = ("conformance/gate/test_serve.py", "--target", "vllm", "-k", "sparse_topk-nvfp4_ds_mla")
    done = gate(*arguments, PYTHONPATH=str(tmp_path))
    assert (done.returncode, "SERVE-2  differs" in done.stdout) == (code, bool(code)), done.stdout[-3000:]


ERRORS = {
    "refused": (ValueError("nvfp4 is not supported with MLA"), "nvfp4 is not supported with MLA"),
    "not judged": (RuntimeError("no driver"), "startup on this machine: RuntimeError: no driver"),
    "starts": (None, ""),
}


@pytest.mark.parametrize("verdict", ERRORS)
def test_an_error_is_a_refusal_only_where_it_is_about_the_configuration(
    verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error, message = ERRORS[verdict]

    def start(config: object) -> None:
        if error:
            raise error

    monkeypatch.setattr(startup_server, "start", start)
    used: list[tuple[int, int]] = []
    found = startup_server.answer({"compute_capability": [9, 0]}, used.append)
    assert (found, used) == ({"verdict": verdict, "message": message}, [(9, 0)])


def test_a_startup_that_hangs_or_dies_is_ended_and_not_judged() -> None:
    assert startup_server.forked(lambda: {"verdict": "starts"}) == {"verdict": "starts"}
    hanging = startup_server.forked(lambda: time.sleep(60) or {}, seconds=0.2)  # type: ignore[func-returns-value]
    assert hanging == {"verdict": "not judged", "message": "startup ended with status 9, without an answer"}
    dying = startup_server.forked(lambda: os._exit(3))
    assert dying["verdict"] == "not judged"


class Answering(Starting):
    """A server with one answer."""

    def __init__(self, **answer: str) -> None:
        class One(Server):
            def __init__(self) -> None:
                self.answers = {Serving(): answer}

            def __del__(self) -> None:
                pass

        self.__dict__["_server"] = One()


def test_what_was_answered_is_what_a_start_does() -> None:
    Answering(verdict="starts", message="").start(Serving())
    with pytest.raises(Refused, match="no MLA"):
        Answering(verdict="refused", message="no MLA").start(Serving())
    with pytest.raises(NotJudged, match="no driver"):
        Answering(verdict="not judged", message="no driver").start(Serving())


def test_a_vllm_that_cannot_be_imported_is_not_judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    server = Server()
    for config in (Serving(), Serving(uses_mla=False)):
        assert server.ask(config)["verdict"] == "not judged"
        assert "cannot be imported on a pretended device" in server.ask(config)["message"]
