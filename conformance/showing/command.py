"""`python -m conformance show`: a fixture from a file, told in the terminal or written as a page."""

from __future__ import annotations

import os
from pathlib import Path

from rich.console import Console

from conformance.replaying.asking import CannotAsk
from conformance.showing.anew import asked_again
from conformance.showing.page import page_of
from conformance.showing.shown import Shown
from conformance.showing.terminal import tell
from conformance.showing.text import plain
from conformance.targets.base import Target
from fixtures.store import BadFixture, load

CANNOT = 125


class NotWritable(Exception):
    """Why a page cannot be written, in one line."""


def show_file(path: Path, html: Path | None, target: Target | None, console: Console, errors: Console) -> int:
    """Show what a file holds or, if a target is given, what that does with its case today; the exit code.

    0, or 125 for a file that is no fixture and a target that cannot be asked. Raises NotWritable.
    """
    _must_be_writable(html, path)
    try:
        fixture = load(path)
        shown = Shown(asked_again(fixture, target) if target else fixture, path)
    except (BadFixture, CannotAsk) as error:
        errors.print(plain(error, 600), markup=False, soft_wrap=True)
        return CANNOT
    if html is None:
        tell(shown, console)
        return 0
    try:
        html.write_text(page_of(shown), encoding="utf-8")
    except OSError as error:
        raise NotWritable(f"{html} cannot be written: {error.strerror}") from error
    console.print(f"wrote {html} ({html.stat().st_size:,} bytes)", markup=False)
    return 0


def _must_be_writable(html: Path | None, path: Path) -> None:
    """Raise NotWritable, before anything is worked out, for a page that cannot be."""
    if html is None:
        return
    there = html if html.exists() else html.parent
    if html.is_dir() or not there.exists() or not os.access(there, os.W_OK):
        raise NotWritable(f"{html} cannot be written")
    if html.exists() and path.exists() and html.samefile(path):
        raise NotWritable(f"{html} is the fixture itself")
