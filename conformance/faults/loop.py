"""Split a loop over chunks of context into steps that a fault can replace."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from conformance.targets.models import NumpyTarget
from reference import context, merging
from reference.context_metadata import ContextChunk


def right_rows(call: SimpleNamespace, chunk: ContextChunk) -> Any:
    """Return the rows of a chunk: uint16 bf16 encodings [num_context_tokens, 576]."""
    return context.gather_from(call.kv_cache, call.kv_cache_dtype, call.scale, call.block_table)(chunk)


STEPS: dict[str, Any] = {
    "memory": context.undefined,
    "write_empty": context.write_empty,
    "rows": right_rows,
    "project": context.keys_and_values,
    "attend": context.attend,
    "accumulate": context.accumulate,
    "merge": merging.merge,
}


class Loop(NumpyTarget):
    """Run the loop over chunks with the golden steps, some of them replaced."""

    def __init__(self, **steps: Any) -> None:
        """Set the replaced steps: functions by the names of STEPS."""
        super().__init__()
        self.replaced = steps
        self.steps = SimpleNamespace(**{**STEPS, **steps})

    def compute_prefill_context(self, *arguments: Any, **named: Any) -> tuple[Any, Any]:
        """Return output, float32 [tokens, H, v_head_dim], and LSE, float32 [H, tokens]."""
        call, steps = SimpleNamespace(**named), self.steps
        call.before = []  # the rows of the chunks so far
        tokens, heads, size = call.q.shape
        v_head_dim = call.kv_b_proj.shape[1] - (size - 64)
        result = steps.memory(tokens, heads, v_head_dim, np.float32)
        for without in call.chunked_context.empty_token_slices:
            steps.write_empty(result, without)
        for chunk in call.chunked_context.chunks:
            call.before.append(steps.rows(call, chunk))
            k, v = steps.project(call.before[-1], call.kv_b_proj, v_head_dim, np.float32)
            q = call.q[chunk.token_slice]
            partial = steps.attend(chunk, q, k, v, call.softmax_scale)
            steps.accumulate(result, chunk, partial, steps.merge)
        return result.output, result.lse
