"""How many sets of arrays a measurement goes round, and how often it calls."""

from __future__ import annotations

_MOVED = 4 << 30  # bytes of one measurement, or some milliseconds: long beside the gaps at its two ends
_MOST_SETS, _MOST_CALLS = 512, 2048


def sets_needed(nbytes: int, l2_bytes: int) -> int:
    """How many sets of `nbytes` bytes to rotate over, so that none is found in an L2 cache of `l2_bytes`.

    At most 512: a gather of less than 1.2 MiB is about its launch, wherever its bytes come from.
    """
    return min(_MOST_SETS, -(-max(600 << 20, 8 * l2_bytes) // nbytes))


def calls_needed(nbytes: int, sets: int) -> int:
    """How many calls of `nbytes` bytes to time together: each set as often as any other, and at least two calls."""
    calls = min(_MOST_CALLS, max(2, -(-_MOVED // nbytes)))
    return -(-calls // sets) * sets
