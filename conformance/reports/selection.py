"""Describe which tests a run was to judge, and which it left out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Shard:
    """Name part `index` of `of` of a run, counted from 1."""

    index: int
    of: int

    def __str__(self) -> str:
        """Return the text of --shard."""
        return f"{self.index}/{self.of}"

    def holds(self, test: str) -> bool:
        """Return whether a test belongs to this part. Only its name decides, so that other tests do not move it."""
        return int.from_bytes(hashlib.sha256(test.encode()).digest()[:8], "big") % self.of == self.index - 1


@dataclass(frozen=True)
class Selection:
    """Hold the ids of the gate's tests, each with its target, as every worker collects them.

    `tests` were asked for, before they are divided among shards. `deselected` were left out by -k, -m and so on.
    `spared` were left out by the profile quick for a slow target. `parts` has other reasons why it is only a part.
    """

    tests: tuple[str, ...] = ()
    deselected: tuple[str, ...] = ()
    spared: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()

    def held_by(self, shard: Shard | None) -> tuple[str, ...]:
        """Return the tests of one shard, or all tests for None."""
        return tuple(test for test in self.tests if shard is None or shard.holds(test))

    @property
    def whole(self) -> bool:
        """Whether the whole gate is asked for, in one run or by shards."""
        return not self.deselected and not self.parts

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits of a SHA-256 of all tests asked for. The shards of one run have the same."""
        return fingerprint(self.tests)

    def told(self) -> dict[str, Any]:
        """Return the selection as JSON types, for a worker to send."""
        return asdict(self)

    @classmethod
    def heard(cls, told: dict[str, Any]) -> Selection:
        """Return the selection that a worker has sent."""
        return cls(**{name: tuple(value) for name, value in told.items()})


def fingerprint(tests: Iterable[str]) -> str:
    """Return 16 hexadecimal digits of a SHA-256 of test names, in any order."""
    return hashlib.sha256("\n".join(sorted(tests)).encode()).hexdigest()[:16]


def some(tests: Sequence[str], most: int = 3) -> str:
    """Return the names in one line, or their count and the first few."""
    return f"{len(tests):,} tests, such as {', '.join(tests[:most])}" if len(tests) > most else ", ".join(tests)
