"""Map each row of a workspace to its record in a paged cache (SPEC.md PAGE-1, GATHER-1 to 3, TWIN-6)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class Sources(NamedTuple):
    """Hold the source of each of T rows, int64 [T] each: request, token, and the token's block column and slot."""

    request: Ints
    token: Ints
    column: Ints
    slot: Ints


def row_owners(workspace_starts: npt.ArrayLike, num_rows: int) -> Ints:
    """Return the owner of each row: the last request that starts at or before it (GATHER-1).

    workspace_starts: int [R], ascending.

    Returns:
        int64 [num_rows], -1 for a row before the first start.

    """
    starts = np.asarray(workspace_starts, np.int64)
    return np.searchsorted(starts, np.arange(num_rows), side="right") - 1


def row_sources(
    workspace_starts: npt.ArrayLike,
    seq_starts: npt.ArrayLike | None,
    block_size: int,
    num_rows: int,
    owners: npt.ArrayLike | None = None,
) -> Sources:
    """Return the source of each of the T = num_rows rows (PAGE-1, GATHER-1 to 3).

    workspace_starts: int [R]; seq_starts: int [R], or None for 0. `owners`, int [T], gives the request of each row;
    None derives it from workspace_starts (TWIN-6).

    Returns:
        Four arrays, int64 [T].

    """
    starts = np.asarray(workspace_starts, np.int64)
    first = np.zeros_like(starts) if seq_starts is None else np.asarray(seq_starts, np.int64)
    request = row_owners(starts, num_rows) if owners is None else np.asarray(owners, np.int64)
    token = np.arange(num_rows) - starts[request] + first[request]
    return Sources(request, token, token // block_size, token % block_size)
