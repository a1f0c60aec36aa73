"""Define servers that gather context with a wrong operator or wrong arguments, in one way each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NoReturn

from conformance.faults.defect import Defect
from conformance.memory import ArrayMemory
from conformance.targets.base import SERVE_DISPATCH, SERVE_STARTUP, Target
from fixtures.serve_cases import Context, GatherCall, cumulated
from reference.serving import (
    COPYING_GATHER,
    GATHERS,
    GENERIC_GATHER,
    NVFP4_GATHER,
    PER_TENSOR,
    Serving,
    check_startup,
    gathers_for,
)


class Server(Target):
    """Serve correctly."""

    name = "server"
    memory = ArrayMemory()
    capabilities: ClassVar[frozenset[str]] = frozenset({SERVE_DISPATCH, SERVE_STARTUP})

    def describe(self) -> str:
        """Return a short description for reports."""
        return "a stand-in"

    def context_gathers(self, site: str, kv_cache_dtype: str, case: Context) -> Sequence[GatherCall] | None:
        """Return the right gather calls of a batch, one for each chunk."""
        operator = gathers_for(kv_cache_dtype, case.workspace)[0]
        calls = []
        for chunk in case.chunks(site):
            starts, rows = case.local(chunk)
            table = case.block_table[chunk.request_start : chunk.request_end]
            told = kv_cache_dtype if operator == GENERIC_GATHER else None
            workspace_starts = cumulated(rows)
            calls.append(
                GatherCall(operator, sum(rows), table, workspace_starts, len(rows), starts, kv_cache_dtype=told)
            )
        return calls

    def start(self, config: Serving) -> None:
        """Check the configuration. Raises ValueError if a rule of SERVE is broken."""
        check_startup(config)


class Changed(Server):
    """Change each gather call, for all kv_cache_dtypes or for some."""

    capabilities: ClassVar[frozenset[str]] = frozenset({SERVE_DISPATCH})

    def __init__(self, change: Callable[[GatherCall, list[GatherCall]], GatherCall], *formats: str) -> None:
        """Set `change`, which gets a right call and all right calls of its batch, and returns another call."""
        self.change, self.formats = change, formats or tuple(GATHERS)

    def context_gathers(self, site: str, kv_cache_dtype: str, case: Context) -> Sequence[GatherCall] | None:
        """Return the changed calls. Calls of other kv_cache_dtypes stay right."""
        calls = list(super().context_gathers(site, kv_cache_dtype, case) or ())
        return [self.change(call, calls) for call in calls] if kv_cache_dtype in self.formats else calls


class Answering(Server):
    """Change the list of gather calls of a batch."""

    capabilities: ClassVar[frozenset[str]] = frozenset({SERVE_DISPATCH})

    def __init__(self, change: Callable[[list[GatherCall], Context], Any]) -> None:
        """Set `change`, which gets the right calls and the batch, and returns the answer."""
        self.change = change

    def context_gathers(self, site: str, kv_cache_dtype: str, case: Context) -> Sequence[GatherCall] | None:
        """Return the changed answer."""
        changed: Sequence[GatherCall] | None = self.change(
            list(super().context_gathers(site, kv_cache_dtype, case) or ()), case
        )
        return changed


def fail(error: BaseException) -> NoReturn:
    """Raise `error`, for use inside an expression."""
    raise error


def _starts(call: GatherCall) -> tuple[int, ...]:
    return call.seq_starts or ()


def _changing(
    name: str,
    clause: str,
    change: Callable[[GatherCall, list[GatherCall]], GatherCall],
    sentence: str,
    source: str = "",
    formats: tuple[str, ...] = (),
) -> Defect:
    return Defect(name, sentence, clause, "serve", lambda: Changed(change, *formats), source)


def _answering(
    name: str, clause: str, change: Callable[[list[GatherCall], Context], Any], sentence: str, source: str = ""
) -> Defect:
    return Defect(name, sentence, clause, "serve", lambda: Answering(change), source)


DEFECTS = (
    _changing(
        "nvfp4-to-the-generic-gather",
        "SERVE-1",
        lambda call, _: replace(call, operator=GENERIC_GATHER, kv_cache_dtype="nvfp4_ds_mla"),
        "nvfp4_ds_mla context is handed to the generic gather, which refuses it on the first request that has any",
        formats=("nvfp4_ds_mla",),
    ),
    _changing(
        "fp8-ds-mla-to-the-nvfp4-gather",
        "SERVE-1",
        lambda call, _: replace(call, operator=NVFP4_GATHER),
        "fp8_ds_mla context is handed to the gather of nvfp4_ds_mla",
        formats=("fp8_ds_mla",),
    ),
    _changing(
        "fp8-copied-into-bf16",
        "SERVE-1",
        lambda call, _: replace(call, operator=COPYING_GATHER, kv_cache_dtype=None),
        "fp8 elements are copied into a workspace of bf16",
        formats=PER_TENSOR,
    ),
    _changing(
        "generic-gather-told-auto",
        "SERVE-1",
        lambda call, _: replace(call, kv_cache_dtype="auto"),
        "the generic gather is told auto for fp8 elements",
        formats=PER_TENSOR,
    ),
    _answering(
        "no-gather-for-some-batches",
        "SERVE-1",
        lambda calls, case: None if len(case.context_lens) == 6 else calls,
        "a site keeps a kv_cache_dtype from some batches alone",
    ),
    _changing(
        "starts-not-passed", "SERVE-2", lambda call, _: replace(call, seq_starts=None), "no seq_starts are passed"
    ),
    _changing(
        "starts-of-the-first-chunk",
        "SERVE-2",
        lambda call, calls: replace(call, seq_starts=_starts(calls[0]) + (0,) * 9),
        "every gather is handed the starts of the first chunk",
    ),
    _changing(
        "served-starts-rounded-down",
        "SERVE-2",
        lambda call, _: replace(call, seq_starts=tuple(start // 64 * 64 for start in _starts(call))),
        "starts are rounded down to a block, as by shifting the block table by whole blocks",
    ),
    _answering(
        "served-starts-of-all-ranks",
        "SERVE-2",
        lambda calls, case: [
            replace(call, seq_starts=tuple(start * case.sharding.ranks for start in _starts(call))) for call in calls
        ],
        "a rank's gather is handed starts that count the tokens of all ranks",
    ),
    _changing(
        "table-of-the-batch",
        "SERVE-2",
        lambda call, calls: replace(call, block_table=calls[0].block_table),
        "every gather is handed the block-table rows of the first chunk's requests",
    ),
    _changing("rows-more", "SERVE-2", lambda call, _: replace(call, rows=call.rows + 1), "a gather writes a row more"),
    _changing(
        "rows-not-the-first", "SERVE-2", lambda call, _: replace(call, first_row=1), "a gather leaves out the first row"
    ),
    _changing(
        "batch-size-of-the-boundaries",
        "SERVE-2",
        lambda call, _: replace(call, requests=len(call.workspace_starts)),
        "batch_size is the length of cu_seq_lens, one more than the pieces",
    ),
    _answering(
        "batch-size-of-the-batch",
        "SERVE-2",
        lambda calls, case: [replace(call, requests=len(case.context_lens)) for call in calls],
        "batch_size is the number of requests of the whole batch",
    ),
    _changing(
        "rows-of-one-owner",
        "SERVE-2",
        lambda call, _: replace(call, owners=(0,) * call.rows),
        "every row is said to belong to the first piece",
    ),
    _changing(
        "ends-for-workspace-starts",
        "SERVE-2",
        lambda call, _: replace(call, workspace_starts=call.workspace_starts[1:]),
        "workspace_starts holds the ends of the pieces",
    ),
    _answering(
        "no-gather-into-fp8",
        "SERVE-2",
        lambda calls, case: [] if case.workspace == "fp8" else calls,
        "nothing is gathered into a workspace of fp8",
    ),
    _answering(
        "gather-without-context",
        "SERVE-2",
        lambda calls, case: calls or [GatherCall(COPYING_GATHER, 1, case.block_table, (0, 0), 1, (0,))],
        "a batch without context gathers a row",
    ),
    _answering(
        "serving-stops-without-context",
        "SERVE-2",
        lambda calls, case: calls if max(case.context_lens) else fail(IndexError("list index out of range")),
        "a batch without context stops the server",
        "vllm 53603",
    ),
)
