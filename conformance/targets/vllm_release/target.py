"""The installed vLLM as a target: what that release really has, found by looking, and nothing by its version."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from conformance.memory import ArrayMemory
from conformance.targets.base import Target
from conformance.targets.vllm_release import names
from conformance.targets.vllm_release.metadata import Metadata
from conformance.targets.vllm_release.planning import Planning
from conformance.targets.vllm_release.serving import Dispatching
from conformance.targets.vllm_release.startup import Starting


class VllmTarget(Planning, Metadata, Dispatching, Starting, Target):
    """vLLM, as far as it runs on this machine."""

    name = "vllm"
    is_gpu_code = False

    def __init__(self) -> None:
        """Imports nothing yet."""
        self.memory = ArrayMemory()

    @property
    def capabilities(self) -> frozenset[str]:  # type: ignore[override]
        """What was found."""
        planned = self.planning_capabilities() | self.metadata_capabilities()
        return planned | self.dispatch_capabilities() | self.startup_capabilities()

    def unavailable(self) -> str | None:
        """See Target."""
        if not names.installed():
            return "vllm cannot be imported"
        reason = names.why_not_importable()
        return f"vllm cannot be imported: {reason}" if reason else None

    def hindrance(self, capability: str) -> str | None:
        """See Target."""
        return self.metadata_hindrance(capability)

    def describe(self) -> str:
        """See Target."""
        try:
            return f"vLLM {version('vllm')}"
        except PackageNotFoundError:
            return "a vLLM that is not installed as a distribution"

    def receipt(self) -> dict[str, Any]:
        """See Target."""
        planned = {**self.planning_receipt(), **self.metadata_receipt()}
        return {"vllm": self.describe(), **planned, **self.dispatch_receipt(), **self.startup_receipt()}
