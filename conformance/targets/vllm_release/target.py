"""The installed vLLM as a target: what that release really has, found by looking, and nothing by its version."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from conformance.memory import ArrayMemory
from conformance.targets.base import Target
from conformance.targets.vllm_release import names
from conformance.targets.vllm_release.planning import Planning


class VllmTarget(Planning, Target):
    """vLLM, as far as it runs on this machine."""

    name = "vllm"
    is_gpu_code = False

    def __init__(self) -> None:
        """Imports nothing yet."""
        self.memory = ArrayMemory()

    @property
    def capabilities(self) -> frozenset[str]:  # type: ignore[override]
        """What was found."""
        return self.planning_capabilities()

    def unavailable(self) -> str | None:
        """See Target."""
        return None if names.installed() else "vllm cannot be imported"

    def describe(self) -> str:
        """See Target."""
        try:
            return f"vLLM {version('vllm')}"
        except PackageNotFoundError:
            return "a vLLM that is not installed as a distribution"

    def receipt(self) -> dict[str, Any]:
        """See Target."""
        return {"vllm": self.describe(), **self.planning_receipt()}
