"""A clock that counts how often it is read: what may take some seconds may take so many steps, on any machine.

As a plugin of pytest (-p clock) it replaces time.monotonic, by which the suite limits its searches for faults and for
smaller cases. SNAPSHOT_TICK is how many seconds one reading takes.
"""

import os
import time
from itertools import count

TICK = float(os.environ.get("SNAPSHOT_TICK", "0.0001"))
_readings = count(1)


def monotonic() -> float:
    """The number of readings so far, in ticks."""
    return next(_readings) * TICK


time.monotonic = monotonic
