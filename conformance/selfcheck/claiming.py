"""Targets by what binds them: `claiming:plan.metadata` claims that capability and nothing else."""

from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any

from conformance.targets.base import CAPABILITIES, OPERATORS, Target
from conformance.targets.models import NumpyTarget

IDLE, GPU, SCHEMA = "idle", "gpu", "schema"
NAMES = (IDLE, GPU, SCHEMA, *sorted(CAPABILITIES))


class Claiming(Target):
    """Claims the capability that is its name; "gpu" is GPU code, "schema" registers a schema, "idle" does nothing."""

    is_gpu_code = False

    def __init__(self, name: str) -> None:
        self.name, self.memory = name, NumpyTarget().memory
        self.capabilities = CAPABILITIES & {name}  # type: ignore[misc]
        self.is_gpu_code = name == GPU
        vars(self).update(dict.fromkeys(OPERATORS.values(), print))
        self.schemas = MappingProxyType({"gather": "gather() -> ()"} if name == SCHEMA else {})

    def describe(self) -> str:
        return "nothing"

    def receipt(self) -> dict[str, Any]:
        return {"device": "cpu"}


def __getattr__(name: str) -> Callable[[], Target]:
    """Return what makes the target of a name, so that --target finds it as conformance.selfcheck.claiming:NAME."""
    if name not in NAMES:
        raise AttributeError(name)
    return partial(Claiming, name)
