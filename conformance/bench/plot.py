"""Draw a result: the ratio to the device copy against the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from conformance.bench.results import Measurement, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GOALS = (0.85, 0.95)
# Okabe and Ito's colours: colour-blind people can distinguish them. No one is too pale for a thin line.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#000000")
_STYLES = ("-", (0, (4, 1.5)), ":", "-.")
_MARKERS = ("o", "s", "^", "D", "v", "x")

Key = tuple[str, int, int]
Value = TypeVar("Value")


def lines_of(result: Result) -> dict[Key, list[tuple[int, float]]]:
    """Return points (rows, ratio), ascending, by target, block size and requests, as measured on a device."""
    lines: dict[Key, list[tuple[int, float]]] = {}
    for measurement in result.of("device"):
        ratio = measurement.derived()["ratio_to_copy"]
        if ratio is not None:
            lines.setdefault(_key(measurement), []).append((measurement.rows, ratio))
    return {key: sorted(points) for key, points in lines.items()}


def rows_label(rows: int) -> str:
    """Return a number of rows as text: "65,536", or "4 M" for a multiple of 2^20."""
    return f"{rows >> 20} M" if rows and rows % (1 << 20) == 0 else f"{rows:,}"


def draw(result: Result, path: Path) -> None:
    """Draw the lines of a result to an SVG or a PNG file, by its suffix. Equal results give equal files."""
    import matplotlib
    from matplotlib.figure import Figure

    lines = lines_of(result)
    with matplotlib.rc_context({"svg.hashsalt": "nvfp4-mla-conformance", "font.size": 9}):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.add_subplot()
        _draw_lines(axes, lines)
        _draw_goals(axes)
        _label(axes, result, sorted({rows for points in lines.values() for rows, _ in points}))
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def _draw_lines(axes: Axes, lines: dict[Key, list[tuple[int, float]]]) -> None:
    targets = _looks((target for target, _, _ in lines), _COLOURS)
    block_sizes = _looks(sorted(block_size for _, block_size, _ in lines), _STYLES)
    requests = _looks(sorted(requests for _, _, requests in lines), _MARKERS)
    for (target, block_size, count), points in lines.items():
        rows, ratios = zip(*points, strict=True)
        look = {"color": targets[target], "linestyle": block_sizes[block_size], "marker": requests[count]}
        axes.plot(rows, ratios, linewidth=1.2, markersize=4.5, markerfacecolor="none", **look)
    for looks, kind, label in (
        (targets, "color", "{}"),
        (block_sizes, "linestyle", "block size {:,}"),
        (requests, "marker", "requests: {:,}"),
    ):
        for value, look in looks.items():
            plain = {"color": "#555555", "linestyle": "none" if kind == "marker" else "-", "markerfacecolor": "none"}
            axes.plot([], [], label=label.format(value), **{**plain, kind: look})
    axes.legend(loc="lower left", bbox_to_anchor=(1.01, 0), frameon=False)


def _draw_goals(axes: Axes) -> None:
    for goal in GOALS:
        axes.axhline(goal, color="#888888", linewidth=0.7, linestyle="--", zorder=0)
        axes.text(1.02, goal, f"goal {goal}", transform=axes.get_yaxis_transform(), va="center", color="#555555")


def _label(axes: Axes, result: Result, rows: list[int]) -> None:
    device = result.machine["device"] or {}
    axes.set_title(f"Gather on {device.get('name', 'an unknown device')}, {result.date[:10]}")
    axes.set_xscale("log", base=2)
    axes.set_xticks(rows, [rows_label(count) for count in rows])
    axes.set_xlabel("rows")
    axes.set_ylim(0, 1.05)
    axes.set_ylabel("time of a copy of the same bytes / time of the gather")
    axes.spines[["top", "right"]].set_visible(False)


def _looks(values: Iterable[Value], looks: Sequence[Any]) -> dict[Value, Any]:
    return {value: looks[i % len(looks)] for i, value in enumerate(dict.fromkeys(values))}


def _key(measurement: Measurement) -> Key:
    return measurement.target, measurement.block_size, measurement.requests
