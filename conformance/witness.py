"""What a GPU really runs when an operator is called: kernels by name, seen by CUPTI and not told by the target."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from conformance.generation import Geometry, realize
from conformance.generics import over
from conformance.judge import Judge
from conformance.merge_generation import mixed
from conformance.merges import observe_merge
from conformance.observe import observe, watching
from conformance.targets.base import GATHERS, LAYOUTS, MERGE, WRITES, Target
from conformance.write_generation import Slots
from conformance.write_generation import realize as realize_write
from conformance.writes import observe_write
from fixtures.placement import POISONS

Kernel = dict[str, Any]
"""What is known of a launch: "call", what was asked for; "kernel", its name, or "" for none; what TOLD has."""

TOLD = {"registers": "registers per thread", "grid": "grid", "block": "block"}
"""Beside its name, what the report has of a kernel, and what the profiler calls that."""


def seen_on_device(target: Target) -> list[Kernel]:
    """The kernels of one small call of each operator that the target claims and this machine can run.

    RuntimeError says why none can be seen here.
    """
    from torch.profiler import ProfilerActivity, supported_activities

    if ProfilerActivity.CUDA not in supported_activities():  # type: ignore[no-untyped-call]
        raise RuntimeError("the installed torch has no profiler for CUDA")
    found: list[Kernel] = []
    for name, probe in _probes(target):
        launched: list[Kernel] = []
        with watching(partial(_profiled, launched)):
            try:
                probe()
            except Exception:  # a call that fails is what the tests are for
                continue
        found += [{"call": name, **kernel} for kernel in launched or [{"kernel": ""}]]
    return found


def _probes(target: Target) -> Iterator[tuple[str, Callable[[], object]]]:
    def can(capability: str) -> bool:
        return capability in target.capabilities and target.hindrance(capability) is None

    for form, (bare, with_starts, operator) in GATHERS.items():
        for capability, starts in ((bare, None), (with_starts, (5,))):
            if can(capability):
                case = over(realize(Geometry(16, (3,), starts), seed=1), LAYOUTS[form])
                yield f"{operator} {form}{' seq_starts' if starts else ''}", partial(observe, target, case, POISONS[0])
    judge = Judge(target)
    for form, capability in WRITES.items():
        if can(capability):
            tokens = realize_write(Slots(2), 1, form)
            yield f"concat_and_cache_mla {form}", partial(observe_write, judge, tokens, POISONS[0])
    if can(MERGE):
        yield "merge_attn_states", partial(observe_merge, judge, mixed(3, 2, 128), POISONS[0])


@contextmanager
def _profiled(launched: list[Kernel], target: Target) -> Iterator[None]:
    """Note what the device runs in the meantime."""
    from torch.autograd.profiler import profile  # that of torch.profiler imports torch's compiler when it starts

    with TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        with profile(use_cpu=False, use_device="cuda", use_kineto=True) as profiler:
            yield
            target.memory.synchronize()
        profiler.export_chrome_trace(str(trace))  # its events alone have no registers
        events = json.loads(trace.read_text())["traceEvents"]
    launched += [
        {"kernel": event["name"], **{name: event["args"].get(key) for name, key in TOLD.items()}}
        for event in events
        if event.get("cat") == "kernel"
    ]
