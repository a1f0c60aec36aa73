"""Judge the installed vLLM. Its capabilities are found by looking for code, not by its version."""

from __future__ import annotations

from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from conformance.memory import ArrayMemory, Memory
from conformance.targets.vllm_release import names
from conformance.targets.vllm_release.attending import Attending
from conformance.targets.vllm_release.metadata import Metadata
from conformance.targets.vllm_release.ops import CompiledOperators, installed_library, torch_memory
from conformance.targets.vllm_release.planning import Planning
from conformance.targets.vllm_release.serving import Dispatching
from conformance.targets.vllm_release.startup import Starting


class VllmTarget(Planning, Metadata, Dispatching, Attending, Starting, CompiledOperators):
    """Run vLLM as far as this machine can: its Python code anywhere, its compiled operators on a GPU."""

    name = "vllm"

    def __init__(self) -> None:
        """Do nothing; vLLM is imported later."""

    @cached_property
    def library(self) -> Path | None:  # type: ignore[override]
        """The library that registers the operators, or None."""
        return installed_library()

    @cached_property
    def memory(self) -> Memory:  # type: ignore[override]
        """Torch tensors if the release has an operator to call, else NumPy arrays."""
        return torch_memory() if self.library or self.attend_capabilities() else ArrayMemory()

    @property
    def capabilities(self) -> frozenset[str]:  # type: ignore[override]
        """The capabilities whose code exists in the release."""
        planned = self.planning_capabilities() | self.metadata_capabilities()
        served = self.dispatch_capabilities() | self.attend_capabilities() | self.startup_capabilities()
        return planned | served | self.operator_capabilities()

    def unavailable(self) -> str | None:
        """See Target."""
        if not names.installed():
            return "vllm cannot be imported"
        reason = names.why_not_importable()
        return f"vllm cannot be imported: {reason}" if reason else None

    def hindrance(self, capability: str) -> str | None:
        """See Target."""
        if capability in self.operator_capabilities() - self.attend_capabilities():
            return self.operator_hindrance(capability)
        return self.metadata_hindrance(capability)

    def offers(self) -> frozenset[str]:
        """See Target."""
        able = {capability for capability in self.capabilities if self.hindrance(capability) is None}
        return self.operator_offers() | able

    def describe(self) -> str:
        """See Target."""
        try:
            return f"vLLM {version('vllm')}"
        except PackageNotFoundError:
            return "a vLLM that is not installed as a distribution"

    def receipt(self) -> dict[str, Any]:
        """See Target."""
        planned = {**self.planning_receipt(), **self.metadata_receipt()}
        served = {**self.dispatch_receipt(), **self.attend_receipt(), **self.startup_receipt()}
        return {"vllm": self.describe(), **planned, **served, **self.operator_receipt()}
