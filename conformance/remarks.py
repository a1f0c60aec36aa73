"""What a report is to tell of an exception beside its text: notes that the suite itself has added."""

from __future__ import annotations


class Remark(str):
    """A note that a report tells; whatever else adds notes to an exception adds plain texts."""


def remarks(error: BaseException | None) -> list[str]:
    """The remarks on an exception, a line each."""
    return [str(note) for note in getattr(error, "__notes__", ()) if isinstance(note, Remark)]
