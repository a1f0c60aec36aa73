"""SHARD: context spread over the ranks of decode context parallelism (SPEC.md SHARD-1 to SHARD-4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Sharding:
    """`ranks` ranks that take turns, `interleave` tokens at a time."""

    ranks: int
    interleave: int = 1

    @property
    def stripe(self) -> int:
        """Tokens after which it is the first rank's turn again."""
        return self.ranks * self.interleave

    def rank_of(self, tokens: Ints) -> Ints:
        """int64 token numbers -> the rank that holds each (SHARD-1)."""
        return tokens // self.interleave % self.ranks

    def local_index(self, tokens: Ints) -> Ints:
        """int64 token numbers -> the place of each among the tokens of its rank (SHARD-1)."""
        return tokens // self.stripe * self.interleave + tokens % self.interleave

    def padded_rows(self, tokens: int) -> int:
        """Rows that each rank gathers for that many tokens, whether it holds as many or fewer (SHARD-2)."""
        return -(-tokens // self.stripe) * self.interleave

    def local_length(self, tokens: int, rank: int) -> int:
        """How many of a request's first `tokens` tokens a rank holds (SHARD-1)."""
        whole, rest = divmod(tokens, self.stripe)
        return whole * self.interleave + min(max(rest - rank * self.interleave, 0), self.interleave)

    def alignment(self, alignment: int) -> int:
        """Where a chunk may be cut: at multiples of `alignment` at which every rank's turn is over (SHARD-3)."""
        return lcm(alignment, self.stripe)


def interleaved(
    shards: Sequence[npt.NDArray[np.uint16]], seq_lens: Sequence[int], sharding: Sharding
) -> npt.NDArray[np.uint16]:
    """The ranks' rows of a chunk, each [sum of padded_rows, width] -> rows in the order of tokens, without padding.

    Piece i of the chunk has seq_lens[i] tokens, of which each rank has padded_rows(seq_lens[i]) rows (SHARD-4).
    """
    stacked = np.stack(shards)
    first, pieces = 0, []
    for length in seq_lens:
        tokens = np.arange(length)
        pieces.append(stacked[sharding.rank_of(tokens), first + sharding.local_index(tokens)])
        first += sharding.padded_rows(length)
    return np.concatenate(pieces) if pieces else stacked[0, :0]
