"""Define a scenario as data: requests, and the settings of the engine that serves them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conformance.scenarios.scheduler import Request


@dataclass(frozen=True)
class Scenario:
    """Describe the requests and the settings of an engine.

    `budgets` are max_num_batched_tokens of each step; the last one holds on. With `index_topk`, a sparse model gathers
    the context of requests of at most so many tokens; None means a dense model. If `workspace_rows` is None, PLAN-20 or
    PLAN-21 gives the rows. Queries of at most `decode_threshold` tokens do not gather.
    """

    name: str
    requests: tuple[Request, ...]
    block_size: int
    num_blocks: int
    budgets: tuple[int, ...]
    max_num_seqs: int
    prefix_caching: bool = True
    index_topk: int | None = None
    workspace_rows: int | None = None
    align_chunk_to_block: bool = True
    decode_threshold: int = 0
    dummy_every: int = 0
    """Steps between dummy batches, one before the first step and one at the end included. 0: no dummy batch."""
    dummy_tokens: int = 16
    look_every: int = 0
    """Steps between reads of all running requests. 0: read only when a request ends or is preempted."""
    attend_every: int = 3
    """Of the steps with context, compare the attention of every n-th, the first included. 0: of no step."""
    pad_to: int = 8
    """Pad a batch to a multiple of this number of tokens."""
    block_slack: int = 0
    """Elements between the blocks of the cache."""
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            ValueError: if a request could never be served, or a budget or max_num_seqs is below 1.

        """
        for request in self.requests:
            if not 1 <= request.prompt < len(request.tokens):
                raise ValueError(f"{request.name} has a prompt of {request.prompt} of {len(request.tokens)} tokens")
        if self.max_blocks > self.num_blocks:
            raise ValueError(f"num_blocks is {self.num_blocks}; a request takes {self.max_blocks}")
        if not self.budgets or min(self.budgets) < 1 or self.max_num_seqs < 1:
            raise ValueError(f"budgets are {self.budgets}, max_num_seqs is {self.max_num_seqs}; allowed is at least 1")

    @property
    def longest(self) -> int:
        """The tokens of the longest request."""
        return max(len(request.tokens) for request in self.requests)

    @property
    def max_blocks(self) -> int:
        """The columns of the block table."""
        return -(-self.longest // self.block_size)

    def __repr__(self) -> str:
        """Return all settings in one line, without the tokens of the requests."""
        told = {
            "requests": [f"{r.name}: {r.prompt}+{len(r.tokens) - r.prompt}@{r.arrival}" for r in self.requests[:12]],
            **{name: value for name, value in vars(self).items() if name not in ("name", "requests", "budgets")},
            "budgets": self.budgets[:12],
        }
        return f"Scenario({self.name!r}, {', '.join(f'{name}={value}' for name, value in told.items())})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))  # hypothesis would print all tokens
