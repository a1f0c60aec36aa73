"""The gate, run as a user runs it, on CUDA sources that are wrong on purpose."""

import subprocess
import sys
from pathlib import Path

import pytest

from conformance.faults.catalogue import FAULTS
from conformance.faults.mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]


def gate(target: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "conformance/gate", "-q", "-p", "no:cacheprovider", "--target", target]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_the_host_gate_is_red_on_a_faulty_kernel_and_names_the_fault(mutant: Mutant, tmp_path: Path) -> None:
    run = gate(f"host:{mutant.write(tmp_path)}")
    assert run.returncode == 1, run.stdout[-3000:]
    assert "differs  target host:" in run.stdout
    if mutant.fault:
        sentence = next(fault.sentence for fault in FAULTS if fault.name == mutant.fault)
        assert f"explained exactly by: {sentence} (fault {mutant.fault})" in run.stdout
    else:
        assert "dst: written outside its elements: row 0 column 576" in run.stdout


def test_an_unchanged_copy_of_the_sources_conforms(tmp_path: Path) -> None:
    unchanged = Mutant("none", "cuda/nvfp4_gather.cu", "return first - 1;", "return first - 1;")
    run = gate(f"host:{unchanged.write(tmp_path)}")
    assert run.returncode == 0, run.stdout[-3000:]


def test_a_mutant_that_no_longer_applies_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stands 0 times"):
        Mutant("gone", "cuda/nvfp4_gather.cu", "no such line", "").write(tmp_path)
