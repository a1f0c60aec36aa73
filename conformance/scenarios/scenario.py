"""Scenario: requests and the settings of an engine that serves them, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conformance.scenarios.scheduler import Request


@dataclass(frozen=True)
class Scenario:
    """What an engine is asked to serve, and how it is configured.

    `budgets` are max_num_batched_tokens of each step, of which the last holds on. `index_topk` is that of a sparse
    model, which gathers the context of requests of at most so many tokens; None: a dense one. `workspace_rows` None is
    what the model's builder has (PLAN-20, PLAN-21). Queries of at most `decode_threshold` tokens do not gather.
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
    """A dummy batch before every so manieth step, the first one included, and one at the end; 0: none."""
    dummy_tokens: int = 16
    look_every: int = 0
    """Read back what is being served after every so manieth step; 0: when a request ends or is preempted."""
    attend_every: int = 3
    """Compare the attention of every so manieth step that has context, of the first one too; 0: of none."""
    pad_to: int = 8
    """A batch is padded to a multiple of so many tokens."""
    block_slack: int = 0
    """Elements between the blocks of the cache."""
    seed: int = 0

    def __post_init__(self) -> None:
        """ValueError for requests that could never be served."""
        for request in self.requests:
            if not 1 <= request.prompt < len(request.tokens):
                raise ValueError(f"{request.name} has a prompt of {request.prompt} of {len(request.tokens)} tokens")
        if self.max_blocks > self.num_blocks:
            raise ValueError(f"num_blocks is {self.num_blocks}; a request takes {self.max_blocks}")
        if not self.budgets or min(self.budgets) < 1 or self.max_num_seqs < 1:
            raise ValueError(f"budgets are {self.budgets}, max_num_seqs is {self.max_num_seqs}; allowed is at least 1")

    @property
    def longest(self) -> int:
        """Tokens of the longest request."""
        return max(len(request.tokens) for request in self.requests)

    @property
    def max_blocks(self) -> int:
        """Columns of the block table."""
        return -(-self.longest // self.block_size)

    def __repr__(self) -> str:
        """All of it but the tokens themselves, in one line."""
        told = {
            "requests": [f"{r.name}: {r.prompt}+{len(r.tokens) - r.prompt}@{r.arrival}" for r in self.requests[:12]],
            **{name: value for name, value in vars(self).items() if name not in ("name", "requests", "budgets")},
            "budgets": self.budgets[:12],
        }
        return f"Scenario({self.name!r}, {', '.join(f'{name}={value}' for name, value in told.items())})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))  # hypothesis would print all tokens
