"""Targets under which a gate that is not careful would be green although nothing, or something else, was judged."""

from typing import Any

from conformance.targets.base import GATHER, Target
from conformance.targets.kernels import HostTarget
from conformance.targets.models import NumpyTarget
from reference.gather import cp_gather_and_upconvert_nvfp4_kv_cache


class FallsBack(HostTarget):
    """Every third call is answered by something else, rightly."""

    name = "falls back"
    calls = 0

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, *args: Any, **more: Any) -> None:
        self.calls += 1
        if self.calls % 3:
            super().cp_gather_and_upconvert_nvfp4_kv_cache(*args, **more)
        else:
            cp_gather_and_upconvert_nvfp4_kv_cache(*args, **more)


class WithoutReceipt(NumpyTarget):
    def receipt(self) -> dict[str, Any]:
        return {}


class LosesItsReceipt(NumpyTarget):
    def receipt(self) -> dict[str, Any]:
        raise OSError("the file of hashes is gone")


class OnHopper(NumpyTarget):
    """As a target is on a machine with another GPU than the one asked for."""

    def offers(self) -> frozenset[str]:
        return self.capabilities | {"cuda", "sm_90"}


class WithoutStarts(NumpyTarget):
    name = "without starts"
    capabilities = frozenset({GATHER})


class Elsewhere(NumpyTarget):
    def unavailable(self) -> str | None:
        return "it runs on a machine of another kind"


class Idle(Target):
    """Claims nothing at all."""

    name = "idle"

    def __init__(self) -> None:
        self.memory = NumpyTarget().memory

    def describe(self) -> str:
        return "nothing"

    def receipt(self) -> dict[str, Any]:
        return {"device": "cpu"}
