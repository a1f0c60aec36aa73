"""The installed vLLM's loop over chunks and its merging, with stand-ins for the package."""

from pathlib import Path

import pytest

from conformance.selfcheck.running import gate

OPERATORS = """
def cp_gather_and_upconvert_nvfp4_kv_cache(src_cache, dst, block_table, workspace_starts, batch_size, seq_starts=None):
    raise AssertionError("an operator ran")
"""

MERGING = """
import torch

current_platform = None

def merge_attn_states(output, prefix_output, prefix_lse, suffix_output, suffix_lse, output_lse=None):
    if not current_platform.is_cpu() or current_platform.is_cuda():
        raise RuntimeError("no device")
    p, s = prefix_lse.clone(), suffix_lse.clone()
    for lse in (p, s):
        lse[lse == torch.inf] = -torch.inf
    share = torch.sigmoid(p - s).masked_fill(p.isneginf() & s.isneginf(), 0.5).T[..., None]
    first = torch.where(p.isneginf().T[..., None], 0, prefix_output.float())
    second = torch.where(s.isneginf().T[..., None], 0, suffix_output.float())
    output.copy_(share * first + (1 - share) * second)
    if output_lse is not None:
        output_lse.copy_(torch.logaddexp(p, s))
"""

LOOP = """
import torch
from vllm import _custom_ops as ops
from vllm.v1.attention.ops.merge_attn_states import merge_attn_states

class MLACommonBaseImpl:
    def _compute_prefill_context(self, q, cache, metadata, k_scale):
        prefill = metadata.prefill
        context = prefill.chunked_context
        output = torch.full((len(q), self.num_heads, self.v_head_dim), torch.nan)
        lse = torch.full((self.num_heads, len(q)), torch.nan)
        for empty in context.empty_token_slices:
            output[empty] = 0
            lse[:, empty] = -torch.inf
        for chunk in context.chunks:
            rows = chunk.num_context_tokens
            ops.cp_gather_and_upconvert_nvfp4_kv_cache(
                cache, context.workspace[:rows], prefill.block_table[chunk.request_slice], chunk.cu_seq_lens,
                chunk.num_requests, STARTS,
            )
            latent, rope = context.workspace[:rows].split([self.kv_lora_rank, self.qk_rope_head_dim], dim=1)
            both = self.kv_b_proj(latent)[0].view(rows, self.num_heads, -1)
            k_nope, v = both.split([self.qk_nope_head_dim, self.v_head_dim], dim=2)
            k = self._concat_k_nope_k_pe(k_nope, rope.unsqueeze(1))
            found, found_lse = prefill.prefill_backend.run_prefill_context_chunk(
                chunk=chunk, q=q[chunk.token_slice], k=k, v=v
            )
            first, last = chunk.token_slice.start, chunk.token_slice.stop
            middle = MIDDLE if chunk.is_continuation else first
            old, new, count = output[first:middle], found[: middle - first], middle - first
            merge_attn_states(old, old, lse[:, first:middle], new, found_lse[:, :count], lse[:, first:middle])
            output[middle:last], lse[:, middle:last] = found[count:], found_lse[:, count:]
        return output, lse

    def _concat_k_nope_k_pe(self, k_nope, k_pe):
        return torch.cat([k_nope, k_pe.expand(-1, self.num_heads, -1).to(k_nope.dtype)], dim=2)
"""
RIGHT = {"STARTS": "chunk.starts", "MIDDLE": "chunk.continuation_token_end"}
LOOPS = {
    "right": ({}, 0, "conforms"),
    "starts ignored": ({"STARTS": "None"}, 1, "differs"),
    "a continuation merged into the second request": ({"MIDDLE": "last"}, 1, "differs"),
    "a continuation not merged": ({"MIDDLE": "first"}, 1, "differs"),
}


def installed(folder: Path, loop: dict[str, str]) -> dict[str, str]:
    """A package vllm with such a loop, as the environment in which it is found."""
    attention, merging = folder / "vllm/model_executor/layers/attention", folder / "vllm/v1/attention/ops"
    attention.mkdir(parents=True)
    merging.mkdir(parents=True)
    source = LOOP
    for name, code in (RIGHT | loop).items():
        source = source.replace(name, code)
    (attention / "mla_attention.py").write_text(source)
    (merging / "merge_attn_states.py").write_text(MERGING)
    (folder / "vllm/_custom_ops.py").write_text(OPERATORS)
    return {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize(("loop", "code", "text"), LOOPS.values(), ids=LOOPS)
def test_the_loop_of_an_installed_vllm_is_run_and_judged(
    loop: dict[str, str], code: int, text: str, tmp_path: Path
) -> None:
    part = (
        "conformance/gate/test_attend.py",
        "-k",
        "loop_gives and nvfp4 and (acceptance or continuation)",
        "--target",
        "vllm",
    )
    done = gate(*part, **installed(tmp_path, loop))
    assert (done.returncode, text in done.stdout) == (code, True), done.stdout[-3000:]


def test_its_merging_is_judged_on_a_cpu(tmp_path: Path) -> None:
    done = gate(
        "conformance/gate/test_merge.py", "-k", "state_alone and bf16", "--target", "vllm", **installed(tmp_path, {})
    )
    assert done.returncode == 0, done.stdout[-3000:]
