"""What the parts of the pytest plugin share: the targets asked for, and where they run."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest

from conformance.reports.gate import Gate
from conformance.targets.base import (
    ATTEND,
    GATHER_FP8,
    GATHER_GENERIC,
    MERGE,
    PLAN,
    PLANNING,
    SERVE_DISPATCH,
    SERVE_STARTUP,
    WRITES,
    Target,
)
from conformance.targets.registry import UnknownTarget, find, resolve

GATE = pytest.StashKey[Gate]()
TARGETS = pytest.StashKey[dict[str, Target]]()


def targets_of(config: pytest.Config) -> dict[str, Target]:
    """The targets asked for, by name; a name that is none is a usage error."""
    # xdist asks before pytest_configure, if -n is auto.
    if TARGETS not in config.stash:
        names = list(dict.fromkeys(resolve(name) for name in config.getoption("--target") or ["auto"]))
        try:
            config.stash[TARGETS] = {name: find(name) for name in names}
        except UnknownTarget as error:
            raise pytest.UsageError(str(error)) from error
    return config.stash[TARGETS]


def worker_id(config: pytest.Config) -> str:
    """The name of this process among those of the run; "main" without xdist."""
    return str(getattr(config, "workerinput", {}).get("workerid", "main"))


FORMATS_OF = {
    "nvfp4_ds_mla": range(10, 16),
    "fp8_ds_mla": range(16, 19),
    "auto": (19,),
    "fp8": (20,),
}
"""The numbers of the WRITE clauses that are about one kv_cache_dtype; the others are about them all."""


AROUND_A_PLAN = {*(f"PLAN-{number}" for number in range(8, 25)), *(f"SHARD-{number}" for number in range(6, 14))}
"""The clauses on metadata and workspaces, and those on answers as such."""


OF_FP8_DS_MLA = {f"TWIN-{number}" for number in range(1, 5)}
"""The clauses on the gather of fp8_ds_mla; the other TWIN clauses are on the generic one."""

OF_A_LOOP = {f"ATTEND-{number}" for number in range(2, 7)}
"""The clauses on a target's own loop over chunks; the other ATTEND clauses are on every gather."""


def binds(clause: str, target: Target) -> bool:
    """Whether a clause says anything of a target: DEVICE is about GPU code, WRITE about what it claims to write."""
    try:
        if clause.startswith("DEVICE"):
            return target.is_gpu_code
        if clause.startswith("WRITE"):
            return any(WRITES[form] in target.capabilities for form in _formats_of(clause))
        if clause == "GATHER-15":
            return bool(target.schemas)
        if clause.startswith("TWIN"):
            return (GATHER_FP8 if clause in OF_FP8_DS_MLA else GATHER_GENERIC) in target.capabilities
        if clause.startswith("MERGE"):
            return MERGE in target.capabilities
        if clause in OF_A_LOOP:
            return ATTEND in target.capabilities
        if clause in AROUND_A_PLAN:
            return bool(PLANNING & target.capabilities)
        if clause.startswith("SERVE"):
            return (SERVE_DISPATCH if clause in ("SERVE-1", "SERVE-2") else SERVE_STARTUP) in target.capabilities
        if clause.startswith("PLAN"):
            return PLAN in target.capabilities
        return True
    except Exception:  # a target that cannot even say so is to crash in a test, by name
        return True


def _formats_of(clause: str) -> list[str]:
    number = int(clause.partition("-")[2] or 0)
    if clause == "WRITE-21":
        return ["nvfp4_ds_mla"]
    return [form for form, numbers in FORMATS_OF.items() if number in numbers] or [*FORMATS_OF]


def claims(target: Target, capability: str) -> bool:
    """Whether a target claims a capability; one that cannot say is to crash in a test, by name."""
    try:
        return capability in target.capabilities
    except Exception:
        return True


def writes(target: Target, kv_cache_dtype: str) -> bool:
    """Whether a target claims to write a kv_cache_dtype."""
    return claims(target, WRITES[kv_cache_dtype])


def use_exact_memory(targets: Iterable[Target]) -> None:
    """Let each allocation end where its array ends, and come from the CUDA runtime itself."""
    on_device = [target.memory for target in targets if target.memory.on_device]
    for memory in on_device:
        memory.exact = True
    if any(memory.name == "cupy" for memory in on_device):
        import cupy

        cupy.cuda.set_allocator(None)  # torch has PYTORCH_NO_CUDA_MEMORY_CACHING for that
    os.environ.setdefault("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")


def where(target: Target) -> str:
    """Where a target runs, or why it cannot, in one line."""
    reason = target.unavailable()
    return f"not judged: {reason}" if reason else target.describe()
