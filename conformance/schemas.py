"""The verdict on the schema with which an operator is registered."""

from __future__ import annotations

from typing import Any

from conformance.judge import Judge
from conformance.verdict import Differs, Unsupported

_OF_REQUESTS = ("src_cache", "dst", "block_table", "workspace_starts", "batch_size")
OF_THE_CALL = {
    "cp_gather_and_upconvert_nvfp4_kv_cache": _OF_REQUESTS,
    "cp_gather_and_upconvert_fp8_kv_cache": _OF_REQUESTS,
    "gather_and_maybe_dequant_cache": (
        *("src_cache", "dst", "block_table", "cu_seq_lens", "token_to_seq"),
        *("num_tokens", "kv_cache_dtype", "scale"),
    ),
}
"""By operator, the arguments before seq_starts."""


def judge_schema(judge: Judge, operator: str) -> None:
    """Raise Differs or Unsupported unless a gather is registered with seq_starts as GATHER-15 has it."""
    written = judge.target.schemas.get(operator)
    if written is None:
        raise Unsupported(f"{operator} is not registered")
    arguments = _parsed(written)
    names = [argument.name for argument in arguments]
    judge.count.add(0, 0)
    due = OF_THE_CALL[operator]
    first = tuple(names[: len(due)])
    if names == list(due):
        raise Unsupported(f"{operator} has no seq_starts: {written}")
    if "seq_starts" not in names:
        raise Differs(judge.text("differs", [f"{operator} has no seq_starts among {', '.join(names)}", written]))
    starts = arguments[names.index("seq_starts")]
    wrong = [
        *([] if first == due else [f"its first arguments are {', '.join(first)}"]),
        *([] if names[-1] == "seq_starts" else [f"seq_starts is followed by {_few(names, 'seq_starts')}"]),
        *([] if str(starts.type) == "Optional[Tensor]" else [f"seq_starts is of the type {starts.type}"]),
        *(["seq_starts is written to"] if starts.alias_info else []),
        *(["seq_starts cannot be given by position"] if starts.kwarg_only else []),
        *([] if starts.has_default_value() else ["seq_starts has no default"]),
    ]
    if starts.has_default_value() and starts.default_value is not None:
        wrong.append(f"seq_starts is {starts.default_value} by default")
    if wrong:
        expected = "expected seq_starts last, optional and None by default"
        raise Differs(judge.text("differs", [f"{operator}: {expected}", *wrong, written]))


def _parsed(written: str) -> list[Any]:
    import torch

    return list(torch._C.parse_schema(written).arguments)


def _few(names: list[str], name: str) -> str:
    return ", ".join(names[names.index(name) + 1 :])
