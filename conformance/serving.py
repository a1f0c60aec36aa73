"""SERVE: what a site asks of its gathers, what a server starts with, and the verdicts on both."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from conformance.answers import LET_THROUGH
from conformance.contexts import batches
from conformance.judge import Judge
from conformance.observe import TargetError
from conformance.sighting import Alike, Make
from conformance.startups import RIGHT, RULES
from conformance.targets.base import SERVE_DISPATCH, SERVE_STARTUP
from conformance.verdict import Crashed, Differs, NotJudged, Unsupported
from fixtures.serve_cases import Context, DispatchCase, GatherCall
from reference.chunks import Chunk
from reference.serving import GATHERS, GENERIC_GATHER, Refusal, Serving, gathers_for, refusals


def judge_operator(judge: Judge, site: str, case: Context, kv_cache_dtype: str) -> None:
    """Raise Differs unless a site gathers with an operator that reads that kv_cache_dtype (SERVE-1)."""
    with judge.on("operator", DispatchCase(site, kv_cache_dtype, case)):
        _judge_operator(judge, site, case, kv_cache_dtype)


def _judge_operator(judge: Judge, site: str, case: Context, kv_cache_dtype: str) -> None:
    calls = _calls(judge, site, case, kv_cache_dtype)
    if calls is None:
        return
    allowed = gathers_for(kv_cache_dtype, case.workspace)
    for call in calls:
        told = f"{call.operator} at {call.where}"
        if call.operator not in allowed:
            found = f"{told}, which does not read records of {kv_cache_dtype} into a workspace of {case.workspace}"
        elif call.operator == GENERIC_GATHER and call.kv_cache_dtype != kv_cache_dtype:
            found = f"{told} with kv_cache_dtype {call.kv_cache_dtype!r}"
        else:
            continue
        lines = [f"expected {' or '.join(allowed)}", f"got {found}"]
        raise _differs(judge, lines, site, case, kv_cache_dtype, calls)
    judge.count.add(0, 0)


def judge_rows(judge: Judge, site: str, case: Context, kv_cache_dtype: str) -> None:
    """Raise Differs unless a site's gathers, whichever they are, fetch the rows of its chunks (SERVE-2)."""
    with judge.on("rows", DispatchCase(site, kv_cache_dtype, case)):
        calls = _calls(judge, site, case, kv_cache_dtype)
        if calls is None:
            return
        wrong = next(_wrong(case, case.chunks(site), calls), None)
        if wrong:
            raise _differs(judge, [wrong], site, case, kv_cache_dtype, calls)
    judge.count.add(sum(call.rows for call in calls), 0)


def _calls(judge: Judge, site: str, case: Context, kv_cache_dtype: str) -> Sequence[GatherCall] | None:
    judge.need(SERVE_DISPATCH)
    calls = _asked_for(judge, site, case, kv_cache_dtype)
    if calls is not None:
        return calls
    if not case.chunks(site):
        return ()
    lines = ["no gather at all"]
    if site == "dense":
        raise _differs(judge, lines, site, case, kv_cache_dtype, None)
    for other in batches(site):
        if other.chunks(site) and _asked_for(judge, site, replace(other, workspace=case.workspace), kv_cache_dtype):
            lines.append(f"but some for contexts {list(other.context_lens)}")
            raise _differs(judge, lines, site, case, kv_cache_dtype, None)
    if all(_asked_for(judge, site, replace(case, workspace="bf16"), other) is None for other in GATHERS):
        raise Unsupported(f"no context of any kv_cache_dtype comes to site {site}")
    return None


def _asked_for(judge: Judge, site: str, case: Context, kv_cache_dtype: str) -> Sequence[GatherCall] | None:
    try:
        calls = judge.target.context_gathers(site, kv_cache_dtype, case)
        return None if calls is None else tuple(calls)
    except LET_THROUGH:
        raise
    except BaseException as error:  # SystemExit and pytest's own skip and exit too: see conformance.observe.invoke
        raise _crashed(judge, _asked(site, case, kv_cache_dtype), error) from error


