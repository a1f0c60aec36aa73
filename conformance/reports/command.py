"""Implement `python -m conformance merge`: read the reports of shards, print their joined result, and write it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from conformance.reports.joining import join
from conformance.reports.reading import Json, NoReport, file_of, read
from conformance.reports.report import declarations_line, target_line, write_report
from conformance.reports.selection import some
from conformance.reports.shards import Part
from conformance.reports.verdicts import BY_SEVERITY, EXIT_NOT_JUDGED
from conformance.verdict import CONFORMS, CRASHED, DIFFERS

EXIT_CODES = {CONFORMS: 0, DIFFERS: 1, CRASHED: 1}
"""The exit codes by verdict. The other verdicts give EXIT_NOT_JUDGED."""


class BadFolder(ValueError):
    """Report a folder in which a report cannot or should not be written."""


def merge(paths: Sequence[Path], folder: Path | None, required: Sequence[str], say: Callable[[str], object]) -> int:
    """Join the reports in files or folders, and write the result into `folder`, if given. Return the exit code.

    `say` gets each line of output. An unusable report makes the result "not judged".

    Returns:
        0, 1 or EXIT_NOT_JUDGED.

    Raises:
        BadFolder: If `folder` holds one of the reports, or cannot be written.

    """
    files = [file_of(path) for path in paths]
    if folder and file_of(folder).resolve() in [file.resolve() for file in files]:
        raise BadFolder(f"found {str(folder)!r}, whose report is one of those to be joined; allowed is another folder")
    parts, unusable = list[Part](), list[str]()
    for file in files:
        try:
            parts.append(Part(file, read(file)))
        except NoReport as error:
            unusable += error.lines
    report = join(parts, required, unusable)
    if folder:
        try:
            write_report(report, folder)
        except OSError as error:
            raise BadFolder(f"found {str(folder)!r}, where no report can be written: {error}") from error
    for line in lines(report, len(parts)):
        say(line)
    return EXIT_CODES.get(report["verdict"], EXIT_NOT_JUDGED)


def lines(report: Json, count: int) -> Iterator[str]:
    """Yield the printed lines of a joined report: the verdict, each target, and why it is not green."""
    part = ", a part of the gate" if report["partial"] else ""
    yield f"gate: {report['verdict']} (of {count} {'report' if count == 1 else 'reports'}{part})"
    for target in report["targets"]:
        yield f"target {target['name']}: {target_line(target)}"
        yield from (f"  {line}" for line in filter(None, [declarations_line(target)]))
        for verdict in BY_SEVERITY:
            failures = [failure for failure in target["failures"] if failure["verdict"] == verdict]
            counting = [failure["test"] for failure in failures if failure["waived"] is None]
            if counting:
                yield f"  {verdict}: {some(counting)}"
            if waived := len(failures) - len(counting):
                yield f"  {verdict}, and waived: {waived} {'test' if waived == 1 else 'tests'}"
    yield from (f"not green: {reason}" for reason in report["reasons"])
    if report["partial_ok"]:
        yield from report["partial"]
    if report["repeat"]:
        yield f"repeat: {report['repeat']}"
