"""Schedule tokens into steps: a token budget, chunked prefill, prefix hits and preemption."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from conformance.scenarios.blocks import BlockPool, Tokens, block_hashes


@dataclass(frozen=True, eq=False)
class Request:
    """Describe a request: its tokens, prompt first, then those that it will generate, and the step of its arrival."""

    name: str
    tokens: Tokens
    prompt: int
    """Number of prompt tokens. At least one token is generated."""
    arrival: int = 0


@dataclass(eq=False)
class Running:
    """Hold the state of a request in the scheduler."""

    request: Request
    known: int
    """Number of known tokens: the prompt, and those generated so far."""
    computed: int = 0
    blocks: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Piece:
    """Describe the tokens [start, end) of a request that a step computes, and all blocks of the request."""

    request: Request
    start: int
    end: int
    blocks: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """Describe a step: its pieces, decodes first, and the requests preempted for them."""

    number: int
    pieces: tuple[Piece, ...]
    preempted: tuple[Piece, ...]
    """All computed tokens of each preempted request, in the blocks that it had."""


@dataclass
class Happened:
    """Count events, to prove that a scenario shows what its name says."""

    hit_tokens: int = 0
    hits: int = 0
    preemptions: int = 0
    splits: int = 0
    """Pieces that do not reach the last known token of their request."""
    mixed: int = 0
    """Steps that decode one request and prefill another."""


class Scheduler:
    """Serve requests in order of arrival: running ones first, each as far as budget and blocks allow."""

    def __init__(
        self,
        requests: Sequence[Request],
        pool: BlockPool,
        block_size: int,
        budgets: Sequence[int],
        max_num_seqs: int,
        prefix_caching: bool,
    ) -> None:
        """Set the requests and limits. `budgets` are max_num_batched_tokens of each step; the last one holds on."""
        self.pool, self.block_size, self.budgets = pool, block_size, budgets
        self.max_num_seqs, self.prefix_caching = max_num_seqs, prefix_caching
        self.arriving = deque(sorted(requests, key=lambda request: request.arrival))
        self.waiting: deque[Running] = deque()
        self.running: list[Running] = []
        self.happened = Happened()
        self.number = 0
        self.hashes = {id(request): block_hashes(request.tokens, block_size) for request in requests}

    @property
    def done(self) -> bool:
        """True if no request is left."""
        return not (self.arriving or self.waiting or self.running)

    def schedule(self) -> Step:
        """Return the next step: choose its tokens and take blocks for them."""
        while self.arriving and self.arriving[0].arrival <= self.number:
            request = self.arriving.popleft()
            self.waiting.append(Running(request, request.prompt))
        budget = self.budgets[min(self.number, len(self.budgets) - 1)]
        scheduled: list[tuple[Running, int]] = []
        preempted: list[Piece] = []
        for running in list(self.running):
            if running not in self.running:
                continue  # preempted for one before it
            count = min(running.known - running.computed, budget)
            if count and self._room_for(running, count, preempted):
                scheduled.append((running, count))
                budget -= count
        while self.waiting and budget and len(self.running) < self.max_num_seqs and not preempted:
            running = self.waiting[0]
            shared = self._known_prefix(running)
            start = len(shared) * self.block_size
            count = min(running.known - start, budget)
            if self._needed(start + count) - len(shared) > self.pool.room(shared):
                break
            self.waiting.popleft()
            self._start(running, shared)
            self._grow(running, count)
            self.running.append(running)
            scheduled.append((running, count))
            budget -= count
        return self._step(scheduled, preempted)

    def update(self, step: Step) -> list[Piece]:
        """Record the computed tokens of a step. Return all tokens of each request that ends with it."""
        ended = []
        pieces = {id(piece.request): piece for piece in step.pieces}
        for running in list(self.running):
            if (piece := pieces.get(id(running.request))) is None:
                continue
            running.computed = piece.end
            if running.computed == running.known:
                running.known += 1
                if running.known == len(running.request.tokens):
                    ended.append(self._whole(running))
                    self.running.remove(running)
                    self.release(running)
        self.number += 1
        return ended

    def live(self) -> list[Piece]:
        """Return all computed tokens of each running request, as pieces."""
        return [self._whole(running) for running in self.running if running.computed]

    def release(self, running: Running) -> None:
        """Give back a request's blocks."""
        self.pool.release(running.blocks)
        running.blocks = []

    def _step(self, scheduled: list[tuple[Running, int]], preempted: list[Piece]) -> Step:
        pieces = [
            Piece(running.request, running.computed, running.computed + count, tuple(running.blocks))
            for running, count in scheduled
        ]
        for (running, _), piece in zip(scheduled, pieces, strict=True):
            self.happened.splits += piece.end < running.known
        decoding = [piece for piece in pieces if piece.start >= piece.request.prompt]
        prefilling = [piece for piece in pieces if piece.start < piece.request.prompt]
        self.happened.mixed += bool(decoding and prefilling)
        return Step(self.number, (*decoding, *prefilling), tuple(preempted))

    def _room_for(self, running: Running, count: int, preempted: list[Piece]) -> bool:
        """Take blocks for `count` more tokens, and preempt the last requests if blocks are missing.

        Returns:
            False if the request itself was preempted.

        """
        while self._needed(running.computed + count) - len(running.blocks) > self.pool.room(()):
            last = self.running.pop()
            preempted.append(self._whole(last))
            self.release(last)
            self.waiting.appendleft(last)
            self.happened.preemptions += 1
            if last is running:
                return False
        self._grow(running, count)
        return True

    def _known_prefix(self, running: Running) -> list[int]:
        """Return the blocks that hold a request's first tokens. At least one token is left to compute."""
        if not self.prefix_caching:
            return []
        return self.pool.find(self.hashes[id(running.request)][: (running.known - 1) // self.block_size])

    def _start(self, running: Running, shared: list[int]) -> None:
        self.pool.share(shared)
        running.blocks = list(shared)
        running.computed = len(shared) * self.block_size
        self.happened.hits += bool(shared)
        self.happened.hit_tokens += running.computed

    def _grow(self, running: Running, count: int) -> None:
        full, end = running.computed // self.block_size, running.computed + count
        running.blocks += self.pool.take(self._needed(end) - len(running.blocks))
        if self.prefix_caching:  # later requests of this step find it already: a step writes before it reads
            for place in range(full, end // self.block_size):
                self.pool.remember(running.blocks[place], self.hashes[id(running.request)][place])

    def _needed(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    @staticmethod
    def _whole(running: Running) -> Piece:
        return Piece(running.request, 0, running.computed, tuple(running.blocks))
