"""The blocks of a paged cache: who uses which, which are free in what order, and which hold a known prefix."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.int64]


def block_hashes(tokens: Tokens, block_size: int) -> list[bytes]:
    """A hash for each full block of a sequence, of its tokens and of all tokens before it."""
    chain, before = [], b""
    for end in range(block_size, len(tokens) + 1, block_size):
        before = hashlib.sha256(before + tokens[end - block_size : end].astype("<i8").tobytes()).digest()
        chain.append(before)
    return chain


class BlockPool:
    """Blocks with reference counts; free ones in the order in which they are taken, the longest unused first.

    A free block keeps its bytes, and as long as nobody takes it, the hash under which it is found again.
    """

    def __init__(self, order: Sequence[int]) -> None:
        """`order` has the numbers of the blocks, in the order in which they are taken at first."""
        self.free: OrderedDict[int, None] = OrderedDict.fromkeys(int(block) for block in order)
        self.users = dict.fromkeys(self.free, 0)
        self.hash_of: dict[int, bytes] = {}
        self.block_of: dict[bytes, int] = {}
        self.taken_before: set[int] = set()
        self.evictions = 0
        self.reuses = 0

    def find(self, hashes: Sequence[bytes]) -> list[int]:
        """The blocks of the longest known prefix."""
        found: list[int] = []
        for one in hashes:
            if one not in self.block_of:
                break
            found.append(self.block_of[one])
        return found

    def room(self, shared: Sequence[int]) -> int:
        """How many blocks could be taken by whoever shares these."""
        return len(self.free) - sum(block in self.free for block in shared)

    def share(self, blocks: Sequence[int]) -> None:
        """One more user for each block; a free one is free no longer."""
        for block in blocks:
            self.free.pop(block, None)
            self.users[block] += 1

    def take(self, count: int) -> list[int]:
        """Blocks for one user who overwrites them: what they held is known no longer."""
        taken = [self.free.popitem(last=False)[0] for _ in range(count)]
        for block in taken:
            self.users[block] = 1
            self.forget(block)
            self.reuses += block in self.taken_before
            self.taken_before.add(block)
        return taken

    def forget(self, block: int) -> None:
        """Evict a block from the known prefixes."""
        if (held := self.hash_of.pop(block, None)) is not None:
            del self.block_of[held]
            self.evictions += 1

    def remember(self, block: int, held: bytes) -> None:
        """Let a full block be found again, unless another one with the same tokens is."""
        if held not in self.block_of and block not in self.hash_of:
            self.block_of[held] = block
            self.hash_of[block] = held

    def release(self, blocks: Sequence[int]) -> None:
        """One user less for each block of a request, the last block first: it is of use to the fewest others."""
        for block in reversed(blocks):
            self.users[block] -= 1
            if self.users[block] == 0:
                self.free[block] = None
