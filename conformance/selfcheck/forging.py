"""Small fixtures of every kind, files that are nearly theirs, and what whoever loads one of them may do with it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from conformance import stored_cases  # noqa: F401  registers what it has
from conformance.cases import strided_gather
from conformance.context_cases import NAMED as CONTEXTS
from conformance.contexts import CONTEXTS as BATCHES
from conformance.generics import over
from conformance.judge import expected_rows
from conformance.merge_generation import EVERY, mixed
from conformance.metadata import MetadataCase
from conformance.plans import PlanCase
from conformance.startups import RIGHT
from conformance.targets.base import LAYOUTS
from conformance.workspaces import WorkspaceCase
from conformance.write_generation import Slots, realize
from fixtures import merge_cases, placement, write_cases
from fixtures.cases import Arrangement, GatherCase
from fixtures.merge_cases import MergeCase, Slack
from fixtures.placement import ZERO
from fixtures.serve_cases import DispatchCase
from fixtures.store import BadFixture, Fixture, load, save
from fixtures.stored_file import Array, encoded, opened
from fixtures.stored_rows import sparse_rows
from fixtures.write_cases import WriteArrangement, WriteCase
from reference.chunks import plan_mla_context_chunks
from reference.profiles import DEFAULT

MIB = 1 << 20
Metadata = dict[str, str]

_GATHER = strided_gather(Arrangement(16, 16, 3, 8, 16, 48, 4, 1))
_ROWS = expected_rows(_GATHER)
_FAULT = sparse_rows(_ROWS, _ROWS ^ np.uint16(1), "dst")

FIXTURES = {
    "gather": Fixture(_GATHER, "NaN", {"clauses": ["PAGE-1"], "test": "test_page", "seed": 3}, *_FAULT),
    "generic gather": Fixture(over(strided_gather(Arrangement()), LAYOUTS["fp8"])),
    "write": Fixture(realize(Slots(3, 4, skipped=1), 1, "fp8_ds_mla", WriteArrangement(8, 24, 48, 16))),
    "merge": Fixture(mixed(2, 2, 8, "bf16", 1, EVERY, True, {"output": Slack(outer=8), "prefix_lse": Slack(shift=4)})),
    "context": Fixture(replace(CONTEXTS["no context beside a little"], heads=1, v_head_dim=4)),
    "plan": Fixture(PlanCase((5, 0, 7), 4, 4, 2, 2)),
    "metadata": Fixture(MetadataCase((5, 0, 7), (0, 1, 2, 4), 8, 2, True, 2, 2)),
    "workspace": Fixture(WorkspaceCase("sparse", 8, 4, 16, 64)),
    "dispatch": Fixture(DispatchCase("dense", "auto", BATCHES["one request of two chunks"])),
    "startup": Fixture(RIGHT),
    "none": Fixture(None, about={"message": "crashed"}),
}


def content_of(name: str, folder: Path) -> bytes:
    """The file of one of FIXTURES."""
    save(FIXTURES[name], folder / "good")
    return (folder / "good").read_bytes()


def forged(content: bytes, change: Callable[[Metadata, dict[str, Array]], object]) -> bytes:
    """A file like another, but for what `change` does to its metadata and arrays."""
    file = opened(content)
    metadata, arrays = dict(file.metadata), {name: array.copy() for name, array in file.arrays().items()}
    change(metadata, arrays)
    return encoded(metadata, arrays)


def verdict(content: bytes, folder: Path, memory: bool = False) -> str:
    """Load a file of these bytes: "" if it is a fixture, which is then used, or what is wrong with it, in a line."""
    path = folder / "forged.safetensors"
    path.write_bytes(content)
    if memory:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
    fixture, message = None, ""
    try:
        fixture = load(path)
    except BadFixture as error:
        message = str(error)
        assert message.startswith(f"{path}: ") and "\n" not in message and len(message) < 700
    if memory:
        taken = tracemalloc.get_traced_memory()[1] - before
        assert taken <= 8 * len(content) + 8 * MIB + (_unbacked(fixture.case) if fixture else 0), (taken, message)
    if fixture:
        use(fixture)
    return message.removeprefix(f"{path}: ")


def _unbacked(case: Any) -> int:
    return case.records.nbytes + case.block_table.nbytes if isinstance(case, GatherCase) else 0


def use(fixture: Fixture) -> None:
    """Whatever is done with a legal case: it is told, placed and predicted, if that takes but little memory here."""
    case = fixture.case
    repr(case)
    if isinstance(case, GatherCase) and max(_unbacked(case), case.num_rows * 1152) < 4 * MIB:
        _place(case, placement.place, placement.is_huge)
        expected_rows(case)
    elif isinstance(case, WriteCase) and case.num_blocks * case.block_size < 10_000:
        _place(case, write_cases.place_write, write_cases.is_huge)
        case.written(ZERO, DEFAULT)
    elif isinstance(case, MergeCase):
        _place(case, merge_cases.place_merge, merge_cases.is_huge)
        assert case.merged.output.shape == case.shape
    elif isinstance(case, PlanCase):
        plan_mla_context_chunks(*case.arguments)


def _place(case: Any, place: Callable[..., Mapping[str, placement.Placement]], is_huge: Callable[[Any], bool]) -> None:
    is_huge(case)
    for placed in place(case, ZERO).values():
        assert 0 <= placed.size * placed.data.itemsize < 1 << 36
        if placed.at is not None:
            assert (placed.at >= 0).all() and len(placed.at) == len(placed.data)


LEAVES = (-1, 0, 1, 3, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63), 1.5, True, None, "x", [1])
"""What a number, a name or a list of a fixture may be replaced by."""


def mutations(value: Any) -> Iterator[Any]:
    """Every value that differs at one place: something else there, one member less, or one more."""
    if isinstance(value, dict):
        yield from ({**value, name: other} for name, one in value.items() for other in mutations(one))
        yield from ({key: one for key, one in value.items() if key != name} for name in value)
        yield {**value, "x": 1}
    elif isinstance(value, list):
        yield from ([*value[:at], other, *value[at + 1 :]] for at, one in enumerate(value) for other in mutations(one))
        yield from (value[:-1], value + value[-1:], [*value, None])
    yield from (leaf for leaf in LEAVES if type(leaf) is not type(value) or leaf != value)