def _differs(
    judge: Judge, lines: list[str], site: str, case: Context, kv_cache_dtype: str, calls: Sequence[GatherCall] | None
) -> Differs:
    def agrees(make: Make) -> bool:
        other = make().context_gathers(site, kv_cache_dtype, case)
        return _deeds(site, case, other) == _deeds(site, case, calls)

    sighting = Alike(SERVE_DISPATCH, ("serve",), agrees)
    return Differs(judge.text("differs", lines), [_asked(site, case, kv_cache_dtype)], sighting=sighting)


def _deeds(site: str, case: Context, calls: Sequence[GatherCall] | None) -> list[Any] | None:
    """What gathers do, whatever the shape of their arguments: which operator fills which row from where."""
    return (
        None
        if calls is None
        else [
            (
                call.operator,
                call.kv_cache_dtype if call.operator == GENERIC_GATHER else None,
                call.first_row,
                [_source(call, row, case.block_size) for row in range(call.rows)],
                [*_ill_formed(chunk, call)] if chunk else [],
            )
            for chunk, call in zip_longest(case.chunks(site), calls)
            if call
        ]
    )


def _crashed(judge: Judge, asked: str, error: BaseException) -> Crashed:
    return judge.crashed(asked, TargetError.of(error))


def _wrong(case: Context, chunks: Sequence[Chunk], calls: Sequence[GatherCall]) -> Iterator[str]:
    for number, (chunk, call) in enumerate(zip(chunks, calls, strict=False)):
        told = f"chunk {number}: {call.operator} at {call.where}"
        expected = list(_due(case, chunk))
        if (call.first_row, call.rows) != (0, len(expected)):
            rows = f"[{call.first_row}, {call.first_row + call.rows})"
            yield f"{told} writes rows {rows} of the workspace; expected [0, {len(expected)})"
        yield from (f"{told} is handed {fault}" for fault in _ill_formed(chunk, call))
        for row, want in enumerate(expected[: call.rows]):
            got = _source(call, row, case.block_size)
            if got != want:
                yield (
                    f"{told} fills row {row} from {_place(got)}; expected {_place(want)}. It was handed "
                    f"workspace_starts {call.workspace_starts}, seq_starts {call.seq_starts}, requests {call.requests}"
                )
    if len(chunks) != len(calls):
        yield f"{len(calls)} gathers for {len(chunks)} chunks"


def _ill_formed(chunk: Chunk, call: GatherCall) -> Iterator[str]:
    """What is wrong with the number of requests of a call; an operator that is told the owners is told none."""
    if call.owners is not None:
        return
    pieces = len(chunk.seq_lens)
    if call.requests != pieces:
        yield f"batch_size {call.requests}; expected {pieces}, the pieces of its chunk"
    entries = {
        "block_table": call.block_table,
        "workspace_starts": call.workspace_starts,
        "seq_starts": call.seq_starts,
    }
    for name, held in entries.items():
        if held is not None and len(held) < call.requests:
            yield f"batch_size {call.requests} with {len(held)} entries of {name}"


Source = tuple[int, int] | str
"""A physical block and a record of it; or why there is none."""


