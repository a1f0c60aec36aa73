"""A target that conforms but for what is done to its calls, and cases for it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from conformance.generation import Geometry, realize
from conformance.targets.models import NumpyTarget
from fixtures.cases import Arrangement, GatherCase

Call = dict[str, Any]


class Meddling(NumpyTarget):
    """The golden model, with something done to a call before or after."""

    def __init__(
        self, before: Callable[[Call], None] | None = None, after: Callable[[Call], None] | None = None
    ) -> None:
        super().__init__()
        self.before, self.after = before, after

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        call = dict(
            src_cache=src_cache,
            dst=dst,
            block_table=block_table,
            workspace_starts=workspace_starts,
            batch_size=batch_size,
            seq_starts=seq_starts,
        )
        if self.before:
            self.before(call)
        super().cp_gather_and_upconvert_nvfp4_kv_cache(**call)
        if self.after:
            self.after(call)


def case(dst_row_slack: int = 0) -> GatherCase:
    return realize(Geometry(4, (5, 0, 3), (3, 1, 6), arrangement=Arrangement(dst_row_slack=dst_row_slack)), seed=1)


def write_behind(array: np.ndarray, by: int) -> None:
    """Write one element, that far behind the last one of a view."""
    last = sum((size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True))
    everything = np.lib.stride_tricks.as_strided(array, (last // array.itemsize + by + 1,), (array.itemsize,))
    everything[-1] = 0x33


def write(name: str, index: Any, value: int) -> Callable[[Call], None]:
    return lambda call: call[name].__setitem__(index, value)
