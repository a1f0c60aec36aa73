"""Compute the number of array sets that a measurement rotates over, and its number of calls."""

from __future__ import annotations

_MOVED = 4 << 30  # bytes of one measurement, or some milliseconds: long beside the gaps at its two ends
_MOST_SETS, _MOST_CALLS = 512, 2048


def sets_needed(nbytes: int, l2_bytes: int) -> int:
    """Return the number of sets of `nbytes` bytes to rotate over, so that an L2 cache of `l2_bytes` holds none.

    The result is at most 512. The time of a gather of less than 1.2 MiB is mostly its launch, wherever its bytes are.

    Returns:
        The number of sets.

    """
    return min(_MOST_SETS, -(-max(600 << 20, 8 * l2_bytes) // nbytes))


def calls_needed(nbytes: int, sets: int) -> int:
    """Return the number of calls of `nbytes` bytes to time together: a multiple of `sets`, and at least 2."""
    calls = min(_MOST_CALLS, max(2, -(-_MOVED // nbytes)))
    return -(-calls // sets) * sets
