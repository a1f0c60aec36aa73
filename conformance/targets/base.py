"""Define Target, the base class of judged implementations, and the capabilities that a target can claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from conformance.memory import Memory
from fixtures.serve_cases import Context, GatherCall
from reference.context_metadata import ContextMetadata
from reference.profiles import DEFAULT, Profile
from reference.records import FP8_DS_MLA, GENERIC, NVFP4_DS_MLA
from reference.serving import Serving

GATHER = "gather.nvfp4"
GATHER_STARTS = "gather.nvfp4.seq_starts"
GATHER_FP8, GATHER_FP8_STARTS = "gather.fp8", "gather.fp8.seq_starts"
GATHER_GENERIC, GATHER_GENERIC_STARTS = "gather.generic", "gather.generic.seq_starts"
WRITE_NVFP4, WRITE_FP8, WRITE_GENERIC = "write.nvfp4", "write.fp8", "write.generic"

PLAN = "plan"
PLAN_METADATA, PLAN_DCP, PLAN_WORKSPACE = "plan.metadata", "plan.dcp", "plan.workspace"
PLANNING = frozenset({PLAN, PLAN_METADATA, PLAN_DCP, PLAN_WORKSPACE})

SERVE_DISPATCH, SERVE_STARTUP = "serve.dispatch", "serve.startup"

MERGE, ATTEND = "merge", "attend"

WRITES = {"nvfp4_ds_mla": WRITE_NVFP4, "fp8_ds_mla": WRITE_FP8, "auto": WRITE_GENERIC, "fp8": WRITE_GENERIC}
"""The capability that a writer needs, by kv_cache_dtype."""

GATHERS = {
    "nvfp4_ds_mla": (GATHER, GATHER_STARTS, "cp_gather_and_upconvert_nvfp4_kv_cache"),
    "fp8_ds_mla": (GATHER_FP8, GATHER_FP8_STARTS, "cp_gather_and_upconvert_fp8_kv_cache"),
    "auto": (GATHER_GENERIC, GATHER_GENERIC_STARTS, "gather_and_maybe_dequant_cache"),
    "fp8": (GATHER_GENERIC, GATHER_GENERIC_STARTS, "gather_and_maybe_dequant_cache"),
}
"""By kv_cache_dtype: the capability of its gather without seq_starts, the one with them, and the method."""

LAYOUTS = {layout.name: layout for layout in (NVFP4_DS_MLA, FP8_DS_MLA, GENERIC["auto", 576], GENERIC["fp8", 576])}
"""One layout for each kind of record, by its name in GATHERS."""

OPERATORS = {
    **{capability: operator for bare, with_starts, operator in GATHERS.values() for capability in (bare, with_starts)},
    **dict.fromkeys(WRITES.values(), "concat_and_cache_mla"),
    MERGE: "merge_attn_states",
    ATTEND: "compute_prefill_context",
    PLAN: "plan_mla_context_chunks",
    PLAN_METADATA: "build_mla_chunked_context_metadata",
    PLAN_DCP: "build_mla_chunked_context_metadata",
    PLAN_WORKSPACE: "determine_chunked_prefill_workspace_size",
    SERVE_DISPATCH: "context_gathers",
    SERVE_STARTUP: "start",
}
"""The method that a target must define for each capability that it claims."""

CAPABILITIES = frozenset(OPERATORS)
"""The capabilities that a target can claim. SPEC.md's table of bindings names no others."""


