"""Spread context over the ranks of decode context parallelism (SPEC.md SHARD-1 to SHARD-4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Sharding:
    """Describe how `ranks` ranks hold tokens in turn, `interleave` tokens at a time."""

    ranks: int
    interleave: int = 1

    @property
    def stripe(self) -> int:
        """The number of tokens in one turn of all ranks."""
        return self.ranks * self.interleave

    def rank_of(self, tokens: Ints) -> Ints:
        """Return the rank that holds each token: int64 token numbers of any shape give int64 ranks (SHARD-1)."""
        return tokens // self.interleave % self.ranks

    def local_index(self, tokens: Ints) -> Ints:
        """Return the index of each token within its rank: int64 token numbers of any shape give int64 (SHARD-1)."""
        return tokens // self.stripe * self.interleave + tokens % self.interleave

    def padded_rows(self, tokens: int) -> int:
        """Return the rows that every rank gathers for `tokens` tokens, padding included (SHARD-2)."""
        return -(-tokens // self.stripe) * self.interleave

    def local_length(self, tokens: int, rank: int) -> int:
        """Return how many of a request's first `tokens` tokens the rank holds (SHARD-1)."""
        whole, rest = divmod(tokens, self.stripe)
        return whole * self.interleave + min(max(rest - rank * self.interleave, 0), self.interleave)

    def alignment(self, alignment: int) -> int:
        """Return the unit for cuts of a chunk: a multiple of `alignment` and of a full turn of the ranks (SHARD-3)."""
        return lcm(alignment, self.stripe)


def interleaved(
    shards: Sequence[npt.NDArray[np.uint16]], seq_lens: Sequence[int], sharding: Sharding
) -> npt.NDArray[np.uint16]:
    """Return the rows of a chunk in token order, without padding (SHARD-4).

    Each shard is one rank's rows, uint16 [sum of padded_rows, width]. Piece i has seq_lens[i] tokens, and each rank has
    padded_rows(seq_lens[i]) rows of it.

    Returns:
        uint16 [sum of seq_lens, width].

    """
    stacked = np.stack(shards)
    first, pieces = 0, []
    for length in seq_lens:
        tokens = np.arange(length)
        pieces.append(stacked[sharding.rank_of(tokens), first + sharding.local_index(tokens)])
        first += sharding.padded_rows(length)
    return np.concatenate(pieces) if pieces else stacked[0, :0]
