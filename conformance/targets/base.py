"""What a target is: a name, what it can do, where its arrays live, and the operators themselves."""

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
"""What a writer needs for each kv_cache_dtype."""

GATHERS = {
    "nvfp4_ds_mla": (GATHER, GATHER_STARTS, "cp_gather_and_upconvert_nvfp4_kv_cache"),
    "fp8_ds_mla": (GATHER_FP8, GATHER_FP8_STARTS, "cp_gather_and_upconvert_fp8_kv_cache"),
    "auto": (GATHER_GENERIC, GATHER_GENERIC_STARTS, "gather_and_maybe_dequant_cache"),
    "fp8": (GATHER_GENERIC, GATHER_GENERIC_STARTS, "gather_and_maybe_dequant_cache"),
}
"""What a gather needs for each record, without and with seq_starts, and the method that it is."""

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
"""Each capability, and the method that a target which claims it has to define."""

CAPABILITIES = frozenset(OPERATORS)
"""All that a target can claim, and all that SPEC.md's table of bindings may name."""


class Target:
    """A judged implementation. Derive from it, name the capabilities, and implement their operators.

    An operator gets arrays of `memory` and either works, or raises. Only a call that SPEC.md calls malformed may raise.
    """

    name: str
    capabilities: ClassVar[frozenset[str]] = frozenset()
    nan: Literal["canonical", "any"] = "canonical"
    """Whether each NaN read must be 0x7FFF, or may be any NaN (SPEC.md READ-6)."""
    profile: Profile = DEFAULT
    """How its writers quantize (SPEC.md WRITE)."""
    attends: frozenset[str] = frozenset(WRITES)
    """The kv_cache_dtypes that its loop over chunks serves, if it has one (SPEC.md ATTEND)."""
    attends_in: Literal["binary32", "bf16"] = "binary32"
    """What that loop rounds keys, values, weights and partial results to."""
    memory: Memory
    schemas: Mapping[str, str] = MappingProxyType({})
    """By the name of an operator, the schema it is registered with; empty for a target that registers none."""
    lost: str | None = None
    """Which test ruined this process's CUDA context, and how; nothing can be judged in it from then on."""
    slow: bool = False
    """Whether profile quick leaves out of its gate what is marked long; the summary says so."""
    crash_prone: bool = True
    """Whether a call may take the process down, so that each case is written before."""
    most_workers: int | None = None
    """How many processes may run the target at a time on one machine, where `-n auto` would start more; None: any."""
    device_bytes: int = 21 << 30
    """GPU code: what its largest cases take of a device's memory. A case that needs more is not judged."""
    usual_device_bytes: int = 3 << 30
    """GPU code: what all other cases take. `-n auto` starts as many workers as have room for that.

    The workers of a device share some rooms for the largest cases.
    """

    @property
    def is_gpu_code(self) -> bool:
        """Whether SPEC.md's chapter DEVICE binds it: as a rule, if its arrays lie on a CUDA device."""
        return self.memory.on_device

    def unavailable(self) -> str | None:
        """Why this machine cannot run the target, in one line; None if it can."""
        return None

    def describe(self) -> str:
        """Where it runs, for people: a device or a compiler and processor."""
        raise NotImplementedError

    def hindrance(self, capability: str) -> str | None:
        """Why this machine cannot run one of the capabilities, in the target's own words; None if it can."""
        return None

    def offers(self) -> frozenset[str]:
        """What --require may ask for: the capabilities, and on a GPU `cuda` and its architecture, such as sm_100."""
        return self.capabilities

    def receipt(self) -> dict[str, Any]:
        """What really ran, for reports: versions, device, hashes, launches; JSON types only.

        A target without one is not judged (docs/ci.md).
        """
        return {}

    def launches(self) -> Mapping[str, int] | None:
        """How many kernels it has launched so far in this process, by the name of the operator; None: it counts none.

        The gate compares that with its calls: a call with something to write that launched nothing was answered by
        something else.
        """
        return None

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """SPEC.md GATHER; needs the capability gather.nvfp4, and gather.nvfp4.seq_starts if seq_starts is not None."""
        raise NotImplementedError

    def cp_gather_and_upconvert_fp8_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """SPEC.md TWIN; needs the capability gather.fp8, and gather.fp8.seq_starts if seq_starts is not None."""
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
        """SPEC.md TWIN-5 to TWIN-9; needs gather.generic, and gather.generic.seq_starts if seq_starts is not None."""
        raise NotImplementedError

    def concat_and_cache_mla(
        self, kv_c: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, kv_cache_dtype: str, scale: Any
    ) -> None:
        """SPEC.md WRITE; needs the capability that WRITES names for kv_cache_dtype."""
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
        """SPEC.md MERGE; needs the capability merge."""
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
        """SPEC.md ATTEND, the whole loop over chunks; needs the capability attend.

        NumPy arrays, whatever the target's memory is; the workspace is the target's own. Returns output and LSE.
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
        """SPEC.md PLAN; needs the capability plan. The chunks have the attributes that PLAN names."""
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
        """SPEC.md PLAN-8 to PLAN-19; needs the capability plan.metadata, and plan.dcp if dcp_world_size is above 1.

        None, or an object with the attributes context_lens, empty_token_slices and chunks, whose members have the
        attributes that PLAN names, and SHARD if dcp_world_size is above 1: slices, numbers, and anything with integers.
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
        """SPEC.md PLAN-20, PLAN-21, SHARD-13; needs the capability plan.workspace.

        NotImplementedError for a builder that the target does not have.
        """
        raise NotImplementedError

    def context_gathers(self, site: str, kv_cache_dtype: str, case: Context) -> Sequence[GatherCall] | None:
        """SPEC.md SERVE-1 and SERVE-2; needs the capability serve.dispatch.

        What the target's own code at one of conformance.contexts.SITES asks of its gather operators for a batch, call
        by call, on one rank of case.sharding, when it is handed the chunks case.chunks(site); None if context of that
        kv_cache_dtype never comes to that site. Raises conformance.judge.NotJudged for a site that this machine cannot
        run, Unsupported for one that the target does not have.
        """
        raise NotImplementedError

    def start(self, config: Serving) -> None:
        """SPEC.md SERVE-3 to SERVE-10; needs the capability serve.startup.

        All that a server decides from its configuration before it takes a request; raises what the user would see if
        it refuses, and conformance.judge.NotJudged where this machine cannot run what decides.
        """
        raise NotImplementedError
