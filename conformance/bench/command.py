"""Run `python -m conformance bench`: refuse impossible options, then measure, show and write the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console

from conformance.bench import plot, results, table
from conformance.bench.results import BadResult, Result
from conformance.bench.run import Sizes, run, runs_on_a_device
from conformance.targets.base import Target


@dataclass(frozen=True)
class Files:
    """Hold the paths of the files that a result goes to, besides the terminal."""

    json: Path | None
    plot: Path | None
    markdown: Path | None

    def check(self) -> None:
        """Check the paths. Raises typer.BadParameter if a file cannot be written or a plot cannot be drawn."""
        for option, path in (("--json", self.json), ("--plot", self.plot), ("--markdown", self.markdown)):
            if path is not None:
                _check_writable(option, path)
        if self.plot is not None:
            _check_plot(self.plot)

    def write(self, result: Result) -> None:
        """Write the result to each path. A plot without lines is not drawn."""
        if self.json:
            results.write(result, self.json)
        if self.markdown:
            self.markdown.write_text(table.as_markdown(result), encoding="utf-8")
        if self.plot and plot.lines_of(result):
            plot.draw(result, self.plot)


def measure(targets: Sequence[Target], sizes: Sizes, repeats: int, files: Files) -> Result:
    """Run the benchmark and return its result.

    Returns:
        The result.

    Raises:
        BadParameter: if a file cannot be written, or a plot is wanted and no target runs on a CUDA device.

    """
    files.check()
    if files.plot and not any(runs_on_a_device(target) for target in targets):
        names = ", ".join(target.name for target in targets)
        raise typer.BadParameter(
            f"there is nothing to draw: none of {names} runs on a CUDA device here, and the plot shows ratios to a "
            "device copy",
            param_hint="--plot",
        )
    with Console(stderr=True).status("") as status:
        return run(targets, sizes, repeats, status.update)


def stored(path: Path, ignored: dict[str, object], files: Files) -> Result:
    """Return the result in a file, for `--from`.

    `ignored` holds the options, by name, that choose the measurements. They must be empty.

    Returns:
        The result.

    Raises:
        BadParameter: if an option in `ignored` is given, the file holds no whole result, or there is nothing to draw.

    """
    given = [name for name, value in ignored.items() if value]
    if given:
        found = f"--from redraws a stored result and measures nothing; found beside it {', '.join(given)}"
        raise typer.BadParameter(found, param_hint="--from")
    files.check()
    try:
        result = results.read(path)
        table.as_markdown(result)
    except (BadResult, KeyError, TypeError, ValueError) as error:
        raise typer.BadParameter(f"{path} is no whole result: {error}", param_hint="--from") from error
    if files.plot and not plot.lines_of(result):
        raise typer.BadParameter(f"{path} has no ratio to a device copy to draw", param_hint="--plot")
    return result


def deliver(result: Result, files: Files) -> int:
    """Show a result and write its files. Return 1 if a target gathered wrong bits or crashed, else 0."""
    table.show(result, Console())
    files.write(result)
    if files.plot and not plot.lines_of(result):
        Console(stderr=True).print(f"{files.plot} was not drawn: nothing was measured on a device")
    return int(result.failed)


def _check_writable(option: str, path: Path) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise typer.BadParameter(f"{path}: there is no folder {folder}; allowed is a file in one", param_hint=option)
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder; allowed is a file", param_hint=option)
    existed = path.exists()
    try:
        path.open("ab").close()
    except OSError as error:
        raise typer.BadParameter(
            f"{path}: {error.strerror}; allowed is a file that can be written", param_hint=option
        ) from error
    if not existed:
        path.unlink()  # an interrupted measurement leaves no empty file


def _check_plot(path: Path) -> None:
    if path.suffix not in (".svg", ".png"):
        raise typer.BadParameter(f"{path} ends in {path.suffix!r}; allowed are .svg and .png", param_hint="--plot")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise typer.BadParameter(f"{error}; run `pip install 'matplotlib>=3.9'`", param_hint="--plot") from error
