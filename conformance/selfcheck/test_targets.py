"""Targets by name, and the memory they are handed."""

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from conformance.memory import ArrayMemory, Memory, TorchMemory
from conformance.selfcheck.running import gate, run
from conformance.targets import registry
from conformance.targets.models import NumpyTarget, TorchTarget
from conformance.targets.taken import Taken
from fixtures.placement import Placement


def test_a_name_finds_a_built_in_target() -> None:
    assert isinstance(registry.find("numpy"), NumpyTarget)
    assert registry.find("torch:cuda").name == "torch:cuda"
    assert registry.find("conformance.targets.models:TorchTarget").name == "torch"


def test_an_installed_distribution_may_bring_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    brought = EntryPoint("brought", "conformance.targets.models:TorchTarget", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points", lambda group: EntryPoints([brought]).select(group=group))
    assert isinstance(cast(Taken, registry.find("brought")).given, TorchTarget)
    with pytest.raises(registry.UnknownTarget, match=r"brought, or package\.module:Class"):
        registry.find("unknown")


@pytest.mark.parametrize("memory", [ArrayMemory(), TorchMemory()], ids=lambda memory: memory.name)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.int64])
@pytest.mark.parametrize("poison", [0, 0x5A])
def test_placed_data_is_read_back_and_surrounded_by_poison(memory: Memory, dtype: type, poison: int) -> None:
    data: np.ndarray = np.arange(12).reshape(3, 4).astype(dtype)
    region = memory.place(Placement(data, (7, 1), 10, 20, poison))
    assert (memory.read(region) == data).all()
    assert memory.strays(region) == []


@pytest.mark.parametrize("memory", [ArrayMemory(), TorchMemory()], ids=lambda memory: memory.name)
@pytest.mark.parametrize("place", [-10, -1, 4, 6, 11, 18, 37])
def test_a_stray_write_is_found_where_it_is(memory: Memory, place: int) -> None:
    region = memory.place(Placement(np.ones((3, 4), np.uint16), (7, 1), 10, 20, 0x5A5A))
    region.base[region.first + place] = 3
    assert memory.strays(region) == [place]


@pytest.mark.parametrize("memory", [ArrayMemory(), TorchMemory()], ids=lambda memory: memory.name)
@pytest.mark.parametrize("shift", [0, 2, 16, 254])
def test_the_first_element_stands_at_the_address_asked_for(memory: Memory, shift: int) -> None:
    region = memory.place(Placement(np.ones((2, 3), np.uint16), (5, 1), 11, 3, 1, shift))
    address = region.view.ctypes.data if isinstance(region.view, np.ndarray) else region.view.data_ptr()
    assert address % 256 == shift


def test_the_command_line_lists_the_targets_and_says_why_one_is_not_judged() -> None:
    done = run("conformance", "targets")
    assert done.returncode == 0
    for name in ("numpy", "torch", "host", "cuda"):
        assert f"\n {name} " in done.stdout
    assert "not judged:" in done.stdout and "gather.nvfp4.seq_starts" in done.stdout
    assert "auto is host here" in done.stdout


@pytest.mark.parametrize("command", [["targets", "--target", "no"], ["no"]])
def test_bad_arguments_of_the_command_line_are_a_usage_error_without_a_traceback(command: list[str]) -> None:
    done = run("conformance", *command)
    assert done.returncode == 2 and "Traceback" not in done.stderr and "Error" in done.stderr


PLANNER = "from reference.chunks import plan_mla_context_chunks as right\n"
FAULTY = PLANNER + "def plan_mla_context_chunks(lens, budget, *others): return right(lens, budget + 1, *others)\n"
CLEARING = (
    PLANNER
    + """def plan_mla_context_chunks(lens, *others):
    plan = right(list(lens), *others)
    lens.clear()
    return plan
"""
)


@pytest.mark.parametrize(
    ("source", "verdict"),
    [(PLANNER.replace("right", "plan_mla_context_chunks"), 0), (FAULTY, 1), (CLEARING, 1)],
    ids=["right", "a row too many", "the caller's list cleared"],
)
def test_the_planner_of_an_installed_vllm_is_found_and_judged(source: str, verdict: int, tmp_path: Path) -> None:
    package = tmp_path / "vllm/model_executor/layers/attention"
    package.mkdir(parents=True)
    (package / "mla_attention.py").write_text(source)
    done = gate("conformance/gate/test_plan.py", "--target", "vllm", PYTHONPATH=str(tmp_path))
    assert done.returncode == verdict, done.stdout[-2000:]
    assert "target vllm: a vLLM that is not installed as a distribution" in done.stdout


def test_without_torch_and_cupy_the_host_is_judged_and_each_other_target_says_what_it_lacks(tmp_path: Path) -> None:
    for missing in ("torch", "cupy", "ml_dtypes", "matplotlib"):
        (tmp_path / f"{missing}.py").write_text("raise ImportError('not installed here')\n")
    fresh = {"PYTHONPATH": str(tmp_path), "PYTHONUNBUFFERED": "1"}  # a process that has not imported them already
    part = ("conformance/gate/test_write_calls.py", "-k", "every_reader_reads_what", "--target", "auto")
    done = gate(*part, **fresh)
    assert done.returncode == 0 and "target host" in done.stdout, done.stdout
    listed = run("conformance", "targets", **fresh)
    assert listed.returncode == 0, listed.stderr
    assert "not judged: torch cannot be imported: not installed here" in listed.stdout
