"""Wrap the golden gathers: a function may change the call, make it, and write to memory before or after it."""

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
    """Pass every gather call to a function, together with the golden gather."""

    def __init__(self, meddler: Meddler, capabilities: frozenset[str]) -> None:
        """Set `meddler`, which gets the golden gather and the arguments by name, and the claimed capabilities."""
        super().__init__()
        self.meddler = meddler
        self.capabilities = capabilities  # type: ignore[misc]

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, **call: Any) -> None:  # type: ignore[override]
        """Pass the call to `meddler`; the arguments are those of Target."""
        gather = super().cp_gather_and_upconvert_nvfp4_kv_cache
        self.meddler(lambda changed: gather(**changed), _whole(call))

    def cp_gather_and_upconvert_fp8_kv_cache(self, **call: Any) -> None:  # type: ignore[override]
        """Pass the call to `meddler`; the arguments are those of Target."""
        gather = super().cp_gather_and_upconvert_fp8_kv_cache
        self.meddler(lambda changed: gather(**changed), _whole(call))

    def gather_and_maybe_dequant_cache(self, **call: Any) -> None:  # type: ignore[override]
        """Pass the call to `meddler`; the arguments are those of Target."""
        gather = super().gather_and_maybe_dequant_cache
        self.meddler(lambda changed: gather(**changed), _whole(call))


def _whole(call: Arguments) -> Arguments:
    return {"seq_starts": None, **call}


def rows_of(call: Arguments) -> int:
    """Return T, the number of rows to write: num_tokens if the call has it, else the rows of dst."""
    return int(call.get("num_tokens", len(call["dst"])))


def allocation(array: npt.NDArray[Any], places: npt.NDArray[np.int64] | int, value: int) -> None:
    """Write `value` to elements of the allocation that `array` is a view of.

    `places` is int64 [N] or one int. Places count in elements from the first element of `array`. Places outside of the
    allocation are skipped.
    """
    strip = strip_of(array)
    at = np.atleast_1d(places) + strip.first
    strip.base[at[(at >= 0) & (at < len(strip.base))]] = value
