"""How many calls of a target's operators returned, of those that had something to write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from conformance.targets.base import Target

HAS_WORK: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "cp_gather_and_upconvert_nvfp4_kv_cache": lambda call: call["batch_size"] > 0 and len(call["dst"]) > 0,
    "cp_gather_and_upconvert_fp8_kv_cache": lambda call: call["batch_size"] > 0 and len(call["dst"]) > 0,
    "gather_and_maybe_dequant_cache": lambda call: call["num_tokens"] > 0 and len(call["cu_seq_lens"]) > 1,
    "concat_and_cache_mla": lambda call: len(call["slot_mapping"]) > 0,
    "merge_attn_states": lambda call: 0 not in call["output"].shape,
}
"""By operator, whether a call has anything to write, so that whoever answers it has to launch a kernel."""

_answered: WeakKeyDictionary[Target, Counter[str]] = WeakKeyDictionary()


def note(target: Target, operator: str, arguments: Mapping[str, Any]) -> None:
    """Count a call that returned, if it had something to write."""
    try:
        counts = operator in HAS_WORK and HAS_WORK[operator](arguments)
    except Exception:  # a malformed call that was not refused, which is another matter
        return
    if counts:
        answered(target)[operator] += 1


def answered(target: Target) -> Counter[str]:
    """The calls of a target that this process has made so far, by operator."""
    return _answered.setdefault(target, Counter())


def unlaunched(calls: Mapping[str, int], launches: Mapping[str, int]) -> str:
    """What of some calls cannot have been answered by as few launches, in one line; "" if all can."""
    short = [(name, count, launches.get(name, 0)) for name, count in calls.items() if count > launches.get(name, 0)]
    return "; ".join(
        f"{count} calls of {name} that had something to write, and {launched} launches: something else answered"
        for name, count, launched in short
    )
