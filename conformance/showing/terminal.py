"""A fixture in a terminal: at most a screenful."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from conformance.showing.facts import facts_of
from conformance.showing.shown import Shown
from conformance.showing.text import plain

SHORT, LINES = 150, 12
"""Characters of a fact, and lines of the message."""
SKIPPED = ("clauses", "target", "question", "nan")
"""Facts that the heading tells, or that only a page has room for."""
COLOURS = {"differs": "bold red", "crashed": "bold red", "conforms": "bold green"}


def tell(shown: Shown, console: Console) -> None:
    """Print the call, the place of the first difference, why, and how to replay it."""
    clauses, verdict = shown.heading
    console.print(Text.assemble((clauses, "bold"), "  ", (verdict, COLOURS.get(verdict, "bold")), "  ", shown.target))
    told = [line for place in shown.view.places for line in place] + [*shown.view.amount, *shown.view.remarks]
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in [*facts_of(shown.fixture, SHORT, SKIPPED), *shown.view.geometry]:
        grid.add_row(f"  {plain(name, 24)}", Text(plain(value, SHORT)))
    for name, lines in (
        ("where", told),
        ("message", _unsaid(shown, told)),
        ("why", shown.diagnosis),
    ):
        for number, line in enumerate(lines):
            grid.add_row("" if number else f"  {name}", Text(line))
    console.print(grid)
    console.print(Text(f"  {shown.replay}", style="bold"), soft_wrap=True)


def _unsaid(shown: Shown, told: Sequence[str]) -> list[str]:
    """The lines of the message, but for its heading, that are not told in another place."""
    case = repr(shown.fixture.case)
    lines = [line.replace(plain(case), "").strip(" ;") for line in (shown.message[1:] or shown.message)]
    said = {"", *(line.strip() for line in told)}
    new = [line for line in lines if line not in said and not _repeats(line, told)]
    return new if len(new) <= LINES else [*new[:LINES], f"... and {len(new) - LINES:,} more lines (--html)"]


def _repeats(line: str, told: Sequence[str]) -> bool:
    """Whether a line tells an amount that is told, or what is told as diagnosis."""
    amount = " ".join(line.split()[:4])
    return line.startswith("explained exactly by:") or any(amount in each for each in told if each.endswith("differ"))
