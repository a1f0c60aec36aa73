"""What docs/vectors.md says: the two programs in it decode vectors without this project, and notice a wrong byte."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.selfcheck.running import ROOT
from conformance.vectors import files
from conformance.vectors.flags import KINDS

TEXT = (ROOT / "docs/vectors.md").read_text()
RECORDS = files.FOLDER / "read_record.nvfp4_ds_mla.json"


def program(language: str) -> str:
    block = re.search(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    assert block
    return block[1]


@pytest.fixture
def decoders(tmp_path: Path) -> list[list[str]]:
    """The command of each program; that of C++ is left out where there is no compiler."""
    script = tmp_path / "decode.py"
    script.write_text(program("python"))
    commands = [[sys.executable, "-I", str(script)]]  # isolated: nothing of the current folder or PYTHONPATH
    if compiler := shutil.which("g++") or shutil.which("clang++"):
        (tmp_path / "decode.cpp").write_text(program("cpp"))
        strict = ("-std=c++17", "-Wall", "-Wextra", "-Werror")
        subprocess.run([compiler, *strict, "decode.cpp", "-o", "decode"], cwd=tmp_path, check=True)
        commands.append([str(tmp_path / "decode")])
    return commands


def run(command: list[str], file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command, str(file)], cwd=file.parent, capture_output=True, text=True, check=False)


def test_the_programs_decode_every_record_and_notice_a_changed_byte(decoders: list[list[str]], tmp_path: Path) -> None:
    copy = tmp_path / "vectors.json"
    told = json.loads(RECORDS.read_text())
    right = f"{len(told['vectors'])} rows are right\n"
    for place, changed in enumerate(("input", "expected")):
        copy.write_text(RECORDS.read_text())
        assert [run(command, copy).stdout for command in decoders] == [right] * len(decoders)
        key = ("record", "row")[place]
        for vector, byte in ((0, 3), (3, -2)):
            wrong = json.loads(RECORDS.read_text())
            hexed = wrong["vectors"][vector][changed][key]
            at = 2 * byte % len(hexed)
            wrong["vectors"][vector][changed][key] = hexed[:at] + f"{int(hexed[at], 16) ^ 1:x}" + hexed[at + 1 :]
            copy.write_text(json.dumps(wrong))
            assert [run(command, copy).returncode for command in decoders] == [1] * len(decoders), (changed, byte)
    if len(decoders) == 1:
        pytest.skip("there is no C++ compiler: the program in C++ did not run")


def test_the_programs_know_nothing_of_this_project() -> None:
    for text in (program("python"), program("cpp")):
        assert not re.search("conformance|reference|kernels|fixtures", text)


def test_the_kinds_of_flags_are_explained_as_they_are() -> None:
    assert dict(re.findall(r"^\| (\w+) \| (.*) \|$", TEXT.partition("| kind | |")[2], re.MULTILINE)) == KINDS


def test_the_example_of_running_vectors_on_a_target_runs() -> None:
    example = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[1].replace('"host"', '"numpy"')
    done = subprocess.run([sys.executable, "-c", example], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and set(done.stdout.split("\n")) == {"[]", ""}, done
