"""SERVE: what a site asks of its gathers, what a server starts with, and the verdicts on both."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from conformance.contexts import Context, GatherCall, context
from conformance.judge import Differs, Judge, NotJudged, Unsupported
from conformance.observe import TargetError
from conformance.targets.base import SERVE_DISPATCH, SERVE_STARTUP
from reference.chunks import Chunk
from reference.serving import GENERIC_GATHER, Refusal, Serving, gathers_for, refusals
from reference.shards import Sharding

CONTEXTS = {
    "one request of two chunks": context((128,), 64, 64),
    "the acceptance test of the original change": context((1000, 100, 64, 0), 512, 64),
    "requests without context between others": context((0, 70, 0, 0, 5, 130), 128, 64),
}
SHARDED = {
    "one request of two chunks on 2 ranks": context((256,), 256, 64, Sharding(2)),
    "3 ranks that take turns of 2 tokens": context((1000, 101, 0, 64), 576, 64, Sharding(3, 2)),
}


def judge_operator(judge: Judge, site: str, case: Context, kv_cache_dtype: str) -> None:
    """Raise Differs unless a site gathers with an operator that reads that kv_cache_dtype (SERVE-1)."""
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
        lines = [f"expected {' or '.join(allowed)}", f"got {found}", _asked(site, case, kv_cache_dtype)]
        raise Differs(judge.text("differs", lines))
    judge.count.add(0, 0)


def judge_rows(judge: Judge, site: str, case: Context, kv_cache_dtype: str) -> None:
    """Raise Differs unless a site's gathers, whichever they are, fetch the rows of its chunks (SERVE-2)."""
    calls = _calls(judge, site, case, kv_cache_dtype)
    if calls is None:
        return
    chunks = case.chunks(site)
    wrong = next(_wrong(case, chunks, calls), None)
    if wrong:
        raise Differs(judge.text("differs", [wrong, _asked(site, case, kv_cache_dtype)]))
    judge.count.add(sum(call.rows for call in calls), 0)


def _calls(judge: Judge, site: str, case: Context, kv_cache_dtype: str) -> Sequence[GatherCall] | None:
    judge.need(SERVE_DISPATCH)
    try:
        calls = judge.target.context_gathers(site, kv_cache_dtype, case)
    except (NotJudged, Unsupported):
        raise
    except Exception as error:
        asked = _asked(site, case, kv_cache_dtype)
        raise judge.crashed(asked, TargetError(f"{type(error).__name__}: {error}")) from error
    if calls is None and site == "dense":
        lines = ["no gather at all", _asked(site, case, kv_cache_dtype)]
        raise Differs(judge.text("differs", lines))
    return calls


def _wrong(case: Context, chunks: Sequence[Chunk], calls: Sequence[GatherCall]) -> Iterator[str]:
    for number, (chunk, call) in enumerate(zip(chunks, calls, strict=False)):
        told = f"chunk {number}: {call.operator} at {call.where}"
        expected = list(_due(case, chunk))
        if (call.first_row, call.rows) != (0, len(expected)):
            rows = f"[{call.first_row}, {call.first_row + call.rows})"
            yield f"{told} writes rows {rows} of the workspace; expected [0, {len(expected)})"
        for row, want in enumerate(expected[: call.rows]):
            got = _source(call, row, case.block_size)
            if got != want:
                yield (
                    f"{told} fills row {row} from {_place(got)}; expected {_place(want)}. It was handed "
                    f"workspace_starts {call.workspace_starts}, seq_starts {call.seq_starts}, requests {call.requests}"
                )
    if len(chunks) != len(calls):
        yield f"{len(calls)} gathers for {len(chunks)} chunks"


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


RIGHT = Serving()
STARTS = [
    RIGHT,
    replace(RIGHT, compute_capability=(10, 3)),
    *(replace(RIGHT, kv_cache_dtype=dtype) for dtype in ("auto", "fp8_ds_mla")),
    replace(RIGHT, kv_cache_dtype="auto", uses_mla=False),
    replace(RIGHT, kv_cache_dtype="auto", compute_capability=(9, 0)),
    replace(RIGHT, kv_cache_dtype="fp8_ds_mla", decode_context_parallel_size=2),
]
"""Configurations that break no rule; of those that do, these differ in kv_cache_dtype alone."""


