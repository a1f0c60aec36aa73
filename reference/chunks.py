"""Plan how cached context is cut into chunks of a limited number of rows (SPEC.md PLAN-1 to PLAN-7)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Chunk:
    """Describe one chunk: a piece of each of the requests [request_start, request_end).

    The piece of request request_start + i begins at token starts[i] and has seq_lens[i] tokens.
    """

    request_start: int
    request_end: int
    starts: tuple[int, ...]
    seq_lens: tuple[int, ...]

    @property
    def is_continuation(self) -> bool:
        """Whether the first request's beginning is in an earlier chunk (PLAN-5)."""
        return self.starts[0] > 0


def unpadded(tokens: int) -> int:
    """Return the rows that `tokens` tokens take without padding: the same number."""
    return tokens


def plan_mla_context_chunks(
    context_lens: Sequence[int],
    row_budget: int,
    max_context_chunk: int,
    split_alignment: int = 1,
    padded_rows: Callable[[int], int] = unpadded,
) -> list[Chunk]:
    """Plan the chunks of a batch. `context_lens` holds one number of context tokens for each request, in batch order.

    A chunk has `row_budget` rows. n tokens take padded_rows(n) of them. A request that does not fit is cut at a
    multiple of `split_alignment` tokens. No piece except its last exceeds `max_context_chunk` tokens.

    Returns:
        The chunks in order.

    Raises:
        ValueError: If a length is negative, a limit is too small, or some request can never be cut.

    """
    _check(context_lens, row_budget, max_context_chunk, split_alignment, padded_rows)
    run = _Run(row_budget, padded_rows)
    for request, length in enumerate(context_lens):
        if length == 0:
            run.close()  # PLAN-6
        done = 0
        while done < length:
            rest = length - done
            if run.fits(rest):
                run.add(request, done, rest)
                break
            piece = _largest_piece(rest, run, max_context_chunk, split_alignment)
            if piece:
                run.add(request, done, piece)
            run.close()
            done += piece
    run.close()
    return run.chunks


@dataclass
class _Run:
    """Collect the pieces of the open chunk, and keep the closed chunks."""

    row_budget: int
    padded_rows: Callable[[int], int]
    chunks: list[Chunk] = field(default_factory=list)
    rows: int = 0
    first: int = 0
    starts: list[int] = field(default_factory=list)
    seq_lens: list[int] = field(default_factory=list)

    def fits(self, tokens: int) -> bool:
        return self.rows + self.padded_rows(tokens) <= self.row_budget

    def add(self, request: int, start: int, tokens: int) -> None:
        if not self.starts:
            self.first = request
        self.starts.append(start)
        self.seq_lens.append(tokens)
        self.rows += self.padded_rows(tokens)

    def close(self) -> None:
        if self.starts:
            end = self.first + len(self.starts)
            self.chunks.append(Chunk(self.first, end, tuple(self.starts), tuple(self.seq_lens)))
        self.rows, self.starts, self.seq_lens = 0, [], []


def _largest_piece(rest: int, run: _Run, max_context_chunk: int, alignment: int) -> int:
    """Return the most tokens that can be cut off `rest` (fewer than all) and still fit, or 0 (PLAN-3)."""
    pieces = range(alignment, min(max_context_chunk, rest - 1) + 1, alignment)
    fitting = bisect_right(pieces, run.row_budget - run.rows, key=run.padded_rows)
    return fitting * alignment


def _check(
    context_lens: Sequence[int],
    row_budget: int,
    max_context_chunk: int,
    split_alignment: int,
    padded_rows: Callable[[int], int],
) -> None:
    for request, length in enumerate(context_lens):
        if length < 0:
            raise ValueError(f"context_lens[{request}] is {length}; allowed is at least 0")
    if split_alignment < 1:
        raise ValueError(f"split_alignment is {split_alignment}; allowed is at least 1")
    if max_context_chunk < split_alignment:
        raise ValueError(
            f"max_context_chunk is {max_context_chunk}; allowed is at least split_alignment {split_alignment}"
        )
    longest = max(context_lens, default=0)
    if padded_rows(longest) > row_budget and padded_rows(split_alignment) > row_budget:
        rows = padded_rows(split_alignment)
        raise ValueError(
            f"row_budget is {row_budget}; {split_alignment} tokens, the least that is cut, take {rows} rows"
        )
