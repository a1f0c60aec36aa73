"""How a worker's process ended, in words."""

from __future__ import annotations

import re
import signal

from conformance.spec import SPEC

NO_ANSWER = "Timeout ("
"""How faulthandler begins what it writes of a process that has taken too long."""

MOST_FRAMES = 6
FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE)
NOT_THE_TARGET = ("/_pytest/", "/pluggy/", "/hypothesis/")

SUSPECTED = {signal.SIGKILL: ", as the system does when memory runs out"}


def how_it_ended(status: int | None, trace: str, limit: float) -> str:
    """A line on the cause, and the innermost lines of Python that ran.

    `status` is what subprocess.Popen.returncode says, None if nobody knows; `trace` what faulthandler wrote in the
    process, which `limit` bounds.
    """
    return "\n    ".join([_cause(status, trace, limit), *innermost(trace)])


def innermost(trace: str) -> list[str]:
    """Where the thread was that ran the test, the innermost first; nothing if it is not known."""
    threads = [FRAME.findall(thread) for thread in re.split(r"^(?=Thread |Current thread )", trace, flags=re.MULTILINE)]
    running = [frames for frames in threads if any("/_pytest/" in file for file, _, _ in frames)]
    found = (running or threads)[-1]
    ours = next((i for i, (file, _, _) in enumerate(found) if any(part in file for part in NOT_THE_TARGET)), len(found))
    return [
        f"in {function}, {file.removeprefix(f'{SPEC.parent}/')}:{line}"
        for file, line, function in found[: min(ours, MOST_FRAMES)]
    ]


def _cause(status: int | None, trace: str, limit: float) -> str:
    if NO_ANSWER in trace:
        return f"no answer within {limit:g} s (--case-timeout)"
    if status is None:
        return "the connection to its process was lost"
    if status >= 0:
        return f"its process exited with status {status} in the middle of it"
    try:
        number = signal.Signals(-status)
    except ValueError:
        return f"its process was ended by signal {-status}"
    return f"its process was ended by {number.name}{SUSPECTED.get(number, '')}"
