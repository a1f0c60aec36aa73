"""Describe how a worker's process ended."""

from __future__ import annotations

import re
import signal

from conformance.spec import SPEC

NO_ANSWER = "Timeout ("
"""The start of faulthandler's output for a process that took too long."""

MOST_FRAMES = 6
FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE)
NOT_THE_TARGET = ("/_pytest/", "/pluggy/", "/hypothesis/")

SUSPECTED = {signal.SIGKILL: ", as the system does when memory runs out"}


def how_it_ended(status: int | None, trace: str, limit: float) -> str:
    """Return a line on the cause, then the innermost Python frames that ran.

    `status` is subprocess.Popen.returncode, or None if unknown. `trace` is faulthandler's output in the process.
    `limit` is the time limit of a case, in seconds.

    Returns:
        Several lines of text.

    """
    return "\n    ".join([_cause(status, trace, limit), *innermost(trace)])


def innermost(trace: str) -> list[str]:
    """Return the frames of the thread that ran the test, the innermost first. Empty if they are unknown."""
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
