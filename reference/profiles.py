"""WRITE: the profiles of SPEC.md's table, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Profile:
    """How a writer quantizes, where SPEC.md leaves it open: one value for each parameter (WRITE-10 to WRITE-13, 17)."""

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
"""What the caches of vLLM's releases hold."""
