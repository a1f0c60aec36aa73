"""The gate, run as a user runs it, on CUDA sources that are wrong on purpose."""

import re
from pathlib import Path

import pytest

from conformance.faults.catalogue import FAULTS
from conformance.faults.generic_mutants import GENERIC_MUTANTS
from conformance.faults.merge_mutants import MERGE_MUTANTS
from conformance.faults.mutants import MUTANTS, PLAIN, ROW, TWIN_MUTANTS, Mutant
from conformance.faults.write_mutants import WRITE_MUTANTS
from conformance.selfcheck.running import gate

GATHER = tuple(f"conformance/gate/test_{part}.py" for part in ("calls", "geometry", "memory", "random", "read"))
"""What judges the gather of nvfp4_ds_mla."""

JUDGED = {
    "test_the_host_gate_is_red_on_a_faulty_kernel_and_names_the_fault": MUTANTS,
    "test_the_host_gate_is_red_on_a_faulty_writer_and_says_what_it_writes": WRITE_MUTANTS,
    "test_the_host_gate_is_red_on_a_faulty_gather_of_fp8_ds_mla": TWIN_MUTANTS,
    "test_the_host_gate_is_red_on_a_faulty_gather_of_numbers_alike": GENERIC_MUTANTS,
    "test_the_host_gate_is_red_on_a_faulty_merge": MERGE_MUTANTS,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every eighth mutant in profile quick, all of them in the others (`make faults`)."""
    if "mutant" in metafunc.fixturenames:
        mutants = JUDGED[metafunc.function.__name__]
        chosen = mutants[::8] if metafunc.config.getoption("--profile") == "quick" else mutants
        metafunc.parametrize("mutant", chosen, ids=[re.sub(r"[ :]+", "-", mutant.name) for mutant in chosen])


def test_the_host_gate_is_red_on_a_faulty_kernel_and_names_the_fault(mutant: Mutant, tmp_path: Path) -> None:
    failures = f"--maxfail={mutant.failures}"
    run = gate(*GATHER, "--target", f"{mutant.target}:{mutant.write(tmp_path)}", failures, "-k", mutant.part)
    assert run.returncode == 1, run.stdout[-3000:]
    assert f"differs  target {mutant.target}:" in run.stdout
    if mutant.fault:
        sentence = next(fault.sentence for fault in FAULTS if fault.name == mutant.fault)
        assert f"explained exactly by: {sentence} (fault {mutant.fault})" in run.stdout
    else:
        assert mutant.says and mutant.says in run.stdout


def test_the_host_gate_is_red_on_a_faulty_writer_and_says_what_it_writes(mutant: Mutant, tmp_path: Path) -> None:
    parts = ("conformance/gate/test_write.py", "conformance/gate/test_write_calls.py")
    run = gate(*parts, "--target", f"host:{mutant.write(tmp_path)}", "--maxfail=3", "-k", mutant.part)
    assert run.returncode == 1, run.stdout[-3000:]
    assert mutant.says in run.stdout


def test_the_host_gate_is_red_on_a_faulty_gather_of_fp8_ds_mla(mutant: Mutant, tmp_path: Path) -> None:
    part = ("conformance/gate/test_twin.py", "-k", "strided or every_byte or every_row", "-x")
    run = gate(*part, "--target", f"host:{mutant.write(tmp_path)}")
    assert run.returncode == 1, run.stdout[-3000:]
    assert "TWIN-" in run.stdout and "differs  target host:" in run.stdout
    assert not mutant.fault or f"(fault {mutant.fault})" in run.stdout


def test_the_host_gate_is_red_on_a_faulty_gather_of_numbers_alike(mutant: Mutant, tmp_path: Path) -> None:
    if mutant.file == ROW:
        part = ("conformance/gate/test_twin.py", "-k", "auto-576 and (strided or above_two_gib)")
    else:
        part = ("conformance/gate/test_generic.py", "-k", "each_byte or token_to_seq or num_tokens_on or fp8-512")
    run = gate(*part, "-x", "--target", f"host:{mutant.write(tmp_path)}")
    assert run.returncode == 1, run.stdout[-3000:]
    assert "TWIN-" in run.stdout and "differs  target host:" in run.stdout
    assert mutant.says in run.stdout
    assert not mutant.fault or f"(fault {mutant.fault})" in run.stdout


def test_the_host_gate_is_red_on_a_faulty_merge(mutant: Mutant, tmp_path: Path) -> None:
    part = ("conformance/gate/test_merge.py", "-k", "broke_real or strided or memory_of_an_input", "-x")
    run = gate(*part, "--target", f"host:{mutant.write(tmp_path)}")
    assert run.returncode == 1, run.stdout[-3000:]
    assert "MERGE-" in run.stdout and "differs  target host:" in run.stdout
    assert mutant.says in run.stdout


def test_an_unchanged_copy_of_the_sources_conforms(tmp_path: Path) -> None:
    unchanged = Mutant("none", PLAIN, "(GatherArgs args) {", "(GatherArgs args) {")
    run = gate(
        *GATHER, "--target", f"{unchanged.target}:{unchanged.write(tmp_path)}", "-k", "not magnitudes and not scope"
    )
    assert run.returncode == 0, run.stdout[-3000:]


def test_a_mutant_that_no_longer_applies_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stands 0 times"):
        Mutant("gone", PLAIN, "no such line", "").write(tmp_path)
