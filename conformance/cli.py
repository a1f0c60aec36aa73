"""The command line: `python -m conformance targets`, and its like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import conformance.faults.scheme  # noqa: F401  lets fault:NAME be found
from conformance.bench import command, plans
from conformance.bench.run import Sizes, default_targets
from conformance.capacity import show_capacities
from conformance.diagnosis.engine import in_full
from conformance.histogram import show
from conformance.identify.report import report
from conformance.profiles import PROFILES
from conformance.targets.base import Target
from conformance.targets.registry import BUILT_IN, UnknownTarget, find, installed, resolve
from conformance.verdict import Crashed, Differs, Unsupported

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


def _count(name: str, most: int, what: str) -> Any:
    def check(found: Any) -> Any:
        for count in found if isinstance(found, list) else [found]:
            if count is not None and not 1 <= count <= most:
                raise typer.BadParameter(f"found {count}; allowed are 1 to {most}")
        return found

    return typer.Option(name, callback=check, metavar="N", help=what)


def _file(name: str, what: str, **more: Any) -> Any:
    return typer.Option(name, metavar="FILE", help=what, dir_okay=False, **more)


Names = Annotated[list[str] | None, typer.Option("--target", metavar="T", help="A target's name; may repeat.")]
Rows = Annotated[list[int] | None, _count("--rows", 1 << 30, "Rows of dst (65,536, on a GPU also 1 M, 4 M).")]
BlockSizes = Annotated[list[int] | None, _count("--block-size", 1 << 16, "Records a block (64, on a GPU also 1,024).")]
Requests = Annotated[list[int] | None, _count("--requests", 1 << 16, "Requests (16, on a GPU also 1 and 256).")]
Repeats = Annotated[int | None, _count("--repeats", 10_000, "Measurements, of which the median counts (7).")]
Json = Annotated[Path | None, _file("--json", "Write the result.")]
Plot = Annotated[Path | None, _file("--plot", "Draw ratios to a device copy: .svg or .png.")]
Markdown = Annotated[Path | None, _file("--markdown", "Write facts and tables.")]
Stored = Annotated[Path | None, _file("--from", "Measure nothing: show a result of --json.", exists=True)]


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
    others = "host:DIR, vllm-ops:PATH or package.module:Class"
    console.print(f"[dim]auto is {resolve('auto')} here; besides, a target may be {others}[/]")


@app.command()
def bench(
    target: Names = None,
    rows: Rows = None,
    block_size: BlockSizes = None,
    requests: Requests = None,
    repeats: Repeats = None,
    json: Json = None,
    plot: Plot = None,
    markdown: Markdown = None,
    stored: Stored = None,
) -> None:
    """Time gathers of unaligned starts and uneven requests: on a GPU beside a copy of the same bytes, else in rows/s.

    --rows, --block-size and --requests may repeat, and every combination is measured. The exit code is 1 if a target
    gathers wrong bits or crashes: then it has no speed.
    """
    files = command.Files(json, plot, markdown)
    if stored:
        asked = {"--target": target, "--rows": rows, "--block-size": block_size, "--requests": requests}
        result = command.stored(stored, {**asked, "--repeats": repeats}, files)
    else:
        sizes = Sizes(tuple(rows or ()), tuple(block_size or ()), tuple(requests or ()))
        found = _find([*dict.fromkeys(target or default_targets())])
        result = command.measure(found, sizes, repeats or 7, files)
    raise typer.Exit(command.deliver(result, files))


@app.command(name="bench-plans")
def bench_plans(target: Names = None) -> None:
    """Time the golden model's plan of 1,024 requests, and that of other targets.

    The exit code is 1 if a target plans wrong or crashes, and 125 if it cannot plan here: then nothing has a speed.
    """
    console = Console(soft_wrap=True, highlight=False)
    try:
        plans.show(plans.bench_plans(_find(target or [])), console)
    except (Crashed, Differs, Unsupported) as error:
        console.print(in_full(error), markup=False)
        raise typer.Exit(125 if isinstance(error, Unsupported) else 1) from error


@app.command()
def identify(
    target: Annotated[list[str], typer.Option("--target", metavar="T", help="A target's name; may repeat.")],
) -> None:
    """Say which way of quantizing a target's writer has, and whether several targets may write to one cache.

    The exit code is 0 if a combination of known rules, a named profile or not, predicts every byte, 1 if some input
    contradicts the nearest one, a target writes otherwise than the profile that it declares, or two targets disagree,
    125 if a target cannot be asked.
    """
    raise typer.Exit(report(_find(target), Console(soft_wrap=True, highlight=False)))


@app.command()
def faults(
    name: Annotated[list[str] | None, typer.Argument(metavar="FAULT", help="Judge these alone.")] = None,
    profile: Annotated[str, typer.Option(help="How much the gate generates: quick, ci or nightly.")] = "ci",
    kind: Annotated[
        list[str] | None, typer.Option("--kind", metavar="K", help="Judge what is of this kind alone; may repeat.")
    ] = None,
    take: Annotated[
        list[Path] | None,
        typer.Option("--take", metavar="FILE", help="Take over a faults.json: of a stopped run, of another machine."),
    ] = None,
    keep: Annotated[bool, typer.Option("--write", help="Write the lines of FAULT into docs/faults.md.")] = False,
) -> None:
    """Judge every fault and every mutant by the gate's own tests; write reports/faults.md, .json and docs/faults.md.

    With FAULT only those are judged, and nothing is written but by --write. Kinds are gather, twin, write, plan, merge,
    context, serve, device (which needs a GPU) and mutant. The exit code is 1 if a fault survives. All of them take some
    hours of one core.
    """
    from conformance.faults.command import judge_all, judge_some  # which import most of the suite
    from conformance.faults.defect import PARTS
    from conformance.faults.matrix_report import NoMatrix

    kinds = [(each, (*PARTS, "mutant"), "--kind") for each in kind or ()]
    for found, allowed, option in ((profile, tuple(PROFILES), "--profile"), *kinds):
        if found not in allowed:
            raise typer.BadParameter(f"found {found}; allowed are {', '.join(allowed)}", param_hint=option)
    console = Console(soft_wrap=True, highlight=False)
    try:
        if name:
            raise typer.Exit(judge_some(name, profile, console, keep))
        raise typer.Exit(judge_all(profile, console, take or (), kind or ()))
    except KeyError as error:
        raise typer.BadParameter(str(error.args[0]), param_hint="FAULT") from error
    except NoMatrix as error:
        raise typer.BadParameter(str(error), param_hint="--take") from error


@app.command(name="show")
def show_fixture(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What a failure left.", dir_okay=False, exists=True)],
    html: Annotated[Path | None, _file("--html", "Write a page instead.")] = None,
    target: Annotated[str | None, typer.Option("--target", metavar="T", help="Show what T does with it today.")] = None,
) -> None:
    """Show a fixture: the call, where it differs, what is known to do the same, and how to replay it.

    The exit code is 125 for a file that is no fixture, and for a target that cannot be asked.
    """
    from conformance.showing.command import NotWritable, show_file  # which imports most of the suite

    found = _find([target])[0] if target else None
    errors = Console(stderr=True, highlight=False)
    try:
        raise typer.Exit(show_file(file, html, found, Console(highlight=False), errors))
    except NotWritable as error:
        raise typer.BadParameter(str(error), param_hint="--html") from error


@app.command()
def spec() -> None:
    """Print each clause of SPEC.md with the tests that judge it and the faults that break it.

    The exit code is 1 for a clause without a test or without a fault, and for a test marked with an unknown clause.
    """
    from conformance.faults.command import show_clauses

    raise typer.Exit(show_clauses(Console(soft_wrap=True, highlight=False)))


@app.command()
def vectors(
    check: Annotated[bool, typer.Option("--check", help="Write nothing: say whether the files are so.")] = False,
) -> None:
    """Write the test vectors of fixtures/vectors from their descriptions, if two sources agree on each of them.

    The exit code is 1 if they do not, and with --check if a file is not, byte for byte, what would be written.
    """
    from conformance.vectors import command as of_vectors  # which imports both models

    console = Console(soft_wrap=True, highlight=False)
    raise typer.Exit(of_vectors.check(console) if check else of_vectors.write(console))


@app.command()
def replay(
    file: Annotated[list[Path], typer.Argument(metavar="FILE", help="Fixtures, as a failing gate writes them.")],
    target: Annotated[str | None, typer.Option("--target", metavar="T", help="Instead of the one that failed.")] = None,
    here: Annotated[bool, typer.Option("--here", help="Judge in this process, for debuggers and sanitizers.")] = False,
    seconds: Annotated[float, typer.Option(min=1, help="After which a process that says nothing has crashed.")] = 600,
) -> None:
    """Judge what failed again, on the same target or another one.

    The exit code is 0 if all conform, 1 if one differs or crashes, and 125 if one cannot be judged, as `git bisect run`
    wants it.
    """
    from conformance.replaying import replay as replaying  # which imports most of the suite

    raise typer.Exit(replaying.replay_all(file, target, None if here else seconds, typer.echo))


@app.command()
def merge(
    report: Annotated[list[Path], typer.Argument(metavar="REPORT", help="gate.json of each shard, or its folder.")],
    report_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to write the joined gate.json and gate.md.")
    ] = None,
    require: Annotated[
        list[str] | None, typer.Option(metavar="WHAT", help="cuda or sm_100, on which all have to judge; may repeat.")
    ] = None,
) -> None:
    """Join the reports of all shards of a run (pytest --shard I/N) into that of the gate.

    The exit code is 0 if it conforms, 1 if something differs or crashed, and 6 if something was not judged: if a shard
    is missing, is given twice, did not come to its end, or is of another run.
    """
    from conformance.reports import command as of_reports

    try:
        raise typer.Exit(of_reports.merge(report, report_dir, require or (), typer.echo))
    except of_reports.BadFolder as error:
        raise typer.BadParameter(str(error), param_hint="--report-dir") from error


@app.command()
def histogram(
    tokens: Annotated[int, typer.Option(min=1, help="Tokens of each kind.")] = 4000,
) -> None:
    """Show which scale bytes and ties the suite's own numbers reach, and which Gaussian ones do."""
    show(tokens, Console(width=120, highlight=False))


def _gib(found: float) -> float:
    if not 0 < found <= 1 << 20:
        raise typer.BadParameter(f"found {found:g}; allowed is more than 0, up to {1 << 20:,}")
    return found


@app.command()
def capacity(
    gib: Annotated[float, typer.Option("--gib", callback=_gib, metavar="X", help="GiB for the cache alone.")],
    layers: Annotated[int, _count("--layers", 1 << 16, "Layers of the model (61).")] = 61,
    block_size: Annotated[int, _count("--block-size", 1 << 16, "Tokens a block (64).")] = 64,
) -> None:
    """Say how many tokens fit, in whole blocks, for each kv_cache_dtype."""
    show_capacities(gib, layers, block_size, Console(width=120, highlight=False))


def _find(names: list[str]) -> list[Target]:
    try:
        return [find(name) for name in names]
    except UnknownTarget as error:
        raise typer.BadParameter(str(error), param_hint="--target") from error
