"""Show a result as tables, on a terminal or as markdown."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from conformance.bench.results import MEASURED, Measurement, Result

Column = tuple[str, Callable[[Measurement], str]]

_LAST = "timed"
_WHAT: list[Column] = [
    ("target", lambda m: m.target),
    ("rows", lambda m: f"{m.rows:,}"),
    ("block", lambda m: f"{m.block_size:,}"),
    ("requests", lambda m: f"{m.requests:,}"),
]
_DEVICE: list[Column] = [
    *_WHAT,
    ("µs", lambda m: _number(m.microseconds, ",.1f")),
    ("GB/s", lambda m: _number(m.derived()["gb_per_s"], ",.0f")),
    ("of copy", lambda m: _number(m.derived()["ratio_to_copy"], ".3f")),
    ("of plain", lambda m: _number(m.derived()["ratio_to_plain"], ".2f")),
    (_LAST, lambda m: _how(m)),
]
_CPU: list[Column] = [
    *_WHAT,
    ("rows/s", lambda m: _number(m.derived()["rows_per_s"], ",.0f")),
    ("ratio", lambda m: _number(m.derived()["ratio_to_first"], ".2f")),
    (_LAST, lambda m: _how(m)),
]
_TABLES = (
    (
        "device",
        _DEVICE,
        "GB/s: 1,504 bytes a row. Ratios: the time of the copy, or of the plain kernel, to the target's.",
    ),
    ("cpu", _CPU, "The ratio is that of speeds, to the first target."),
)
_TEXT = ("target", _LAST)  # the other columns hold numbers


def show(result: Result, console: Console) -> None:
    """Print the facts and the tables."""
    grid = Table.grid(padding=(0, 2))
    for name, value in facts(result):
        grid.add_row(f"[bold]{escape(name)}[/]", escape(value))
    console.print(grid)
    for place, columns, note in _TABLES:
        if result.of(place):
            console.print("", _table(columns, result.of(place)), f"[dim]{note}[/]", sep="\n")


def _table(columns: list[Column], measurements: list[Measurement]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for name, _ in columns:
        # The last column may hold a sentence, and wraps before a number is cut off.
        table.add_column(name, justify="left" if name in _TEXT else "right", no_wrap=name != _LAST)
    for measurement in measurements:
        table.add_row(*(escape(cell(measurement)) for _, cell in columns))
    return table


def as_markdown(result: Result) -> str:
    """Return the facts and the tables as markdown, without a heading."""
    lines = [f"- {name}: {value}" for name, value in facts(result)]
    for place, columns, note in _TABLES:
        if result.of(place):
            names = [name for name, _ in columns]
            lines += ["", note, "", _row(names), _row(["---" if name in _TEXT else "--:" for name in names])]
            lines += [_row([cell(measurement) for _, cell in columns]) for measurement in result.of(place)]
    return "\n".join(lines) + "\n"


def facts(result: Result) -> list[tuple[str, str]]:
    """Return the names and values of the facts that the numbers depend on."""
    machine = result.machine
    versions = [f"{name} {machine[name]}" for name in ("python", "numpy", "torch", "cupy") if machine[name]]
    return [
        ("date", result.date),
        *(_device_facts(result, machine["device"]) if machine["device"] else []),
        ("processor", f"{machine['processor']}, {machine['cores']} cores, {machine['system']}"),
        ("versions", ", ".join(versions)),
        *((note.name, f"not judged: {note.not_judged}" if note.not_judged else note.where) for note in result.targets),
    ]


def _device_facts(result: Result, device: dict[str, Any]) -> list[tuple[str, str]]:
    known: dict[str, Any] = {name: "unknown" if value is None else value for name, value in device.items()}
    memory, l2 = (f"{known[name] / 2**20:,.0f} MiB" for name in ("memory_bytes", "l2_bytes"))
    return [
        ("device", f"{known['name']}, {known['sm']}, {memory}, L2 {l2}"),
        (
            "clocks under load",
            f"SM {known['sm_mhz']} of {known['sm_max_mhz']} MHz, "
            f"memory {known['memory_mhz']} of {known['memory_max_mhz']} MHz",
        ),
        (
            "CUDA",
            f"driver {known['driver']} (CUDA {known['driver_cuda']}), runtime {known['cuda_runtime']}, "
            f"NVRTC {known['nvrtc']}",
        ),
        ("device copy", ", ".join(_copies(result)) or "not measured"),
    ]


def _copies(result: Result) -> list[str]:
    speeds: dict[int, list[float]] = {}
    for measurement in result.of("device"):
        if measurement.copy_microseconds is not None:
            speed = measurement.case.nbytes / measurement.copy_microseconds / 1e3
            speeds.setdefault(measurement.rows, []).append(speed)
    return [f"{statistics.median(speeds[rows]):,.0f} GB/s for {rows:,} rows" for rows in sorted(speeds)]


def _how(measurement: Measurement) -> str:
    if measurement.verdict == MEASURED:
        return measurement.how
    return f"{measurement.verdict}: {measurement.why}"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
