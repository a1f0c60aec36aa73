"""PAGE and ownership: from a row of the workspace to a record (SPEC.md PAGE-1, GATHER-1 to 3, TWIN-6)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class Sources(NamedTuple):
    """Where the rows of a workspace come from: int64 [T] each, a row's request, its token, and the token's record."""

    request: Ints
    token: Ints
    column: Ints
    slot: Ints


def row_owners(workspace_starts: npt.ArrayLike, num_rows: int) -> Ints:
    """int [R] -> int64 [T]: the last request that starts at or before each row; -1 where none does (GATHER-1)."""
    starts = np.asarray(workspace_starts, np.int64)
    return np.searchsorted(starts, np.arange(num_rows), side="right") - 1


def row_sources(
    workspace_starts: npt.ArrayLike,
    seq_starts: npt.ArrayLike | None,
    block_size: int,
    num_rows: int,
    owners: npt.ArrayLike | None = None,
) -> Sources:
    """int [R], int [R] or None -> the source of each of the T rows (PAGE-1, GATHER-1 to 3).

    `owners`, int [T], says whose each row is where workspace_starts does not (TWIN-6).
    """
    starts = np.asarray(workspace_starts, np.int64)
    first = np.zeros_like(starts) if seq_starts is None else np.asarray(seq_starts, np.int64)
    request = row_owners(starts, num_rows) if owners is None else np.asarray(owners, np.int64)
    token = np.arange(num_rows) - starts[request] + first[request]
    return Sources(request, token, token // block_size, token % block_size)
