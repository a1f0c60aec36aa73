"""A gather that is right but for what is done around it: what defects of a call as a whole are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.faults.steps import strip_of
from conformance.targets.models import NumpyTarget

Arguments = dict[str, Any]
Proceed = Callable[[Arguments], None]
Meddler = Callable[[Proceed, Arguments], None]


class Around(NumpyTarget):
    """The golden gathers, with each call in the hands of somebody who may change it, make it, and write afterwards."""

    def __init__(self, meddler: Meddler, capabilities: frozenset[str]) -> None:
        """`meddler` gets the golden gather, which takes a call, and the call: its arguments by name."""
        super().__init__()
        self.meddler = meddler
        self.capabilities = capabilities  # type: ignore[misc]

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, **call: Any) -> None:  # type: ignore[override]
        """See Target."""
        gather = super().cp_gather_and_upconvert_nvfp4_kv_cache
        self.meddler(lambda changed: gather(**changed), _whole(call))

    def cp_gather_and_upconvert_fp8_kv_cache(self, **call: Any) -> None:  # type: ignore[override]
        """See Target."""
        gather = super().cp_gather_and_upconvert_fp8_kv_cache
        self.meddler(lambda changed: gather(**changed), _whole(call))

    def gather_and_maybe_dequant_cache(self, **call: Any) -> None:  # type: ignore[override]
        """See Target."""
        gather = super().gather_and_maybe_dequant_cache
        self.meddler(lambda changed: gather(**changed), _whole(call))


def _whole(call: Arguments) -> Arguments:
    return {"seq_starts": None, **call}


def rows_of(call: Arguments) -> int:
    """T."""
    return int(call.get("num_tokens", len(call["dst"])))


def allocation(array: npt.NDArray[Any], places: npt.NDArray[np.int64] | int, value: int) -> None:
    """Write elements of an array's allocation, counted from its own first; those outside of it are left out."""
    strip = strip_of(array)
    at = np.atleast_1d(places) + strip.first
    strip.base[at[(at >= 0) & (at < len(strip.base))]] = value
