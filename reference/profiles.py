"""List the writer profiles of SPEC.md's table as data (WRITE)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Profile:
    """Describe how a writer quantizes where SPEC.md leaves a choice, one value a parameter (WRITE-10 to 13, 17)."""

    name: str
    nan: Literal["ignored", "spreads"] = "ignored"
    sixth: Literal["divided", "multiplied"] = "divided"
    scale: Literal["nearest", "up"] = "nearest"
    normalisation: Literal["reciprocal", "division"] = "reciprocal"
    tile: Literal["arbitrary", "power of two"] = "power of two"


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("vllm-0.33"),
        Profile("vllm-03b60164", scale="up"),
        Profile("vllm-triton", sixth="multiplied"),
        Profile("flashmla", nan="spreads", normalisation="division"),
        Profile("arbitrary-tiles", tile="arbitrary"),
    )
}
DEFAULT = PROFILES["vllm-0.33"]
"""The profile of vLLM's releases."""
