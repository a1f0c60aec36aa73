"""How the writers are built: their quantization, receipts, failures, and the machine code for absent GPUs."""

import functools
import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from conformance.selfcheck.machine_code import MachineCode
from conformance.selfcheck.machine_code import machine_code as machine_code_of
from conformance.selfcheck.test_writer_ops import bf16, write_call
from kernels import cross, host_build, quantization, sources
from kernels.cache import BuildError
from kernels.kernel import Kernel
from kernels.quantization import Quantization
from kernels.sources import changed_sources
from kernels.write_catalog import WRITERS
from kernels.writer import Writer

BLACKWELL = ("sm_100a", "sm_103a", "sm_120a")
ARCHITECTURES = ("sm_90", *BLACKWELL)
OTHER = Quantization("spreads", "multiplied", "up", "division", "arbitrary")
QUANTIZED = ("nvfp4_ds_mla", "fp8_ds_mla")
BUILDS = [*product(WRITERS, [quantization.DEFAULT]), *product(QUANTIZED, [OTHER])]


def kernel(name: str, how: Quantization) -> Kernel:
    return replace(WRITERS[name], defines=how.defines())


def machine_code(arch: str, name: str, how: Quantization) -> MachineCode:
    return machine_code_of(arch, kernel(name, how))


@functools.cache
def ptx(name: str, how: Quantization) -> str:
    from cupy.cuda import nvrtc

    recipe = cross.recipe("sm_90", None, kernel(name, how))
    program = nvrtc.createProgram(recipe.source.read_text(), recipe.source.name, (), ())
    nvrtc.compileProgram(program, recipe.options)
    return str(nvrtc.getPTX(program).decode())


def arithmetic(text: str) -> list[str]:
    """The floating-point operations in PTX that compute, with all that is said of how they round."""
    return re.findall(r"^\s+(?:@\S+ )?((?:add|sub|mul|mad|fma|div|rcp|min|max|ex2|lg2)\.\S*f\d+);?\s", text, re.M)


@pytest.fixture
def needs_nvrtc() -> None:
    pytest.importorskip("cupy", reason="NVRTC is reached through CuPy")


@pytest.mark.parametrize(("name", "how"), BUILDS)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_writer_compiles_for_every_architecture_without_local_memory(
    needs_nvrtc: None, arch: str, name: str, how: Quantization
) -> None:
    machine = machine_code(arch, name, how)
    assert machine.kernels == [WRITERS[name].symbol]
    assert machine.local_memory() == []
    assert machine.memory_instructions == {"LDG", "STG"}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_numbers_are_encoded_by_native_instructions_where_there_are_any(needs_nvrtc: None, arch: str) -> None:
    conversions = machine_code(arch, "nvfp4_ds_mla", quantization.DEFAULT).conversions
    assert any("SATFINITE.E4M3.F32" in opcode for opcode in conversions)
    assert any("SATFINITE.E2M1.F32" in opcode for opcode in conversions) == (arch in BLACKWELL)


@pytest.mark.parametrize(
    ("name", "how", "expected"),
    [
        ("nvfp4_ds_mla", quantization.DEFAULT, {"div.rn.f32": 2, "mul.rn.f32": 16}),
        ("nvfp4_ds_mla", replace(quantization.DEFAULT, sixth="multiplied"), {"div.rn.f32": 1, "mul.rn.f32": 17}),
        ("nvfp4_ds_mla", replace(quantization.DEFAULT, normalisation="division"), {"div.rn.f32": 17}),
        ("nvfp4_ds_mla", OTHER, {"div.rn.f32": 16, "mul.rn.f32": 1}),
        ("fp8_ds_mla", quantization.DEFAULT, {"div.rn.f32": 17}),
        ("fp8_ds_mla", OTHER, {"div.rn.f32": 17}),
        ("auto", quantization.DEFAULT, {}),
    ],
)
def test_every_operation_rounds_once_to_nearest_keeps_subnormals_and_is_one_of_the_clauses(
    needs_nvrtc: None, name: str, how: Quantization, expected: dict[str, int]
) -> None:
    found = arithmetic(ptx(name, how))
    assert {operation: found.count(operation) for operation in set(found)} == expected


