"""The command line: `python -m conformance targets | bench`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from conformance.bench import measure
from conformance.targets.base import Target
from conformance.targets.registry import BUILT_IN, UnknownTarget, find, installed, resolve

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
Names = Annotated[list[str] | None, typer.Option("--target", metavar="T", help="A target's name; may repeat.")]


@app.command()
def targets(target: Names = None) -> None:
    """Say which targets there are, what each can do, and where it would run on this machine."""
    table = Table("target", "here", "capabilities", box=None)
    for found in _find(target or [*BUILT_IN, *installed()]):
        reason = found.unavailable()
        table.add_row(
            found.name, f"not judged: {reason}" if reason else found.describe(), "\n".join(sorted(found.capabilities))
        )
    console = Console(soft_wrap=False)
    console.print(table)
    console.print(f"[dim]auto is {resolve('auto')} here; besides, a target may be host:DIR or package.module:Class[/]")


@app.command()
def bench(
    target: Names = None,
    rows: Annotated[int, typer.Option(min=1, help="Rows of one gather.")] = 65_536,
    repeats: Annotated[int, typer.Option(min=1, help="Gathers, of which the median is reported.")] = 7,
) -> None:
    """Time gathers of unaligned starts: rows a second of each target, and the ratio to the first one."""
    table = Table("target", "where", "rows/s", "ratio", box=None)
    first = 0.0
    for found in _find(target or ["numpy", "torch", "host"]):
        reason = found.unavailable()
        if reason:
            table.add_row(found.name, f"not judged: {reason}", "", "")
            continue
        speed = measure(found, rows, repeats)
        first = first or speed
        table.add_row(found.name, found.describe(), f"{speed:,.0f}", f"{speed / first:.2f}")
    Console().print(table)


def _find(names: list[str]) -> list[Target]:
    try:
        return [find(name) for name in names]
    except UnknownTarget as error:
        raise typer.BadParameter(str(error), param_hint="--target") from error