def _due(case: Context, chunk: Chunk) -> Iterator[Source]:
    for place, (start, length) in enumerate(zip(*case.local(chunk), strict=True)):
        table = case.block_table[chunk.request_start + place]
        for token in range(start, start + length):
            yield table[token // case.block_size], token % case.block_size


def _source(call: GatherCall, row: int, block_size: int) -> Source:
    """Where the operator finds a row: GATHER-1 to GATHER-3, or the owner it is told."""
    if call.owners is not None:
        owner = call.owners[row] if row < len(call.owners) else -1
    else:
        owner = bisect_right(call.workspace_starts[: call.requests], row) - 1
    starts = (0,) * (owner + 1) if call.seq_starts is None else call.seq_starts
    if not 0 <= owner < min(len(call.workspace_starts), len(call.block_table), len(starts)):
        return f"request {owner} of its arguments, which is none"
    token = row - call.workspace_starts[owner] + starts[owner]
    table = call.block_table[owner]
    if not 0 <= token // block_size < len(table):
        return f"token {token} of request {owner}, which its block table does not have"
    return table[token // block_size], token % block_size


def _place(source: Source) -> str:
    return source if isinstance(source, str) else f"record {source[1]} of block {source[0]}"


def _asked(site: str, case: Context, kv_cache_dtype: str) -> str:
    ranks = f", {case.sharding}" if case.sharding.ranks > 1 else ""
    return (
        f"site {site}, kv_cache_dtype {kv_cache_dtype}, contexts {list(case.context_lens)}, block_size "
        f"{case.block_size}, workspace of {case.workspace_rows} rows of {case.workspace}{ranks}"
    )


def judge_refusal(judge: Judge, clause: str, config: Serving) -> None:
    """Raise Differs unless a configuration is refused at startup."""
    refusal = next(found for found in refusals(config) if found.clause == clause)
    with judge.on(f"refusal {clause}", config):
        if refused(judge, config) is None:
            lines = [f"expected a refusal: {refusal}", "got a start without an error"]
            raise _starts_otherwise(judge, lines, config, lambda message: message is None)
    judge.count.add(0, 0)


def judge_message(judge: Judge, clause: str, config: Serving) -> None:
    """Raise Differs unless what refuses a configuration says what to change; without a refusal nothing is said."""
    with judge.on(f"message {clause}", config):
        message = refused(judge, config)
        if message is None:
            raise NotJudged(f"{named(config)} is not refused, {clause}")
        if missing := RULES[clause].missing(message, config):
            lines = [f"the message has none of: {', '.join(words)}" for words in missing]
            example: Refusal = next(iter(refusals(config)))
            lines += [f"got: {message}", f"for example: {example}"]
            raise _starts_otherwise(judge, lines, config, lambda other: other == message)
    judge.count.add(0, 0)


def judge_start(judge: Judge, config: Serving) -> None:
    """Raise Differs if a configuration that breaks no rule is refused at startup (SERVE-10)."""
    with judge.on("start", config):
        message = refused(judge, config)
        if message is not None:
            lines = ["expected a start", f"got: {message}"]
            raise _starts_otherwise(judge, lines, config, lambda other: other is not None)
    judge.count.add(0, 0)


def _starts_otherwise(judge: Judge, lines: list[str], config: Serving, alike: Callable[[str | None], bool]) -> Differs:
    """`alike` says whether a fault's message, or None, is as the one observed; of a refusal for no reason any is."""
    sighting = Alike(SERVE_STARTUP, ("serve",), lambda make: alike(refused(Judge(make()), config)))
    return Differs(judge.text("differs", lines), [_configured(config)], sighting=sighting)


def refused(judge: Judge, config: Serving) -> str | None:
    """What a target refuses a configuration with at startup; None if it starts."""
    judge.need(SERVE_STARTUP)
    try:
        judge.target.start(config)
    except LET_THROUGH:
        raise
    except Exception as error:
        return str(error) or type(error).__name__
    except BaseException as error:  # no way to refuse, and none out of a verdict
        raise _crashed(judge, _configured(config), error) from error
    return None


def named(config: Serving) -> str:
    """A configuration, by what is not as in RIGHT."""
    changed = {name: value for name, value in vars(config).items() if value != getattr(RIGHT, name)}
    return ", ".join(f"{name} {value}" for name, value in changed.items()) or "nvfp4_ds_mla"


def _configured(config: Serving) -> str:
    return f"started with {named(config)}, the rest as for nvfp4_ds_mla: {RIGHT}"