class Target:
    """Describe a judged implementation. Derive a class from it for each implementation.

    Define `name`, `capabilities` and `memory` first, then describe(), receipt(), unavailable() if a machine may lack
    what the target needs, and the operators that OPERATORS lists for the capabilities. The other members have defaults.

    The suite calls an operator with arrays that `memory` makes; bf16 is in the type that `memory` has for it. A
    malformed call must raise an error that names the argument, and write nothing (GATHER-11, WRITE-9, MERGE-10). A call
    with less alignment than the contract may raise the same error (GATHER-12, MERGE-8). Otherwise an operator may raise
    only what its docstring says.
    """

    name: str
    capabilities: ClassVar[frozenset[str]] = frozenset()
    nan: Literal["canonical", "any"] = "canonical"
    """Whether a NaN that is read must be 0x7FFF, or may be any NaN (SPEC.md READ-6)."""
    profile: Profile = DEFAULT
    """How the target's writers quantize (SPEC.md WRITE)."""
    attends: frozenset[str] = frozenset(WRITES)
    """The kv_cache_dtypes that compute_prefill_context serves (SPEC.md ATTEND)."""
    attends_in: Literal["binary32", "bf16"] = "binary32"
    """The precision to which compute_prefill_context rounds keys, values, weights and partial results."""
    memory: Memory
    schemas: Mapping[str, str] = MappingProxyType({})
    """The registered schema of each operator, by name. It is empty for a target that registers no operators."""
    lost: str | None = None
    """The test that destroyed this process's CUDA context, and how. The suite sets it and judges nothing after that."""
    slow: bool = False
    """Whether the profile quick skips the tests that are marked long. The summary says so."""
    crash_prone: bool = True
    """Whether a call may kill the process. Each case is then written to a file before the call."""
    most_workers: int | None = None
    """The limit of processes that run the target at once on one machine under `-n auto`. None means no limit."""
    device_bytes: int = 21 << 30
    """GPU code: the device memory, in bytes, of the largest cases. A case that needs more is not judged."""
    usual_device_bytes: int = 3 << 30
    """GPU code: the device memory, in bytes, of all other cases. `-n auto` starts as many workers as fit into the
    device. The workers of a device share some reserved memory for the largest cases."""

    @property
    def is_gpu_code(self) -> bool:
        """Whether SPEC.md's chapter DEVICE applies. By default it does if the arrays are on a CUDA device."""
        return self.memory.on_device

    def unavailable(self) -> str | None:
        """Return why this machine cannot run the target, in one line, or None if it can."""
        return None

    def describe(self) -> str:
        """Return where the target runs, for people: a device, or a compiler and a processor."""
        raise NotImplementedError

    def hindrance(self, capability: str) -> str | None:
        """Return why this machine cannot run one of the capabilities, in one line, or None if it can."""
        return None

    def offers(self) -> frozenset[str]:
        """Return the values of --require that are met: capabilities, and on a GPU `cuda` and for example sm_100."""
        return self.capabilities

    def receipt(self) -> dict[str, Any]:
        """Return the facts of what ran, as JSON types: versions, device, hashes. Without it a target is not judged."""
        return {}

    def launches(self) -> Mapping[str, int] | None:
        """Return the number of kernels launched so far in this process, by operator name.

        The gate compares it with its calls. A call that had something to write and launched nothing was served by other
        code.

        Returns:
            The counts, or None if the target does not count.

        """
        return None

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """Gather T rows from a cache of nvfp4_ds_mla into dst: SPEC.md GATHER.

        src_cache: uint8 [num_blocks, block_size, 352]; dst: bf16 [T, 576], written; block_table: int32
        [>= R, max_blocks]; workspace_starts: int32 [>= R]; batch_size: R; seq_starts: int32 [>= R], or None for 0. A
        malformed call must raise (GATHER-11). Capability: gather.nvfp4, and gather.nvfp4.seq_starts for calls with
        seq_starts.
        """
        raise NotImplementedError

    def cp_gather_and_upconvert_fp8_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """Gather T rows from a cache of fp8_ds_mla into dst: SPEC.md TWIN-1 to TWIN-4.

        src_cache: uint8 [num_blocks, block_size, 656]. The other arguments and the errors are those of the nvfp4
        gather. Capability: gather.fp8, and gather.fp8.seq_starts for calls with seq_starts.
        """
        raise NotImplementedError

    def gather_and_maybe_dequant_cache(
        self,
        src_cache: Any,
        dst: Any,
        block_table: Any,
        cu_seq_lens: Any,
        token_to_seq: Any,
        num_tokens: int,
        kv_cache_dtype: str,
        scale: Any,
        seq_starts: Any = None,
    ) -> None:
        """Gather T rows of n numbers, n = 576 or 512, into the first rows of dst: SPEC.md TWIN-5 to TWIN-9.

        src_cache: [num_blocks, block_size, n], bf16 for "auto" and uint8 for "fp8"; dst: bf16 [>= T, n], written;
        block_table: int32 [>= R, max_blocks]; cu_seq_lens: int32 [R + 1]; token_to_seq: int32 [>= T]; num_tokens: T;
        kv_cache_dtype: "auto" or "fp8"; scale: float32 [1] or []; seq_starts: int32 [>= R], or None for 0. A malformed
        call must raise (GATHER-11). Capability: gather.generic, and gather.generic.seq_starts for calls with
        seq_starts.
        """
        raise NotImplementedError

    def concat_and_cache_mla(
        self, kv_c: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, kv_cache_dtype: str, scale: Any
    ) -> None:
        """Write T tokens into the slots of kv_cache: SPEC.md WRITE. Capability: WRITES[kv_cache_dtype].

        kv_c: bf16 [>= T, 512]; k_pe: bf16 [>= T, 64]; kv_cache: [num_blocks, block_size, n], written, uint8 with n =
        352 ("nvfp4_ds_mla"), 656 ("fp8_ds_mla") or 576 ("fp8"), or bf16 with n = 576 ("auto"); slot_mapping: int64 [T],
        negative for a token to skip; scale: float32 [1] or []. A malformed call must raise (WRITE-9).
        """
        raise NotImplementedError

    def merge_attn_states(
        self,
        output: Any,
        prefix_output: Any,
        prefix_lse: Any,
        suffix_output: Any,
        suffix_lse: Any,
        output_lse: Any = None,
    ) -> None:
        """Merge two partial results of attention into output and output_lse: SPEC.md MERGE. Capability: merge.

        output, prefix_output, suffix_output: [T, H, D] of bf16, float16 or float32; prefix_lse, suffix_lse: float32
        [H, T]; output_lse: float32 [H, T] or None. output and output_lse are written. A malformed call must raise
        (MERGE-10).
        """
        raise NotImplementedError

    def compute_prefill_context(
        self,
        q: npt.NDArray[np.float32],
        kv_cache: npt.NDArray[Any],
        kv_cache_dtype: str,
        scale: float,
        block_table: npt.NDArray[np.int32],
        chunked_context: ContextMetadata,
        kv_b_proj: npt.NDArray[np.float32],
        softmax_scale: float,
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Return attention over cached context, as output float32 [tokens, H, v_head_dim] and LSE float32 [H, tokens].

        SPEC.md ATTEND, with the loop over chunks. Capability: attend. All arrays are NumPy arrays, whatever `memory`
        is. q: float32 [tokens, H, qk_nope_head_dim + 64]; kv_cache: [num_blocks, block_size, n], as
        concat_and_cache_mla writes it, bf16 as uint16; scale: that of "fp8"; block_table: int32 [requests, max_blocks];
        kv_b_proj: float32 [H, qk_nope_head_dim + v_head_dim, 512]. The target allocates its workspace.
        """
        raise NotImplementedError

    def plan_mla_context_chunks(
        self,
        context_lens: Sequence[int],
        row_budget: int,
        max_context_chunk: int,
        split_alignment: int,
        padded_rows: Callable[[int], int],
    ) -> Sequence[Any]:
        """Return the chunks of a batch, with PLAN's attributes: SPEC.md PLAN-1 to PLAN-7. Capability: plan.

        context_lens: R numbers of context tokens. The other arguments are those of
        reference.chunks.plan_mla_context_chunks. The call must not change its arguments (PLAN-23).
        """
        raise NotImplementedError

    def build_mla_chunked_context_metadata(
        self,
        context_lens: Sequence[int],
        query_start_loc: Sequence[int],
        workspace_rows: int,
        block_size: int,
        align_chunk_to_block: bool,
        dcp_world_size: int,
        interleave: int,
    ) -> Any:
        """Return the metadata of chunked context: SPEC.md PLAN-8 to PLAN-19. Capability: plan.metadata.

        With dcp_world_size above 1: SHARD-6 to SHARD-12, capability plan.dcp. context_lens has R entries,
        query_start_loc R + 1. The result is None without context, else an object with context_lens, empty_token_slices
        and chunks. The chunks have the attributes that PLAN and SHARD name: slices, numbers, and any sequences or
        arrays of integers.
        """
        raise NotImplementedError

    def determine_chunked_prefill_workspace_size(
        self,
        builder: Literal["dense", "sparse"],
        max_model_len: int,
        max_num_seqs: int,
        block_size: int,
        index_topk: int,
        dcp_world_size: int,
        interleave: int,
    ) -> int:
        """Return the rows of a builder's workspace: SPEC.md PLAN-20, PLAN-21, SHARD-13. Capability: plan.workspace.

        Raise NotImplementedError for a builder that the target does not have.
        """
        raise NotImplementedError

    def context_gathers(self, site: str, kv_cache_dtype: str, case: Context) -> Sequence[GatherCall] | None:
        """Return the gather calls of a batch at one site, or None if that kv_cache_dtype never reaches the site.

        SPEC.md SERVE-1 and SERVE-2. Capability: serve.dispatch. `site` is one of conformance.contexts.SITES. The
        target's code there gets the chunks case.chunks(site), on one rank of case.sharding. Raise
        conformance.judge.Unsupported for a site that the target does not have, and conformance.judge.NotJudged for one
        that this machine cannot run.
        """
        raise NotImplementedError

    def start(self, config: Serving) -> None:
        """Start a server for a configuration, up to its first request: SPEC.md SERVE-3 to SERVE-10.

        Capability: serve.startup. If the target refuses the configuration, raise the error that a user sees. Raise
        conformance.judge.NotJudged if this machine cannot run the code that decides.
        """
        raise NotImplementedError
