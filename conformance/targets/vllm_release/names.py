"""Where vLLM keeps what is judged: the one place that knows names which move between releases.

Each entry lists the places that have had it, newest first, and the releases it was tried on.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

MLA = "vllm.model_executor.layers.attention.mla_attention"

PLANNER = [(MLA, "plan_mla_context_chunks")]
"""Tried on 0.33.0."""


def installed() -> bool:
    """Whether vLLM can be imported, without importing it."""
    return importlib.util.find_spec("vllm") is not None


def first_of(places: list[tuple[str, str]]) -> Any:
    """The first of (module, attribute) that exists in the installed release, attribute with dots; else None."""
    for module, attribute in places if installed() else ():
        try:
            found: Any = importlib.import_module(module)
            for name in attribute.split("."):
                found = getattr(found, name)
        except (ImportError, AttributeError):
            continue
        return found
    return None
