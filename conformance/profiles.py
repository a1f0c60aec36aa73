"""How much a run generates."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """`random_cases` are drawn in all by the randomized tests of one target; enumerations are the same in each."""

    name: str
    random_cases: int


PROFILES = {
    profile.name: profile for profile in (Profile("quick", 200), Profile("ci", 2_000), Profile("nightly", 50_000))
}


def derived_seed(master: int, name: str) -> int:
    """A test's own seed, from the master seed and the test's name: the same on any number of workers."""
    return int.from_bytes(hashlib.sha256(f"{master}:{name}".encode()).digest()[:8], "big")
