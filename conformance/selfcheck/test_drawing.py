"""A seed says which cases are drawn, whatever else the process has imported."""

import subprocess
import sys
from pathlib import Path

import pytest

from conformance.drawing import for_each
from conformance.selfcheck.running import ROOT
from conformance.strategies import gather_cases
from fixtures.cases import GatherCase

PROGRAM = """
import importlib, sys
sys.path[:0] = [{more!r}]
for name in {imports!r}: importlib.import_module(name)
from conformance.drawing import for_each
from conformance.strategies import gather_cases
for_each(gather_cases(with_starts=True), 150, 5, print)
"""


def drawn(more: Path, *imports: str) -> str:
    program = PROGRAM.format(more=str(more), imports=imports)
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_what_else_is_imported_does_not_change_the_cases(tmp_path: Path) -> None:
    # hypothesis passes over numbers below 100, and over modules with more than 1,024 of them.
    numbers = ", ".join(str(number) for number in range(100, 1_000))
    (tmp_path / "full_of_numbers.py").write_text(f"NUMBERS = [{numbers}]\n")
    alone = drawn(tmp_path)
    assert len(alone.splitlines()) == 150
    assert drawn(tmp_path, "full_of_numbers") == alone


def test_as_many_cases_are_drawn_as_asked_for() -> None:
    seen: list[GatherCase] = []
    for_each(gather_cases(with_starts=True), 40, 1, seen.append)
    assert len(seen) == 40


def test_a_failing_case_is_shrunk() -> None:
    def no_unaligned_start(case: GatherCase) -> None:
        assert case.seq_starts is not None
        if (case.seq_starts % case.block_size).any():
            raise AssertionError(repr(case))

    with pytest.raises(AssertionError, match=r"block_size=2, rows=0, lengths=\[0\], seq_starts=\[1\]"):
        for_each(gather_cases(with_starts=True), 100, 1, no_unaligned_start)
