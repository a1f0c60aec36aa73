"""Make targets from the faults of gathers: the golden model with some steps replaced."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from conformance.faults.catalogue import FAULTS, TWIN_FAULTS, Fault
from conformance.faults.defect import Defect
from conformance.faults.steps import Call, Gather, strip_of
from conformance.targets.base import GATHERS
from conformance.targets.models import NumpyTarget
from reference.contract import check_destination, check_well_formed, check_well_formed_generic
from reference.records import FP8_DS_MLA, NVFP4_DS_MLA, RecordLayout

NVFP4_GATHER = frozenset(GATHERS[NVFP4_DS_MLA.name][:2])


class FaultyGather(NumpyTarget):
    """Gather with a fault, if it concerns the record layout. Refuse malformed calls as the golden model does."""

    def __init__(self, fault: Fault, capabilities: frozenset[str] = NVFP4_GATHER) -> None:
        """Set the fault, and the capabilities to claim: the gathers that the gate then judges."""
        super().__init__()
        self.fault = fault
        self.capabilities = capabilities  # type: ignore[misc]

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """Gather nvfp4_ds_mla rows with the fault. Raises ValueError for a malformed call."""
        self._of_requests(NVFP4_DS_MLA, src_cache, dst, block_table, workspace_starts, batch_size, seq_starts)

    def cp_gather_and_upconvert_fp8_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """Gather fp8_ds_mla rows with the fault. Raises ValueError for a malformed call."""
        self._of_requests(FP8_DS_MLA, src_cache, dst, block_table, workspace_starts, batch_size, seq_starts)

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
        """Gather "auto" or "fp8" rows with the fault. Raises ValueError for a malformed call."""
        layout = check_well_formed_generic(
            src_cache, block_table, cu_seq_lens, token_to_seq, num_tokens, kv_cache_dtype, scale, seq_starts
        )
        check_destination(dst, layout)
        if len(dst) < num_tokens:
            raise ValueError(f"num_tokens is {num_tokens}; allowed is at most {len(dst)}, the rows of dst")
        arrays = {"cu_seq_lens": cu_seq_lens, "token_to_seq": token_to_seq, "scale": scale}
        arrays |= {"src_cache": src_cache, "block_table": block_table}
        self._gather(layout, len(cu_seq_lens) - 1, dst[:num_tokens], arrays, seq_starts)

    def _of_requests(
        self,
        layout: RecordLayout,
        src_cache: Any,
        dst: Any,
        block_table: Any,
        workspace_starts: Any,
        batch_size: int,
        seq_starts: Any,
    ) -> None:
        check_destination(dst, layout)
        check_well_formed(src_cache, block_table, workspace_starts, batch_size, len(dst), seq_starts, layout)
        arrays = {"src_cache": src_cache, "block_table": block_table, "workspace_starts": workspace_starts}
        self._gather(layout, int(batch_size), dst, arrays, seq_starts)

    def _gather(
        self, layout: RecordLayout, batch_size: int, rows: Any, arrays: dict[str, Any], seq_starts: Any
    ) -> None:
        if len(rows) == 0 or batch_size == 0:
            return
        if seq_starts is not None:
            arrays["seq_starts"] = seq_starts
        scale = arrays["scale"].reshape(1)[0] if "scale" in arrays else np.float32(1)
        strips = {name: strip_of(array) for name, array in arrays.items()}
        figures = (batch_size, len(rows), arrays["src_cache"].shape[1], arrays["block_table"].shape[1])
        gather = self.fault.gather if self.fault.concerns(layout) else Gather()
        rows[:] = gather(Call(*figures, layout, scale, rows.copy(), strips))


def _defect_of(fault: Fault, kind: str) -> Defect:
    claimed = [GATHERS[name][:2] for name in sorted(fault.layouts)] if kind == "twin" else [NVFP4_GATHER]
    capabilities = frozenset(capability for some in claimed for capability in some)
    target = partial(FaultyGather, fault, capabilities)
    return Defect(fault.name, fault.sentence, fault.clause, kind, target, fault.source)


DEFECTS = (
    *(_defect_of(fault, "gather") for fault in FAULTS),
    *(_defect_of(fault, "twin") for fault in TWIN_FAULTS),
)
