"""Which tests a run was to judge by, and what it was told to leave out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Shard:
    """Part `index` of `of`, counted from 1."""

    index: int
    of: int

    def __str__(self) -> str:
        """As it is asked for."""
        return f"{self.index}/{self.of}"

    def holds(self, test: str) -> bool:
        """Whether a test belongs to this part: that depends on its name alone, so that no other test moves it."""
        return int.from_bytes(hashlib.sha256(test.encode()).digest()[:8], "big") % self.of == self.index - 1


@dataclass(frozen=True)
class Selection:
    """The tests of the gate by id, each with its target, as every worker collects them.

    `tests` are those asked for, before they are divided among shards; `deselected` those that -k, -m and the like leave
    out, `spared` those that profile quick leaves out of a slow target; `parts` says what else makes it a part only.
    """

    tests: tuple[str, ...] = ()
    deselected: tuple[str, ...] = ()
    spared: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()

    def held_by(self, shard: Shard | None) -> tuple[str, ...]:
        """The tests of one shard; all, if there are none."""
        return tuple(test for test in self.tests if shard is None or shard.holds(test))

    @property
    def whole(self) -> bool:
        """Whether all of the gate is asked for, if need be shard by shard."""
        return not self.deselected and not self.parts

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits of a SHA-256 of all tests asked for: shards of one gate agree on it."""
        return fingerprint(self.tests)

    def told(self) -> dict[str, Any]:
        """As a worker sends it."""
        return asdict(self)

    @classmethod
    def heard(cls, told: dict[str, Any]) -> Selection:
        """As it was sent."""
        return cls(**{name: tuple(value) for name, value in told.items()})


def fingerprint(tests: Iterable[str]) -> str:
    """16 hexadecimal digits of a SHA-256 of tests by name, in any order."""
    return hashlib.sha256("\n".join(sorted(tests)).encode()).hexdigest()[:16]


def some(tests: Sequence[str], most: int = 3) -> str:
    """A count and the first few names, for one line."""
    return f"{len(tests):,} tests, such as {', '.join(tests[:most])}" if len(tests) > most else ", ".join(tests)