@dataclass(frozen=True)
class Rule:
    """A rule, configurations that break it alone, and words of which a message has to have one of each group."""

    configs: tuple[Serving, ...]
    words: tuple[tuple[str, ...], ...]


DTYPE = ("kv cache dtype", "kv cache data type", "nvfp4 kv cache")
RULES = {
    "SERVE-3": Rule((replace(RIGHT, uses_mla=False),), (DTYPE, ("mla",), ("auto", "fp8", "bfloat16"))),
    "SERVE-4": Rule(
        tuple(
            replace(RIGHT, kv_lora_rank=rank, qk_rope_head_dim=rope)
            for rank, rope in ((256, 64), (512, 0), (512, 128), (448, 128))
        ),
        (DTYPE, ("kv lora rank", "qk rope head dim", "head size"), ("512", "576")),
    ),
    "SERVE-5": Rule(
        tuple(replace(RIGHT, attention_backend=name) for name in ("FLASHINFER_MLA_SPARSE", "TRITON_MLA", "FLASHMLA")),
        (DTYPE, ("backend",), ("flashmla sparse", "auto", "fp8")),
    ),
    "SERVE-6": Rule(
        tuple(replace(RIGHT, compute_capability=found) for found in ((9, 0), (12, 0), (8, 0))),
        (DTYPE, ("capability", "sm"), ("10", "sm100", "blackwell")),
    ),
    "SERVE-7": Rule(
        (replace(RIGHT, decode_context_parallel_size=2),),
        (DTYPE, ("decode context parallel", "dcp"), ("1 ", "fp8", "auto")),
    ),
    "SERVE-8": Rule(
        tuple(replace(RIGHT, kv_cache_dtype=dtype) for dtype in ("nvfp4", "int8_per_token_head")),
        (DTYPE, ("mla",), ("nvfp4 ds mla", "auto", "fp8")),
    ),
}


def judge_refusal(judge: Judge, clause: str, config: Serving) -> None:
    """Raise Differs unless a configuration is refused at startup."""
    refusal = next(found for found in refusals(config) if found.clause == clause)
    if refused(judge, config) is None:
        expected = f"expected a refusal: {refusal}"
        raise Differs(judge.text("differs", [expected, "got a start without an error", _configured(config)]))
    judge.count.add(0, 0)


def judge_message(judge: Judge, clause: str, config: Serving) -> None:
    """Raise Differs unless what refuses a configuration says what to change; without a refusal nothing is said."""
    message = refused(judge, config)
    if message is None:
        raise NotJudged(f"{named(config)} is not refused, {clause}")
    missing = says_what_to_change(clause, message)
    if missing:
        lines = [f"the message has none of: {', '.join(words)}" for words in missing]
        example: Refusal = next(iter(refusals(config)))
        raise Differs(
            judge.text("differs", [*lines, f"got: {message}", f"for example: {example}", _configured(config)])
        )
    judge.count.add(0, 0)


def says_what_to_change(clause: str, message: str) -> list[tuple[str, ...]]:
    """The groups of words that a refusal under a clause should have one of, and has none of."""
    plain = f" {message.lower()} ".translate(str.maketrans("-_`'\",;:()[]=.\n", " " * 15))
    return [words for words in RULES[clause].words if not any(f" {word}" in plain for word in words)]


def judge_start(judge: Judge, config: Serving) -> None:
    """Raise Differs if a configuration that breaks no rule is refused at startup (SERVE-10)."""
    message = refused(judge, config)
    if message is not None:
        raise Differs(judge.text("differs", ["expected a start", f"got: {message}", _configured(config)]))
    judge.count.add(0, 0)


def refused(judge: Judge, config: Serving) -> str | None:
    """What a target refuses a configuration with at startup; None if it starts."""
    judge.need(SERVE_STARTUP)
    try:
        judge.target.start(config)
    except (NotJudged, Unsupported):
        raise
    except Exception as error:
        return str(error) or type(error).__name__
    return None


def named(config: Serving) -> str:
    """A configuration, by what is not as in RIGHT."""
    changed = {name: value for name, value in vars(config).items() if value != getattr(RIGHT, name)}
    return ", ".join(f"{name} {value}" for name, value in changed.items()) or "nvfp4_ds_mla"


def _configured(config: Serving) -> str:
    return f"started with {named(config)}, the rest as for nvfp4_ds_mla: {RIGHT}"
