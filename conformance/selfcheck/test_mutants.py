"""The gate, run as a user runs it, on CUDA sources that are wrong on purpose."""

from pathlib import Path

import pytest

from conformance.faults.catalogue import FAULTS
from conformance.faults.mutants import MUTANTS, PLAIN, TWIN_MUTANTS, Mutant
from conformance.faults.write_mutants import WRITE_MUTANTS
from conformance.selfcheck.running import gate


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-").replace(":", ""))
def test_the_host_gate_is_red_on_a_faulty_kernel_and_names_the_fault(mutant: Mutant, tmp_path: Path) -> None:
    run = gate("--target", f"{mutant.target}:{mutant.write(tmp_path)}", f"--maxfail={mutant.failures}")
    assert run.returncode == 1, run.stdout[-3000:]
    assert f"differs  target {mutant.target}:" in run.stdout
    if mutant.fault:
        sentence = next(fault.sentence for fault in FAULTS if fault.name == mutant.fault)
        assert f"explained exactly by: {sentence} (fault {mutant.fault})" in run.stdout
    else:
        assert mutant.says and mutant.says in run.stdout


@pytest.mark.parametrize("mutant", WRITE_MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_the_host_gate_is_red_on_a_faulty_writer_and_says_what_it_writes(mutant: Mutant, tmp_path: Path) -> None:
    parts = ("conformance/gate/test_write.py", "conformance/gate/test_write_calls.py")
    run = gate(*parts, "--target", f"host:{mutant.write(tmp_path)}", "--maxfail=3")
    assert run.returncode == 1, run.stdout[-3000:]
    assert mutant.says in run.stdout


@pytest.mark.parametrize("mutant", TWIN_MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-").replace(":", ""))
def test_the_host_gate_is_red_on_a_faulty_gather_of_fp8_ds_mla(mutant: Mutant, tmp_path: Path) -> None:
    part = ("conformance/gate/test_twin.py", "-k", "strided or every_byte or every_row", "-x")
    run = gate(*part, "--target", f"host:{mutant.write(tmp_path)}")
    assert run.returncode == 1, run.stdout[-3000:]
    assert "TWIN-" in run.stdout and "differs  target host:" in run.stdout
    assert not mutant.fault or f"(fault {mutant.fault})" in run.stdout


def test_an_unchanged_copy_of_the_sources_conforms(tmp_path: Path) -> None:
    unchanged = Mutant("none", PLAIN, "(GatherArgs args) {", "(GatherArgs args) {")
    run = gate("--target", f"{unchanged.target}:{unchanged.write(tmp_path)}", "-k", "not write")
    assert run.returncode == 0, run.stdout[-3000:]


def test_a_mutant_that_no_longer_applies_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stands 0 times"):
        Mutant("gone", PLAIN, "no such line", "").write(tmp_path)
