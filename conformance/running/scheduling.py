"""Schedule tests on workers of which some leave before their tests are done."""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadScheduling
from xdist.workermanage import WorkerController


class ContainingScheduling(LoadScheduling):  # type: ignore[misc]  # which has no types
    """Schedule like pytest-xdist's --dist load, but do not blame a worker that announced its end.

    The attribute `retires` of a worker names the test after which it ends. A worker gets its tests one by one, unless
    --maxschedchunk says otherwise. Otherwise it would begin with all the long ones.
    """

    def __init__(self, config: Any, log: Any = None) -> None:
        """Make the schedule of a run."""
        super().__init__(config, log)
        self.maxschedchunk: int = config.getoption("maxschedchunk") or 1

    def remove_node(self, node: WorkerController) -> str | None:
        """Return the test in which a worker died, or None. Other workers get its remaining tests."""
        last = getattr(node, "retires", None)
        if last is None or not self.collection:
            blamed: str | None = super().remove_node(node)
            return blamed
        # Its last test has a verdict, even if the process did not live to say that it is complete.
        self.pending.extend(test for test in self.node2pending.pop(node) if self.collection[test] != last)
        for other in self.node2pending:
            self.check_schedule(other)
        return None
