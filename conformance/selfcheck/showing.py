"""Fixtures to show: what known faults leave of small cases."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from conformance import merge_generation, write_generation
from conformance.faults.defects import find_defect
from conformance.generation import Geometry, realize
from conformance.plans import PlanCase
from conformance.selfcheck.running import run
from conformance.showing.anew import asked_again
from conformance.showing.page import page_of
from conformance.showing.shown import Shown
from fixtures.cases import GatherCase
from fixtures.merge_cases import MergeCase
from fixtures.store import Fixture, save

ABOUT = {"clauses": ["PAGE-1", "GATHER-3"], "test": "conformance/gate/test_read.py::test_it", "seed": 7}
GATHER = realize(Geometry(16, (40, 30, 0, 25), (5, 17, 3, 100), extra_blocks=4), 3, origin="by hand")
WRITE = write_generation.realize(write_generation.Slots(40, 16, skipped=3), 5)
PLAN = PlanCase((100, 37, 0, 250), 64, 64, 16)


def merge() -> MergeCase:
    """A merge of 24 tokens and 6 heads."""
    drawn = np.random.default_rng(1)
    outputs = (drawn.normal(size=(24, 6, 64)), drawn.normal(size=(24, 6, 64)))
    return merge_generation.case_of(outputs, (drawn.normal(size=(6, 24)), drawn.normal(size=(6, 24))), "bf16", "drawn")


def left_by(fault: str, case: Any, **about: Any) -> Fixture:
    """What is stored of a known fault."""
    return asked_again(Fixture(case, about=ABOUT | about), find_defect(fault).named_target())


def gather(fault: str = "last-row-not-written", case: GatherCase = GATHER, **about: Any) -> Fixture:
    """What a faulty gather leaves."""
    return left_by(fault, case, question="gather", **about)


def plan() -> Fixture:
    """What a faulty planner leaves."""
    return left_by("cut-unaligned", PLAN, question="plan_mla_context_chunks")


KINDS: dict[str, Callable[[], Fixture]] = {
    "gather": gather,
    "write": lambda: left_by("write-e2m1-ties-away", WRITE, question="write"),
    "merge": lambda: left_by("merge-weights-of-head-0", merge(), question="merge"),
    "plan": plan,
    "none": lambda: Fixture(None, about=ABOUT | {"message": "DEVICE-1  differs  target cuda\n  a launch too many"}),
}


def large() -> Fixture:
    """All of 5,000 rows are wrong, in every element."""
    return gather("starts-ignored", replace(realize(Geometry(16, (3000, 2000), (7, 11)), 9), origin="large"))


def page(fixture: Fixture) -> str:
    """The page of a fixture."""
    return page_of(Shown(fixture, Path("case.safetensors")))


def shown(fixture: Fixture, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """What the command says of a file that holds the fixture."""
    save(fixture, folder / "case.safetensors")
    return run("conformance", "show", str(folder / "case.safetensors"), *options)
