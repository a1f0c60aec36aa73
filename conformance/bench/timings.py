"""Measure the time of the project's commands, in docs/timings.json, and write its table into docs/coverage.md.

`python -m conformance.bench.timings measure LABEL WHEN COMMAND...` runs a command and notes wall and processor time;
`... record LABEL WHEN WALL CPU MACHINE` notes what was measured elsewhere; `... write` writes the table. WHEN is a word
such as before or after.
"""

from __future__ import annotations

import json
import platform
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from conformance.machine import cpus
from conformance.spec import SPEC

DOCS = SPEC.parent / "docs"
TABLE = re.compile(r"(?<=<!-- timings -->\n).*?(?=<!-- end of timings -->)", re.DOTALL)


@dataclass(frozen=True)
class Timing:
    """Hold one run of a command: seconds of wall and processor time, the machine, and the day."""

    label: str
    when: str
    wall: float
    cpu: float
    machine: str
    day: str


def read(folder: Path = DOCS) -> list[Timing]:
    """Return the stored timings, oldest first, or [] if there is no file."""
    path = folder / "timings.json"
    return [Timing(**timing) for timing in json.loads(path.read_text())] if path.is_file() else []


def keep(timing: Timing, folder: Path = DOCS) -> None:
    """Add a timing to the file. It replaces one of the same label, time and machine."""
    same = (timing.label, timing.when, timing.machine)
    kept = [each for each in read(folder) if (each.label, each.when, each.machine) != same]
    lines = ",\n".join(json.dumps(asdict(each)) for each in [*kept, timing])
    (folder / "timings.json").write_text(f"[\n{lines}\n]\n")


def measure(label: str, when: str, command: Sequence[str]) -> Timing:
    """Run a command and return its timing in seconds. Raises CalledProcessError if the command fails."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Timing(label, when, round(wall, 1), round(cpu, 1), this_machine(), f"{date.today()}")


def this_machine() -> str:
    """Return the name of the processor and the number of CPUs."""
    model = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{model[1] if model else platform.machine()}, {cpus()} CPUs"


def table(timings: Sequence[Timing]) -> Iterator[str]:
    """Yield the lines of a Markdown table: a row for each label and machine, two times a column."""
    whens = list(dict.fromkeys(timing.when for timing in timings))
    yield f"| command | machine | {' | '.join(f'{when}: wall, processor' for when in whens)} |"
    yield f"|---|---|{'--:|' * len(whens)}"
    for label, machine in dict.fromkeys((timing.label, timing.machine) for timing in timings):
        mine = {each.when: each for each in timings if (each.label, each.machine) == (label, machine)}
        cells = (f"{mine[when].wall:,.0f} s, {mine[when].cpu:,.0f} s" if when in mine else "" for when in whens)
        yield f"| {label} | {machine} | {' | '.join(cells)} |"


def write(folder: Path = DOCS) -> None:
    """Write the table into coverage.md, between its marks."""
    path = folder / "coverage.md"
    lines = "\n".join(table(read(folder)))
    path.write_text(TABLE.sub(lambda _: f"\n{lines}\n\n", path.read_text()))


def main(arguments: Sequence[str]) -> None:
    """Run the command of the arguments and write the table. Raises SystemExit with the usage if it is unknown."""
    match arguments:
        case ["measure", label, when, *command] if command:
            keep(measure(label, when, command))
        case ["record", label, when, wall, cpu, machine]:
            keep(Timing(label, when, float(wall), float(cpu), machine, f"{date.today()}"))
        case ["write"]:
            pass
        case _:
            sys.exit(str(__doc__).partition("\n\n")[2])
    write()


if __name__ == "__main__":
    main(sys.argv[1:])
