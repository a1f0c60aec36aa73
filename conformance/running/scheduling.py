"""Which worker runs which test, if one of them may leave before its tests are done."""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadScheduling
from xdist.workermanage import WorkerController


class ContainingScheduling(LoadScheduling):  # type: ignore[misc]  # which has no types
    """pytest-xdist's own for --dist load, but that a worker which has said it will go is blamed for nothing.

    It has said so if its attribute `retires` names the test after which it goes. A worker gets its tests one by one,
    unless --maxschedchunk says otherwise: it would else begin with all that are long.
    """

    def __init__(self, config: Any, log: Any = None) -> None:
        """Make the schedule of a run."""
        super().__init__(config, log)
        self.maxschedchunk: int = config.getoption("maxschedchunk") or 1

    def remove_node(self, node: WorkerController) -> str | None:
        """The test that a worker died in; None if it died in none. Others get those that are left."""
        last = getattr(node, "retires", None)
        if last is None or not self.collection:
            blamed: str | None = super().remove_node(node)
            return blamed
        # Its last test has a verdict, even if the process did not live to say that it is complete.
        self.pending.extend(test for test in self.node2pending.pop(node) if self.collection[test] != last)
        for other in self.node2pending:
            self.check_schedule(other)
        return None