def test_the_fp8_writer_only_divides(needs_nvrtc: None) -> None:
    assert set(arithmetic(ptx("fp8", quantization.DEFAULT))) == {"div.rn.f32"}


@pytest.mark.parametrize("field", ["nan", "sixth", "scale", "normalisation", "tile"])
@pytest.mark.parametrize("value", ["other", "", None, 1, ["nearest"]])
def test_a_wrong_quantization_is_refused_by_the_name_of_its_field(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field}: found {re.escape(repr(value))}, expected '[a-z]+' or '"):
        Quantization(**{field: value})


def test_every_choice_is_a_macro_of_its_own() -> None:
    before = set(quantization.DEFAULT.defines())
    kinds = [quantization.Nan, quantization.Sixth, quantization.Scale, quantization.Normalisation, quantization.Tile]
    changed = set()
    for field, kind in zip(("nan", "sixth", "scale", "normalisation", "tile"), kinds, strict=True):
        for value in get_args(kind):
            changed |= set(replace(quantization.DEFAULT, **{field: value}).defines()) - before
    assert len(before) == len(changed) == 5
    assert {define.rpartition("=")[0] for define in before} == {define.rpartition("=")[0] for define in changed}


def test_another_quantization_is_another_build_and_the_same_is_the_same(needs_nvrtc: None) -> None:
    keys = {cross.recipe("sm_90", None, kernel("nvfp4_ds_mla", how)).key for how in (quantization.DEFAULT, OTHER)}
    paths = {host_build.build("host/mla_write.cpp", None, how.defines()).path for how in (OTHER, Quantization())}
    assert len(keys) == len(paths) == 2
    assert host_build.build("host/mla_write.cpp", None, OTHER.defines()).path in paths


def test_without_a_quantization_there_is_no_build() -> None:
    with pytest.raises(BuildError, match="the quantization is missing"):
        host_build.build("host/mla_write.cpp")


def test_a_receipt_says_for_each_kernel_who_built_it_and_how_often_it_ran() -> None:
    writer = Writer(quantization=OTHER)
    for name in ("fp8", "nvfp4_ds_mla", "fp8"):
        writer.concat_and_cache_mla(**write_call(name))
    receipt = writer.receipt()
    assert receipt["quantization"]["tile"] == "arbitrary"
    assert receipt["launches"] == 3
    assert {name: facts["launches"] for name, facts in receipt["kernels"].items()} == {"nvfp4_ds_mla": 1, "fp8": 2}
    facts = receipt["kernels"]["nvfp4_ds_mla"]
    assert facts["kernel"] == "nvfp4_ds_mla_write"
    assert facts["devices"]["cpu"]["launches"] == 1
    assert facts["devices"]["cpu"]["sources_sha256"] == sources.sources_sha256(sources.DEFAULT_ROOT)
    assert set(OTHER.defines()) <= set(facts["devices"]["cpu"]["flags"])


def test_a_build_that_failed_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/no/such/compiler")
    writer, failures = Writer(), []
    for _ in range(2):
        with pytest.raises(BuildError, match=r"^cannot run the C\+\+ compiler /no/such/compiler") as caught:
            writer.concat_and_cache_mla(**write_call())
        failures.append(caught.value)
        monkeypatch.setattr(host_build, "build", lambda *_: pytest.fail("tried again"))
    assert failures[0] is failures[1]
    assert writer.receipt()["kernels"] == {}


def test_a_changed_copy_of_the_sources_is_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVFP4_MLA_CACHE", str(tmp_path / "cache"))
    change = ("__fdiv_rn(amax, 6.0f)", "__fdiv_rn(amax, 3.0f)")
    root = changed_sources(tmp_path / "changed", "cuda/nvfp4_ds_mla_write.cu", change)
    call = write_call()
    call["kv_c"][0, 0] = bf16(6)[0]
    Writer(root).concat_and_cache_mla(**call)
    assert np.array_equal(call["kv_cache"][0, 0, [0, 320]], [0x05, 0x40])
