"""Allocators and schedulers that are wrong in one way each, for scenarios to catch."""

from typing import Any

from conformance.scenarios.blocks import BlockPool
from conformance.scenarios.scheduler import Piece, Running, Scheduler, Step


class SharesAPartialBlock(Scheduler):
    """Hands a request the block in which it parts from another one, into which it then writes its own tokens."""

    def _start(self, running: Running, shared: list[int]) -> None:
        super()._start(running, shared)
        mine, first = running.request.tokens, running.computed
        for other in self.running:
            theirs = other.request.tokens
            if len(other.blocks) > len(shared) and (mine[: first + 1] == theirs[: first + 1]).all():
                block = other.blocks[len(shared)]
                self.pool.share([block])
                running.blocks.append(block)
                return


class HashesHalfABlock(Scheduler):
    """Takes a block for a request's own whose first half is."""

    def __init__(self, requests: Any, pool: BlockPool, block_size: int, *settings: Any) -> None:
        super().__init__(requests, pool, block_size, *settings)
        for request in requests:
            starts = range(0, len(request.tokens) - block_size + 1, block_size)
            halves = [request.tokens[: start + block_size // 2].tobytes() for start in starts]
            self.hashes[id(request)] = halves


class HashesABlockAlone(Scheduler):
    """Leaves what comes before a block out of its hash."""

    def __init__(self, requests: Any, pool: BlockPool, block_size: int, *settings: Any) -> None:
        super().__init__(requests, pool, block_size, *settings)
        for request in requests:
            starts = range(0, len(request.tokens) - block_size + 1, block_size)
            self.hashes[id(request)] = [request.tokens[start : start + block_size].tobytes() for start in starts]


class FreesEarly(Scheduler):
    """Gives a request's blocks back with its first generated token, and goes on using them."""

    def update(self, step: Step) -> list[Piece]:
        ended = super().update(step)
        for running in self.running:
            if running.known == running.request.prompt + 1 and running.computed == running.request.prompt:
                self.pool.release(running.blocks)
        return ended


class CountsOneUser(BlockPool):
    """Frees a block when the first of its users ends."""

    def release(self, blocks: Any) -> None:
        for block in reversed(blocks):
            self.free[block] = None
            self.users[block] = 0


class ForgetsToEvict(BlockPool):
    """Goes on offering a prefix whose blocks somebody else has overwritten."""

    def forget(self, block: int) -> None:
        pass


class TakesUsedBlocks(BlockPool):
    """Shares a free block and leaves it among the free ones."""

    def share(self, blocks: Any) -> None:
        for block in blocks:
            self.users[block] += 1
