"""What README.md says a user can type."""

import re
from pathlib import Path

import pytest

from conformance.selfcheck.running import ROOT, gate, run

README = (ROOT / "README.md").read_text()

KERNELS = """
from kernels.ops import cp_gather_and_upconvert_nvfp4_kv_cache as gather


def can_run():
    return True


__version__ = "1.0"


def hash_of_library():
    return 64 * "0"
"""


@pytest.fixture
def my_kernels(tmp_path: Path) -> Path:
    """The example target of README.md, on the CPU, with this project's own gather in the place of the user's."""
    block = re.search(r"```python\n(# my_kernels/target.py\n.*?)```", README, re.DOTALL)
    assert block
    (tmp_path / "my_kernels").mkdir()
    (tmp_path / "my_kernels/__init__.py").write_text(KERNELS)
    (tmp_path / "my_kernels/target.py").write_text(block[1].replace('TorchMemory("cuda")', 'TorchMemory("cpu")'))
    return tmp_path


def test_the_example_of_a_target_is_judged(my_kernels: Path) -> None:
    part = "conformance/gate/test_calls.py"
    done = gate("--target", "my_kernels.target:MyGather", part, PYTHONPATH=str(my_kernels))
    assert done.returncode == 0, done.stdout
    assert "target my_kernels.target:MyGather: my_kernels on the first GPU" in done.stdout


def test_the_example_of_a_target_can_fail(my_kernels: Path) -> None:
    package = my_kernels / "my_kernels/__init__.py"
    package.write_text(package.read_text() + "right = gather\ndef gather(*a): right(*a[:-1], None)\n")
    done = gate("--target", "my_kernels.target:MyGather", "-k", "boundaries", PYTHONPATH=str(my_kernels))
    assert done.returncode == 1 and "fault starts-ignored" in done.stdout, done.stdout


def test_every_option_of_the_gate_is_explained() -> None:
    options = run("pytest", "--help").stdout.partition("NVFP4 MLA conformance:")[2].partition("\n\n")[0]
    found = re.findall(r"^  (--[a-z-]+)", options, re.MULTILINE)
    assert len(found) >= 16 and [option for option in found if f"`{option}" not in README] == []
