"""Manage the blocks of a paged cache: their users, the order of the free ones, and the known prefixes."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.int64]


def block_hashes(tokens: Tokens, block_size: int) -> list[bytes]:
    """Return a hash for each full block of a sequence, of its tokens and all before: tokens int64 [N]."""
    chain, before = [], b""
    for end in range(block_size, len(tokens) + 1, block_size):
        before = hashlib.sha256(before + tokens[end - block_size : end].astype("<i8").tobytes()).digest()
        chain.append(before)
    return chain


class BlockPool:
    """Count the users of each block. The free block that is unused longest is taken first.

    A free block keeps its bytes. Until it is taken, it can be found by its hash.
    """

    def __init__(self, order: Sequence[int]) -> None:
        """Set the blocks; `order` is the order in which they are taken at first."""
        self.free: OrderedDict[int, None] = OrderedDict.fromkeys(int(block) for block in order)
        self.users = dict.fromkeys(self.free, 0)
        self.hash_of: dict[int, bytes] = {}
        self.block_of: dict[bytes, int] = {}
        self.taken_before: set[int] = set()
        self.evictions = 0
        self.reuses = 0

    def find(self, hashes: Sequence[bytes]) -> list[int]:
        """Return the blocks of the longest known prefix."""
        found: list[int] = []
        for one in hashes:
            if one not in self.block_of:
                break
            found.append(self.block_of[one])
        return found

    def room(self, shared: Sequence[int]) -> int:
        """Return the number of blocks that a request can take if it shares the blocks `shared`."""
        return len(self.free) - sum(block in self.free for block in shared)

    def share(self, blocks: Sequence[int]) -> None:
        """Add a user to each block. A free block is free no longer."""
        for block in blocks:
            self.free.pop(block, None)
            self.users[block] += 1

    def take(self, count: int) -> list[int]:
        """Return `count` free blocks for one user, and forget their prefixes. Raises KeyError if too few are free."""
        taken = [self.free.popitem(last=False)[0] for _ in range(count)]
        for block in taken:
            self.users[block] = 1
            self.forget(block)
            self.reuses += block in self.taken_before
            self.taken_before.add(block)
        return taken

    def forget(self, block: int) -> None:
        """Remove a block from the known prefixes."""
        if (held := self.hash_of.pop(block, None)) is not None:
            del self.block_of[held]
            self.evictions += 1

    def remember(self, block: int, held: bytes) -> None:
        """Let a full block be found by the hash `held`, unless another block has it or this one has a hash."""
        if held not in self.block_of and block not in self.hash_of:
            self.block_of[held] = block
            self.hash_of[block] = held

    def release(self, blocks: Sequence[int]) -> None:
        """Remove a user from each block, the last block first, since the fewest other requests can use that one."""
        for block in reversed(blocks):
            self.users[block] -= 1
            if self.users[block] == 0:
                self.free[block] = None
