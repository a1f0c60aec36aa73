"""The verdict on the schema with which an operator is registered."""

from __future__ import annotations

from typing import Any

from conformance.judge import Differs, Judge, Unsupported

OF_THE_CALL = ("src_cache", "dst", "block_table", "workspace_starts", "batch_size")


def judge_schema(judge: Judge, operator: str) -> None:
    """Raise Differs or Unsupported unless a gather is registered with seq_starts as GATHER-15 has it."""
    written = judge.target.schemas.get(operator)
    if written is None:
        raise Unsupported(f"{operator} is not registered")
    arguments = _parsed(written)
    names = [argument.name for argument in arguments]
    judge.count.add(0, 0)
    if names == list(OF_THE_CALL):
        raise Unsupported(f"{operator} has no seq_starts: {written}")
    if "seq_starts" not in names:
        raise Differs(judge.text("differs", [f"{operator} has no seq_starts among {', '.join(names)}", written]))
    starts = arguments[names.index("seq_starts")]
    wrong = [
        *([] if tuple(names[:5]) == OF_THE_CALL else [f"its first arguments are {', '.join(names[:5])}"]),
        *([] if names[-1] == "seq_starts" else [f"seq_starts is followed by {_few(names, 'seq_starts')}"]),
        *([] if str(starts.type) == "Optional[Tensor]" else [f"seq_starts is of the type {starts.type}"]),
        *(["seq_starts is written to"] if starts.alias_info else []),
        *(["seq_starts cannot be given by position"] if starts.kwarg_only else []),
        *([] if starts.has_default_value() else ["seq_starts has no default"]),
    ]
    if starts.has_default_value() and starts.default_value is not None:
        wrong.append(f"seq_starts is {starts.default_value} by default")
    if wrong:
        due = "expected seq_starts last, optional and None by default"
        raise Differs(judge.text("differs", [f"{operator}: {due}", *wrong, written]))


def _parsed(written: str) -> list[Any]:
    import torch

    return list(torch._C.parse_schema(written).arguments)


def _few(names: list[str], name: str) -> str:
    return ", ".join(names[names.index(name) + 1 :])
